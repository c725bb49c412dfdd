"""Chance and people that a model's number is compared with, on the same rows; every page and the terminal ask here."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from pipelines.benchmarks.base import BenchmarkDefinition
from pipelines.benchmarks.human import POOLED, SAME_ITEMS, HumanLevel, human_metric
from pipelines.benchmarks.records import is_person
from pipelines.benchmarks.results import Results
from pipelines.benchmarks.tables import TableValue
from pipelines.report.metrics_file import Measured, MetricKey

NumberIndex: TypeAlias = Mapping[tuple[str, MetricKey], Measured]  # by model and what it measures


@dataclass(frozen=True, slots=True)
class Chance:
    """What guessing scores: by arithmetic, or as a baseline of the run scored where no closed form is known."""

    value: float
    baseline: str = ""  # the model that guessed; '' by arithmetic

    def __str__(self) -> str:
        return f"as {self.baseline} guessed" if self.baseline else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class People:
    """What people score, and on which rows."""

    value: TableValue
    rows: Literal["same", "part", "other"]  # the model's rows, some of them, or rows that it did not answer
    model: TableValue | None = None  # the model on the rows of a part
    annotators: int = 1
    is_published: bool = False


class References:
    """Chance and people of one benchmark's numbers in one output."""

    def __init__(
        self, definition: BenchmarkDefinition, numbers: Sequence[Measured], baselines: Collection[str] = ()
    ) -> None:
        self._definition = definition
        self._baselines = baselines
        self._index: NumberIndex = {(row.model, row.key): row for row in numbers}
        by_model: dict[str, list[Measured]] = {}
        for row in numbers:
            by_model.setdefault(row.model, []).append(row)
        results = Results.of(definition.name, by_model, definition.published)
        self._levels = definition.human.reference_values(results)

    def levels(self, row: Measured) -> list[HumanLevel]:
        """Return what is known of people in the task and setting of a number, of the whole first."""
        levels = (
            level
            for level in self._levels
            if _is_measure(level, row, self._names(row)) and (not level.settings or row.setting in level.settings)
        )
        return sorted(levels, key=lambda level: (bool(level.subset), bool(level.category)))

    def chance(self, row: Measured) -> Chance | None:
        """Return what guessing scores on the rows of a number."""
        stated = self._definition.chance.get(row.metric)
        if isinstance(stated, float):
            return Chance(stated)
        value = chance_on_rows(row, self._levels, self._index, metric=stated or "", names=self._names(row))
        if value is not None:
            return Chance(value)
        guesses = ((model, self._index.get((model, row.key))) for model in sorted(self._baselines))
        return next((Chance(of.value, model) for model, of in guesses if of and of.value is not None), None)

    def people(self, row: Measured) -> People | None:
        """Return people of the run's files, all together or the only one; else the published value."""
        persons = [
            other
            for (model, key), other in self._index.items()
            if key == row.key and is_person(model) and model != POOLED and other.value is not None
        ]
        pooled = self._index.get((POOLED, row.key))
        value = pooled if pooled is not None and len(persons) > 1 else persons[0] if len(persons) == 1 else None
        if value is not None:
            return self._from_run(row, value, persons)
        return next((self._published(row, level) for level in self.levels(row) if level.value is not None), None)

    def _from_run(self, row: Measured, value: Measured, persons: Sequence[Measured]) -> People:
        key = row.key._replace(subset=SAME_ITEMS)
        model = self._index.get((row.model, key))
        human = self._index.get((row.model, key._replace(metric=human_metric(row.metric))))
        if model is not None and human is not None and model.n != row.n * len(persons):  # n counts people's answers
            return People(value=human.cell, rows="part", model=model.cell, annotators=len(persons))
        is_same = model is not None or all(person.n == row.n for person in persons)
        return People(value=value.cell, rows="same" if is_same else "other", annotators=len(persons))

    def _published(self, row: Measured, level: HumanLevel) -> People:
        value = TableValue(value=level.value, n=level.n)
        if level.items == "same":
            key = row.key._replace(subset=level.subset, category=level.category)
            if key == row.key:
                return People(value=value, rows="same", is_published=True)
            if (part := self._index.get((row.model, key))) is not None:
                return People(value=value, rows="part", model=part.cell, is_published=True)
        return People(value=value, rows="other", is_published=True)

    def _names(self, row: Measured) -> set[str]:
        """Return the names under which papers and people's values have the metric of a number."""
        definition = self._definition
        return {row.metric, definition.printed_headline if row.metric == definition.headline else row.metric}


def chance_on_rows(
    row: Measured, levels: Iterable[HumanLevel], index: NumberIndex, *, metric: str = "", names: Collection[str] = ()
) -> float | None:
    """Return chance by arithmetic on the rows of a number; None where no closed form is known.

    Args:
        row: the number.
        levels: what a benchmark knows of people and chance.
        index: all numbers of the output.
        metric: our metric that holds chance; '' for that of the levels.
        names: of the number's metric in levels; empty for its own.
    """
    measure_levels = [level for level in levels if _is_measure(level, row, names or {row.metric})]
    for name in dict.fromkeys(filter(None, (metric, *(level.chance_metric for level in measure_levels)))):
        key = row.key._replace(metric=name)
        chance = index.get((row.model, key))
        if chance is not None and chance.value is not None:
            return chance.value
    return next((level.chance for level in measure_levels if level.chance is not None), None)


def _is_measure(level: HumanLevel, row: Measured, names: Collection[str]) -> bool:
    return level.task == row.task and level.metric in names
