"""Means over UNPIE's rows: pooled, for each kind of pun, and the mean of both kinds, with their intervals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pipelines.benchmarks.aggregation import MetricSpec, mean_of_ratios, with_intervals
from pipelines.benchmarks.records import Metric
from pipelines.metrics.stats import FloatArray

KINDS: Final = ("Homo", "Hetero")
ALL: Final = "All"  # category of the mean of both kinds; the pooled value has category ''
NO_ROW: Final = "no row to measure"  # note of a metric without a denominator

BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class MetricScope:
    """Task, setting and subset of metrics."""

    task: str
    setting: str
    subset: str

    def metric(self, name: str, value: float | None, n: int, **fields: Any) -> Metric:
        """Return a metric of this scope."""
        return Metric(task=self.task, setting=self.setting, subset=self.subset, metric=name, value=value, n=n, **fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanMetric:
    """A metric that is the mean of N row values."""

    scope: MetricScope
    metric: str
    values: FloatArray  # (N,); NaN where a row that counts has no score
    kind: NDArray[Any]  # (N,), of `KINDS`
    cluster: NDArray[Any]  # (N,), what the bootstrap resamples: rows of one picture
    counted: BoolArray  # (N,): in the denominator
    failed: BoolArray  # (N,): reported with the metric, and not in the denominator
    note: str = ""
    missing_reason: str = "not scored"  # note where rows that count have no score
    empty_reason: str = NO_ROW  # note where no row counts
    unit: str = "fraction"

    def metrics(self) -> Iterator[Metric]:
        """Yield the pooled metric under category '', then each kind present, then the mean of both under `ALL`."""
        yield self._over(np.ones(len(self.values), dtype=np.bool_), "")
        parts = [self._over(self.kind == kind, kind) for kind in kinds_in(self.kind)]
        yield from parts
        if len(parts) == len(KINDS):
            mean, rows = mean_of_kinds(parts), self.counted
            yield kinds_interval(mean, self.values[rows], self.kind[rows], self.cluster[rows])

    def _over(self, rows: BoolArray, category: str) -> Metric:
        counted = rows & self.counted
        values = self.values[counted]
        reason = self.empty_reason if not values.size else self.missing_reason if np.isnan(values).any() else ""
        metric = self.scope.metric(
            self.metric,
            None if reason else float(values.mean()),
            int(values.size),
            n_failed=int((rows & self.failed).sum()),
            category=category,
            unit=self.unit,
            note=reason or self.note,
        )
        return mean_interval(metric, values, self.cluster[counted])


def kinds_in(kind: NDArray[Any]) -> list[str]:
    """Return the kinds that occur, in the paper's order."""
    present = set(kind.tolist())
    return [name for name in KINDS if name in present]


def mean_of_kinds(parts: Sequence[Metric]) -> Metric:
    """Return the mean of the values of both kinds, without an interval: the tables' columns of this name."""
    values = [part.value for part in parts if part.value is not None]
    complete, first = len(values) == len(parts), parts[0]
    return MetricScope(first.task, first.setting, first.subset).metric(
        first.metric,
        float(np.mean(values)) if complete else None,
        sum(part.n for part in parts),
        n_failed=sum(part.n_failed for part in parts),
        category=ALL,
        unit=first.unit,
        note=next((part.note for part in parts if complete or part.value is None), ""),
    )


def mean_interval(metric: Metric, values: FloatArray, clusters: NDArray[Any]) -> Metric:
    """Return a metric, the mean of values, (N,), with its interval where it has a value."""
    if metric.value is None:
        return metric
    return with_intervals([MetricSpec(metric, (values, np.ones(len(values))))], clusters, "float32")[0]


def kinds_interval(metric: Metric, values: FloatArray, kind: NDArray[Any], clusters: NDArray[Any]) -> Metric:
    """Return a metric, the mean of the means of both kinds, with its interval where it has a value."""
    if metric.value is None:
        return metric
    columns = [column for name in KINDS for column in (np.where(kind == name, values, 0.0), kind == name)]
    return with_intervals([MetricSpec(metric, tuple(columns), mean_of_ratios)], clusters, "float32")[0]
