"""Means over rows of one task and setting, for the whole and for each of MAIA's categories, with intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from pipelines.benchmarks.aggregation import MetricSpec, SharedDraws
from pipelines.benchmarks.maia.categories import COLUMNS
from pipelines.benchmarks.maia.scored_rows import BoolArray, IntArray
from pipelines.benchmarks.records import Metric
from pipelines.metrics.stats import FloatArray

NO_ROW: Final = "no row to measure"  # note of a metric without a denominator


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanMetric:
    """A metric that is the mean of N row values."""

    draws: SharedDraws  # sets the intervals
    task: str
    setting: str
    metric: str
    values: FloatArray  # (N,); NaN where a row that counts has no score
    column: IntArray  # (N,), indices in `COLUMNS`
    video: IntArray  # (N,), the clusters that the bootstrap resamples
    failed: BoolArray  # (N,): the request ended in an error
    counted: BoolArray  # (N,): in the denominator
    blocked: str = ""  # why the metric has no value at all; '' where it may have one
    note: str = ""  # note of metrics that have a value
    missing_reason: Callable[[BoolArray], str] = lambda _rows: "not scored"  # why rows, (N,), have no score
    unit: str = "fraction"

    def whole(self) -> Metric:
        """Return the metric over all rows."""
        return self._over(np.ones(len(self.values), dtype=np.bool_), "")

    def metrics(self) -> Iterator[Metric]:
        """Yield the metric over all rows, over each category present, and the mean of categories of unequal size."""
        yield self.whole()
        indices, sizes = np.unique(self.column, return_counts=True)
        parts = [self._over(self.column == index, COLUMNS[index]) for index in indices]
        yield from parts
        if len(set(sizes.tolist())) > 1:
            yield self._macro(parts)

    def _over(self, rows: BoolArray, category: str) -> Metric:
        counted = rows & self.counted
        values, unscored = self.values[counted], counted & np.isnan(self.values)
        reason = (
            self.blocked or (self.missing_reason(unscored) if unscored.any() else "") or ("" if values.size else NO_ROW)
        )
        metric = Metric(
            task=self.task,
            setting=self.setting,
            category=category,
            metric=self.metric,
            value=None if reason else float(values.mean()),
            n=int(values.size),
            n_failed=int((rows & self.failed).sum()),
            unit=self.unit,
            note=reason or self.note,
        )
        if reason:
            return metric
        return self.draws.add([MetricSpec(metric, (values, np.ones(len(values))))], self.video[counted])[0]

    def _macro(self, parts: Sequence[Metric]) -> Metric:
        values = [part.value for part in parts if part.value is not None]
        complete = len(values) == len(parts)
        return Metric(
            task=self.task,
            setting=self.setting,
            metric=f"{self.metric}_macro",
            value=float(np.mean(values)) if complete else None,
            n=sum(part.n for part in parts),
            n_failed=sum(part.n_failed for part in parts),
            unit=self.unit,
            note=self.note if complete else next(part.note for part in parts if part.value is None),
        )
