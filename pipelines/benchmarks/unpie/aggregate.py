"""Means over UNPIE's rows: pooled, for each kind of pun, and the mean of both kinds, with their intervals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pipelines.benchmarks.records import Metric
from pipelines.metrics.stats import LEVEL, Interval, bootstrap_replicates

KINDS: Final = ("Homo", "Hetero")
ALL: Final = "All"
"""Category of the mean of both kinds; the pooled value has category ''."""
NO_ROW: Final = "no row to measure"

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a metric belongs."""

    task: str
    setting: str
    subset: str

    def metric(self, name: str, value: float | None, n: int, **more: Any) -> Metric:
        """A metric of this place."""
        return Metric(task=self.task, setting=self.setting, subset=self.subset, metric=name, value=value, n=n, **more)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSpec:
    """A metric that is the mean of N row values."""

    place: Place
    metric: str
    values: Floats
    """(N,); NaN where a row that counts has no score."""
    kind: NDArray[Any]
    """(N,), of `KINDS`."""
    cluster: NDArray[Any]
    """(N,), what the bootstrap resamples: rows of one picture."""
    counted: Bools
    """(N,): in the denominator."""
    failed: Bools
    """(N,): told beside it, and not in the denominator."""
    note: str = ""
    why: str = "not scored"
    """Said where rows that count have no score."""
    empty: str = NO_ROW
    """Said where there is no row that counts."""
    unit: str = "fraction"

    def metrics(self) -> Iterator[Metric]:
        """Pooled under category '', then the kinds that occur, then the mean of both under `ALL`."""
        yield self._over(np.ones(len(self.values), dtype=np.bool_), "")
        present = kinds_in(self.kind)
        parts = [self._over(self.kind == kind, kind) for kind in present]
        yield from parts
        if len(parts) == len(KINDS):
            yield mean_of_kinds(parts, self._interval_of_both(parts))

    def _over(self, rows: Bools, category: str) -> Metric:
        here = rows & self.counted
        values = self.values[here]
        why = self.empty if not values.size else self.why if np.isnan(values).any() else ""
        ends = None if why else interval(values[:, None], self.cluster[here], np.ones((values.size, 1), dtype=np.bool_))
        return self.place.metric(
            self.metric,
            None if why else float(values.mean()),
            int(values.size),
            n_failed=int((rows & self.failed).sum()),
            category=category,
            unit=self.unit,
            ci_low=ends.low if ends else None,
            ci_high=ends.high if ends else None,
            note=why or self.note,
        )

    def _interval_of_both(self, parts: Sequence[Metric]) -> Interval | None:
        if any(part.value is None for part in parts):
            return None
        here = self.counted
        groups = np.stack([self.kind[here] == kind for kind in KINDS], axis=1)
        return interval(np.repeat(self.values[here][:, None], len(KINDS), axis=1), self.cluster[here], groups)


def kinds_in(kind: NDArray[Any]) -> list[str]:
    """The kinds that occur, in the papers' order."""
    present = set(kind.tolist())
    return [name for name in KINDS if name in present]


def mean_of_kinds(parts: Sequence[Metric], ends: Interval | None = None) -> Metric:
    """The mean of the values of both kinds, as the tables' columns of this name are."""
    known = [part.value for part in parts if part.value is not None]
    complete, first = len(known) == len(parts), parts[0]
    return Place(first.task, first.setting, first.subset).metric(
        first.metric,
        float(np.mean(known)) if complete else None,
        sum(part.n for part in parts),
        n_failed=sum(part.n_failed for part in parts),
        category=ALL,
        unit=first.unit,
        ci_low=ends.low if ends else None,
        ci_high=ends.high if ends else None,
        note=next((part.note for part in parts if complete or part.value is None), ""),
    )


def interval(values: Floats, clusters: NDArray[Any], groups: Bools) -> Interval | None:
    """Percentile bootstrap of the mean over groups of the groups' means, resampling clusters.

    Args:
        values: (N, G), finite where the row is in the group.
        clusters: (N,), names.
        groups: (N, G): which rows each group's mean is over.

    Returns:
        None with fewer than two clusters, and where no draw has a row of every group.
    """
    numbers = np.unique(clusters.astype(str), return_inverse=True)[1].reshape(-1)
    total = int(numbers.max()) + 1 if numbers.size else 0
    if total < 2:
        return None
    width = groups.shape[1]
    columns = [np.where(groups[:, g], values[:, g], 0.0) for g in range(width)]
    columns += [groups[:, g].astype(np.float64) for g in range(width)]
    sums = np.stack([np.bincount(numbers, weights=column, minlength=total) for column in columns], axis=1)
    drawn = _draws(total) @ sums.astype(np.float32)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = (drawn[:, :width] / drawn[:, width:]).mean(axis=1)
    means = means[np.isfinite(means)]
    if not means.size:
        return None
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(means.astype(np.float64), [tail, 1 - tail])
    return Interval(float(low), float(high))


@lru_cache(maxsize=3)
def _draws(clusters: int) -> NDArray[np.float32]:
    """How often each cluster is drawn, (draws, clusters); the same for every metric, and dear to make."""
    every = np.arange(clusters)
    drawn = bootstrap_replicates(every, every, statistic=lambda _values, weights: weights).astype(np.float32)
    drawn.setflags(write=False)
    return drawn


def by_category(metrics: Sequence[Metric], name: str) -> Mapping[tuple[str, str], Metric]:
    """The metrics of a name by subset and category."""
    return {(one.subset, one.category): one for one in metrics if one.metric == name}
