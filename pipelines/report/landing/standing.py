"""How models stand on the headline of a benchmark: ranked, beside people, chance and the best published model."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pipelines.benchmarks.base import BenchmarkDefinition
from pipelines.benchmarks.human import HumanLevel
from pipelines.benchmarks.metrics_kernel.labels import metric_label
from pipelines.benchmarks.records import is_person
from pipelines.metrics.intervals import NORMAL, student_p, student_quantile
from pipelines.report.compare import Difference, PairKey
from pipelines.report.human_comparison import published_values
from pipelines.report.metrics_file import Measured
from pipelines.report.references import Chance, People, References

PEOPLE_IN_PRINT: Final = ("Human", "Humans", "People")
NO_MODELS: Final = (*PEOPLE_IN_PRINT, "Random")
_LEVEL: Final = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """The best published model in the same task and setting."""

    model: str
    value: float
    metric: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The models of a report on the headline of one benchmark."""

    benchmark: str
    title: str
    metric: str
    task: str
    setting: str
    ranked: tuple[Measured, ...] = ()  # with a value, the best first; no person and no baseline
    unmeasured: tuple[Measured, ...] = ()
    baselines: tuple[Measured, ...] = ()  # models that guess
    people: People | None = None
    chance: Chance | None = None
    published: Published | None = None
    lead: Difference | None = None
    """The first of the ranking minus the second, corrected for all pairs of models and benchmarks."""
    is_lower_better: bool = False
    dollars: float | None = None  # what the answers of all models to this benchmark cost, where a price is known

    @property
    def group(self) -> tuple[str, str, str]:
        """Benchmark, task and setting of the headline."""
        return self.benchmark, self.task, self.setting

    @property
    def where(self) -> str:
        """What is measured, in words."""
        return f"{metric_label(self.metric)}, {self.task}, {self.setting}"

    @property
    def is_led(self) -> bool:
        """Whether the first is significantly better than the second."""
        if self.lead is None or self.lead.verdict != "differs" or len(self.ranked) < 2:
            return False
        first, second = (row.value or 0.0 for row in self.ranked[:2])
        return self.lead.delta * (first - second) > 0  # of the rows that both answered, and of all

    @property
    def leader(self) -> tuple[str, str, str] | None:
        """Task, setting and model of a significant lead."""
        return (self.task, self.setting, self.ranked[0].model) if self.is_led else None

    @property
    def beats_chance(self) -> bool | None:
        """Whether the best is better than chance, as the best of so many models; None if either is unknown."""
        best = self.ranked[0] if self.ranked else None
        if best is None or best.value is None or self.chance is None:
            return None
        end = best.ci_high if self.is_lower_better else best.ci_low
        if end is None:
            return None
        sign = -1 if self.is_lower_better else 1
        gap, reach = sign * (best.value - self.chance.value), sign * (best.value - end)
        if gap <= 0 or reach <= 0:
            return gap > 0
        deviations = student_quantile(best.ci_df) if best.ci_df else NORMAL
        return student_p(deviations * gap / reach, best.ci_df or math.inf) < _LEVEL / len(self.ranked)

    @property
    def is_percent(self) -> bool:
        """Whether its values are fractions, which people read as percent."""
        return not any(row.is_plain for row in (*self.ranked, *self.unmeasured))


def standing_of(definition: BenchmarkDefinition, numbers: Sequence[Measured], baselines: Collection[str]) -> Standing:
    """Return the standing of a benchmark's models from the numbers that its tables show."""
    rows = [row for row in numbers if row.metric == definition.headline and row.is_whole]
    group = definition.headline_group((row.task, row.setting) for row in rows)
    task, setting = group or definition.headline_at
    here = [row for row in rows if (row.task, row.setting) == (task, setting)]
    models = [row for row in here if not is_person(row.model) and row.model not in baselines]
    is_lower_better = definition.headline in definition.lower_is_better
    sign = 1 if is_lower_better else -1
    measured = sorted((row for row in models if row.value is not None), key=lambda row: sign * (row.value or 0.0))
    at = Standing(
        benchmark=definition.name,
        title=definition.title,
        metric=definition.headline,
        task=task,
        setting=setting,
        ranked=tuple(measured),
        unmeasured=tuple(row for row in models if row.value is None),
        baselines=tuple(row for row in here if row.model in baselines),
        is_lower_better=is_lower_better,
    )
    references = References(definition, numbers, baselines)
    of = next(iter((*at.ranked, *models, *here)), None)  # the best stands for the rows of all
    if of is None:
        return at
    return replace(
        at,
        people=references.people(of),
        chance=references.chance(of),
        published=_best_published(definition, references.levels(of), task, setting),
    )


def with_leads(standings: Iterable[Standing], tests: Mapping[PairKey, Difference]) -> tuple[Standing, ...]:
    """Return the standings with the test of the first against the second."""
    return tuple(replace(at, lead=_lead(at, tests)) if len(at.ranked) > 1 else at for at in standings)


def _lead(at: Standing, tests: Mapping[PairKey, Difference]) -> Difference | None:
    first, second = (row.model for row in at.ranked[:2])
    test = tests.get((at.benchmark, frozenset((first, second))))
    if test is None or (test.task, test.setting) != (at.task, at.setting):
        return None
    return test if test.model_b == first else test.flipped()


def _best_published(
    definition: BenchmarkDefinition, levels: Sequence[HumanLevel], task: str, setting: str
) -> Published | None:
    settings, name = definition.publication.settings, definition.printed_headline or definition.headline
    whole = [
        row for row in definition.published if (row.metric, row.task, row.subset, row.category) == (name, task, "", "")
    ]
    for rows in (whole, *(list(published_values(level, definition.published)) for level in levels)):
        here = [
            Published(model=row.model, value=float(row.value), metric=row.metric)
            for row in rows
            if row.value is not None and not row.doubtful and row.model not in NO_MODELS
            if settings.get(row.setting, row.setting) == setting
        ]
        if here:
            best = min if definition.headline in definition.lower_is_better else max
            return best(here, key=lambda published: published.value)
    return None
