"""A mean over rows of one cell of the sweep, for the whole and for each of MAIA's categories."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from pipelines.benchmarks.maia.answers import COLUMNS
from pipelines.benchmarks.maia.scored_rows import Bools, Numbers
from pipelines.benchmarks.records import Metric
from pipelines.metrics.stats import LEVEL, FloatArray, Interval, bootstrap_replicates

NO_ROW: Final = "no row to measure"
"""Note of a metric without a denominator."""


def interval(values: FloatArray, videos: Numbers) -> Interval | None:
    """The interval of a mean that `metrics.stats.bootstrap_ci` gives, with its draws made once for all metrics.

    One model has some 250 intervals over the same videos, and drawing takes ten times as long as all the rest.

    Args:
        values: (N,), finite.
        videos: (N,), numbers of the videos.

    Returns:
        None with fewer than two videos.
    """
    numbers = np.unique(videos, return_inverse=True)[1].reshape(-1)
    sizes = np.bincount(numbers)
    if len(sizes) < 2:
        return None
    drawn = _draws(len(sizes)) @ np.stack([np.bincount(numbers, weights=values), sizes], axis=1)
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(drawn[:, 0] / drawn[:, 1], [tail, 1 - tail])
    return Interval(float(low), float(high))


@lru_cache(maxsize=4)
def _draws(videos: int) -> FloatArray:
    """How often each video is drawn, (draws, videos)."""
    every = np.arange(videos)
    counts = bootstrap_replicates(every, every, statistic=lambda _values, weights: weights)
    counts.setflags(write=False)
    return counts


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSpec:
    """A metric that is the mean of N row values."""

    task: str
    setting: str
    metric: str
    values: FloatArray
    """(N,); NaN where a row that counts has no score."""
    column: Numbers
    """(N,), places in `COLUMNS`."""
    video: Numbers
    """(N,), what the bootstrap resamples."""
    failed: Bools
    """(N,): the request ended in an error."""
    counted: Bools
    """(N,): in the denominator."""
    blocked: str = ""
    """Why no value may be given at all; '' for no reason."""
    note: str = ""
    """How to read the values."""
    lacks: Callable[[Bools], str] = lambda _rows: "not scored"
    """Says of rows, (N,), without a score why they have none."""
    unit: str = "fraction"
    interval: bool = True

    def whole(self) -> Metric:
        """Over all rows."""
        return self._over(np.ones(len(self.values), dtype=np.bool_), "")

    def metrics(self) -> Iterator[Metric]:
        """Over all rows, over those of each category that occurs, and the mean of categories of unequal size."""
        yield self.whole()
        places, sizes = np.unique(self.column, return_counts=True)
        parts = [self._over(self.column == place, COLUMNS[place]) for place in places]
        yield from parts
        if len(set(sizes.tolist())) > 1:
            yield self._macro(parts)

    def _over(self, rows: Bools, category: str) -> Metric:
        here = rows & self.counted
        values, unscored = self.values[here], here & np.isnan(self.values)
        why = self.blocked or (self.lacks(unscored) if unscored.any() else "") or ("" if values.size else NO_ROW)
        ends = interval(values, self.video[here]) if self.interval and not why else None
        return Metric(
            task=self.task,
            setting=self.setting,
            category=category,
            metric=self.metric,
            value=None if why else float(values.mean()),
            n=int(values.size),
            n_failed=int((rows & self.failed).sum()),
            unit=self.unit,
            ci_low=ends.low if ends else None,
            ci_high=ends.high if ends else None,
            note=why or self.note,
        )

    def _macro(self, parts: list[Metric]) -> Metric:
        """The unweighted mean of the category columns."""
        known = [part.value for part in parts if part.value is not None]
        complete = len(known) == len(parts)
        return Metric(
            task=self.task,
            setting=self.setting,
            metric=f"{self.metric}_macro",
            value=float(np.mean(known)) if complete else None,
            n=sum(part.n for part in parts),
            n_failed=sum(part.n_failed for part in parts),
            unit=self.unit,
            note=self.note if complete else next(part.note for part in parts if part.value is None),
        )
