"""One number of a report: what it measures, of which model, and what it rests on."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Self

from pipelines.benchmarks import benchmark
from pipelines.benchmarks.records import Metric
from pipelines.benchmarks.results import Results
from pipelines.benchmarks.tables import TableValue

NUMBERS: Final = ("value", "ci_low", "ci_high", "ci_df", "set_ci_low", "set_ci_high")


def number_or_none(value: object) -> float | None:
    """Return a finite number; None for null, NaN, infinity and anything else."""
    if isinstance(value, bool) or not hasattr(value, "__float__"):
        return None
    number = float(value)
    return number if math.isfinite(number) else None


class MetricSource(NamedTuple):
    """What a number rests on, each '' where that is what the tables show."""

    judge: str = ""  # of several: whose verdicts they are
    prompt_set: str = ""
    captioner: str = ""


TABLES: Final = MetricSource()


class MetricKey(NamedTuple):
    """What a number of a benchmark measures."""

    metric: str
    task: str
    setting: str
    subset: str = ""
    category: str = ""
    source: MetricSource = TABLES


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured(Metric):
    """A metric of one model; its unit is never ''."""

    benchmark: str
    model: str
    source: MetricSource = TABLES
    is_plain: bool = False
    """A difference, length or score, which is never printed as percent; unknown of what is read from a file."""

    @classmethod
    def of(cls, benchmark: str, model: str, metric: Metric, source: MetricSource = TABLES) -> Self:
        """Return a benchmark's metric of a model, with None for NaN and infinity."""
        fields: dict[str, Any] = {name: getattr(metric, name) for name in Metric.__slots__}
        fields |= {name: number_or_none(fields[name]) for name in NUMBERS}
        fields |= {"unit": metric.unit or "fraction", "is_plain": metric.unit not in ("fraction", "count")}
        return cls(**fields, benchmark=benchmark, model=model, source=source)

    def __getitem__(self, key: str) -> Any:
        """Return the value of a key of `metrics.json`, as of a row read from there."""
        return self.label if key == "metric" else getattr(self, key)

    @property
    def key(self) -> MetricKey:
        """What it measures."""
        return MetricKey(self.metric, self.task, self.setting, self.subset, self.category, self.source)

    @property
    def label(self) -> str:
        """The metric as people read it, with the judge of several."""
        return f"{self.metric}@{self.source.judge}" if self.source.judge else self.metric

    @property
    def is_overall(self) -> bool:
        """Whether it is of all items, with the prompts and captions of the tables; by whichever judge."""
        return not (self.subset or self.category or self.source.prompt_set or self.source.captioner)

    @property
    def is_whole(self) -> bool:
        """Whether it is of all items and rests on what the tables show."""
        return self.is_overall and not self.source.judge

    @property
    def cell(self) -> TableValue:
        """The number as a cell; of a missing value its note."""
        return TableValue(
            value=self.value,
            low=self.ci_low,
            high=self.ci_high,
            n=self.n,
            n_failed=self.n_failed,
            note=self.note if self.value is None else "",
        )


def metrics_by_model(name: str, rows: Sequence[Measured], judge: str = "") -> Results:
    """Return the metrics of a benchmark by model, of one judge or those of its tables."""
    metrics: dict[str, list[Metric]] = {}
    for row in rows:
        if row.benchmark == name and row.source == MetricSource(judge):
            metrics.setdefault(row.model, []).append(row)
    return Results.of(name, metrics, () if judge else benchmark(name).published)
