"""Comparison of two systems on the same rows, by clusters of rows: permutation test, intervals, effect size.

A metric is a function of sums of columns over rows, such as a mean (total, size) or macro F1; rows come as sums by
cluster (clip, picture, scene). All functions are pure: draws depend on the number of clusters alone.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pipelines.metrics.intervals import FloatArray, Term, sums_by_cluster
from pipelines.metrics.stats import SEED

SumStatistic: TypeAlias = Callable[..., NDArray[Any]]  # sums, (draws,) each -> values, (draws,); NaN if undefined

EXACT_CLUSTERS: Final = 13  # up to 2**13 permutations are enumerated
PERMUTATIONS: Final = 10_000  # draws where there are more clusters
_BLOCK_CELLS: Final = 8_000_000  # drawn swaps in memory at once
_TOLERANCE: Final = 1e-9  # relative: differences of equal size may differ by rounding
_EXACT_IN_FLOAT32: Final = 2**24


@dataclass(frozen=True, slots=True, eq=False)
class PairedSums:
    """Sums of a metric's columns by cluster for A and B, (clusters, columns) each, and the metric of summed columns."""

    a: FloatArray
    b: FloatArray
    statistic: SumStatistic

    @classmethod
    def of(cls, a: Sequence[Term], b: Sequence[Term]) -> Self:
        """Sum the columns of the terms of A and B by cluster, in any order of rows with equal values.

        Clusters without a row of the metric, such as a scene without a wrong answer for a share of wrong answers, are
        left out, since they are no evidence.
        """
        sums = sums_by_cluster([*a, *b])
        ends = np.cumsum([term.columns.shape[1] for term in a]).tolist()

        def statistic(*columns: NDArray[Any]) -> NDArray[Any]:
            parts = zip(a, [0, *ends[:-1]], ends, strict=True)
            values = [term.weight * term.statistic(*columns[start:end]) for term, start, end in parts]
            return np.asarray(sum(values[1:], start=values[0]))

        return cls(np.hstack(sums[: len(a)]), np.hstack(sums[len(a) :]), statistic)

    @property
    def clusters(self) -> int:
        """Number of clusters."""
        return len(self.a)

    @property
    def differing(self) -> NDArray[np.intp]:
        """Places of the clusters in which A and B differ."""
        return np.flatnonzero((self.a != self.b).any(axis=1))

    @property
    def values(self) -> tuple[float, float]:
        """The metric of A and of B; NaN where undefined."""
        first, second = (float(self.statistic(*side.sum(axis=0)[:, None])[0]) for side in (self.a, self.b))
        return first, second

    def gain(self, a: NDArray[Any], b: NDArray[Any]) -> FloatArray:
        """Return the metric of B minus that of A, (draws,), from sums, (draws, columns) each."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(self.statistic(*b.T) - self.statistic(*a.T), dtype=np.float64)


def permutation_p(pair: PairedSums) -> float | None:
    """Return the two-sided p-value of a paired permutation test; None where the difference is undefined.

    Under the hypothesis of no difference, A's and B's answers to a whole cluster may be swapped. All 2**k swaps of the
    k clusters in which the two differ are enumerated where `is_exact`; else p = (b + 1) / (m + 1) with b of m drawn
    swaps (Phipson and Smyth 2010) whose difference is at least as large. A swap without a value counts as such.
    """
    observed = float(pair.gain(pair.a.sum(axis=0)[None], pair.b.sum(axis=0)[None])[0])
    if math.isnan(observed):
        return None
    differing = pair.differing
    change = (pair.b - pair.a)[differing]
    moving = change.any(axis=0)  # a column of sizes is often the same in both
    moved = np.zeros((PERMUTATIONS, change.shape[1]))
    total_a, total_b = pair.a.sum(axis=0), pair.b.sum(axis=0)
    precision = np.float32 if _is_exact_in_float32(pair) else np.float64
    reached, permutations = 0, 0
    for swaps in _swaps(len(change)):
        moved[: len(swaps), moving] = swaps.astype(precision) @ change[:, moving].astype(precision)
        gains = pair.gain(total_a + moved[: len(swaps)], total_b - moved[: len(swaps)])
        reached += int(np.count_nonzero(~(np.abs(gains) < abs(observed) * (1 - _TOLERANCE) - 1e-15)))
        permutations += len(swaps)
    return reached / permutations if is_exact(pair) else (reached + 1) / (permutations + 1)


def is_exact(pair: PairedSums) -> bool:
    """Return whether so few clusters differ that all permutations are enumerated."""
    return len(pair.differing) <= EXACT_CLUSTERS


def smallest_p(clusters: int) -> float:
    """Return the smallest p-value that `permutation_p` can give with this many clusters."""
    return 2 / 2**clusters if clusters <= EXACT_CLUSTERS else 1 / (PERMUTATIONS + 1)


def _is_exact_in_float32(pair: PairedSums) -> bool:
    """Return whether all sums are counts that single precision holds; products then take half of the time."""
    size = sum(float(np.abs(side).sum()) for side in (pair.a, pair.b))
    return size < _EXACT_IN_FLOAT32 and all(bool((side == np.rint(side)).all()) for side in (pair.a, pair.b))


def _swaps(clusters: int) -> Iterator[NDArray[np.uint8]]:
    """Yield blocks of 0 and 1, (swaps, clusters): which clusters are swapped.

    The opposite of a swap has the opposite difference, so an enumeration leaves the last cluster as it is.
    """
    if clusters <= EXACT_CLUSTERS:
        free = max(0, clusters - 1)
        numbers = np.arange(2**free)[:, None]
        yield np.hstack([numbers >> np.arange(free) & 1, np.zeros((2**free, clusters - free))]).astype(np.uint8)
        return
    generator = np.random.default_rng([SEED, clusters])
    block = max(1, _BLOCK_CELLS // clusters)
    width = -(-clusters // 8)
    for start in range(0, PERMUTATIONS, block):
        rows = min(block, PERMUTATIONS - start)
        bits = np.frombuffer(generator.bytes(rows * width), dtype=np.uint8).reshape(rows, width)
        yield np.unpackbits(bits, axis=1, count=clusters)


def jackknife_error(pair: PairedSums) -> float | None:
    """Return the standard error of B minus A, leaving out one cluster at a time; None with one cluster or undefined."""
    if pair.clusters < 2:
        return None
    gains = pair.gain(pair.a.sum(axis=0) - pair.a, pair.b.sum(axis=0) - pair.b)
    if np.isnan(gains).any():
        return None
    k = pair.clusters
    return math.sqrt((k - 1) / k * float(((gains - gains.mean()) ** 2).sum()))


def cohen_h(a: float, b: float) -> float:
    """Return Cohen's h (1988) of two proportions, positive where B is higher: 0.2 is small, 0.5 medium, 0.8 large."""
    return 2 * math.asin(math.sqrt(b)) - 2 * math.asin(math.sqrt(a))


def cohen_d(pair: PairedSums) -> float | None:
    """Return B minus A in standard deviations of the clusters' contributions; None where these do not vary."""
    error = jackknife_error(pair)
    first, second = pair.values
    return (second - first) / (error * math.sqrt(pair.clusters)) if error else None


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Return the p-values after Holm's correction (1979) for all of them, in their order; None stays and counts not."""
    ordered = sorted((p, index) for index, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    highest = 0.0
    for rank, (p, index) in enumerate(ordered):
        highest = max(highest, min(1.0, (len(ordered) - rank) * p))
        adjusted[index] = highest
    return adjusted
