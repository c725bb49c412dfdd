"""Comparison of two systems on the same rows, by clusters of rows: one t test and the interval that agrees with it.

A metric is a function of sums of columns over rows, such as a mean (total, size) or macro F1; rows come as sums by
cluster (clip, picture, scene). All functions are pure.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pipelines.metrics.intervals import FloatArray, Interval, Term, student_p, student_quantile, sums_by_cluster

SumStatistic: TypeAlias = Callable[..., NDArray[Any]]  # sums, (draws,) each -> values, (draws,); NaN if undefined

_TINY: Final = 1e-12  # rounding noise of standard errors
_SKEW_ALLOWANCE: Final = 0.5  # standard errors of a sample skewness that count as chance (docs/paired-tests.md)


@dataclass(frozen=True, slots=True, eq=False)
class PairedSums:
    """Sums of a metric's columns by cluster for A and B, (clusters, columns) each, and the metric of summed columns."""

    a: FloatArray
    b: FloatArray
    statistic: SumStatistic
    leverage: FloatArray  # (clusters,), the share of the rows that each holds; they add up to 1
    rows: float  # independent questions at most; repeats are no further ones

    @classmethod
    def of(cls, a: Sequence[Term], b: Sequence[Term]) -> Self:
        """Sum the columns of the terms of A and B by cluster, in any order of rows with equal values.

        Clusters without a row of the metric, such as a scene without a wrong answer for a share of wrong answers, are
        left out, since they are no evidence.
        """
        present = [Term(_present(first, second), first.clusters) for first, second in zip(a, b, strict=True)]
        sums = sums_by_cluster([*a, *b, *present])
        ends = np.cumsum([term.columns.shape[1] for term in a]).tolist()

        def statistic(*columns: NDArray[Any]) -> NDArray[Any]:
            parts = zip(a, [0, *ends[:-1]], ends, strict=True)
            values = [term.weight * term.statistic(*columns[start:end]) for term, start, end in parts]
            return np.asarray(sum(values[1:], start=values[0]))

        weights = np.array([abs(term.weight) for term in a])
        sizes = np.hstack(sums[2 * len(a) :])
        leverage = (sizes / np.maximum(sizes.sum(axis=0), 1.0)) @ (weights / weights.sum())
        rows = sum(float(size) / term.repeats for size, term in zip(sizes.sum(axis=0), a, strict=True))
        return cls(np.hstack(sums[: len(a)]), np.hstack(sums[len(a) : 2 * len(a)]), statistic, leverage, rows)

    @property
    def clusters(self) -> int:
        """Number of clusters."""
        return len(self.a)

    @property
    def values(self) -> tuple[float, float]:
        """The metric of A and of B; NaN where undefined."""
        first, second = (float(self.statistic(*side.sum(axis=0)[:, None])[0]) for side in (self.a, self.b))
        return first, second

    @property
    def contributions(self) -> FloatArray | None:
        """What each cluster adds to the error of B minus A, (clusters,), corrected for its leverage (CR2).

        The sum of their squares is the variance. None with fewer than two clusters, or if leaving one out leaves the
        metric undefined.
        """
        if self.clusters < 2 or (self.leverage > 1 - _TINY).any():
            return None
        total_a, total_b = self.a.sum(axis=0), self.b.sum(axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):
            gains = self.statistic(*np.vstack([total_b, total_b - self.b]).T) - self.statistic(
                *np.vstack([total_a, total_a - self.a]).T
            )
        changes = np.asarray((gains[0] - gains[1:]) * np.sqrt(1 - self.leverage), dtype=np.float64)
        return None if np.isnan(changes).any() else changes

    @property
    def freedom(self) -> float:
        """Degrees of freedom of the variance: clusters - 1 of equal size, fewer otherwise (Bell and McCaffrey 2002)."""
        squared = self.leverage**2
        shared = squared / (1 - self.leverage)
        return 1.0 / float(squared.sum() + shared.sum() ** 2 - (shared**2).sum())


def _present(a: Term, b: Term) -> FloatArray:
    """Return 1 for each row that the metric of A or B counts, (rows, 1)."""
    counted = np.asarray(np.hstack([a.columns, b.columns]).any(axis=1), dtype=np.float64)
    return counted[:, None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """How much a difference of two systems varies by clusters: its test, and the intervals that agree with it."""

    clusters: int
    freedom: float  # degrees of freedom of the standard error, by the sizes of the clusters
    error: float | None = None  # standard error; None if the clusters do not vary
    skewness: float = 0.0  # of the clusters' contributions, beyond what chance gives
    score_rows: int | None = None  # independent rows that are right or wrong; None of others
    is_fraction: bool = True

    def p(self, difference: float) -> float | None:
        """Return the two-sided p-value of a difference; None if it is not known how much clusters vary."""
        if self.error is None:
            if self.is_fraction:
                return student_p(math.sqrt(self.clusters * abs(difference)), self.freedom)
            return 1.0 if abs(difference) <= _TINY else None
        score = difference / self.error
        if self.score_rows:
            score /= math.sqrt(1 + score**2 / self.score_rows)
        root = math.sqrt(self.clusters)
        return max(student_p(value, self.freedom) for value in (score, _hall(score, self.skewness, root)))

    def ends(self, difference: float, alpha: float = 0.05) -> Interval | None:
        """Return the interval of a difference that leaves out 0 if and only if its p-value is below alpha."""
        q = student_quantile(self.freedom, 1 - alpha)
        if self.error is None:
            if not self.is_fraction:
                return None
            other = q**2 / (self.clusters + q**2)  # as many others may differ as Wilson's interval of none says
            return Interval(difference - other * (1 + difference), difference + other * (1 - difference))
        root, rows = math.sqrt(self.clusters), self.score_rows or math.inf
        least, most = (
            find(side * q, _hall_inverse(side * q, self.skewness, root)) for find, side in ((min, -1), (max, 1))
        )
        limit = 1.0 if self.is_fraction else math.inf
        low, high = (difference - self.error * _unscored(end, rows) for end in (most, least))
        return Interval(max(low, -limit), min(high, limit))


@dataclass(frozen=True, slots=True)
class Tested:
    """The difference of B from A."""

    difference: float
    spread: Spread | None  # None with one cluster, or if leaving one out leaves the difference undefined
    spread_freedom: float  # degrees of freedom, from how much single clusters weigh: skewed or rare differences

    @property
    def p(self) -> float | None:
        """Its p-value, two-sided."""
        return None if self.spread is None else self.spread.p(self.difference)

    @property
    def ends(self) -> Interval | None:
        """The 95% interval, which leaves out 0 if and only if p < 0.05."""
        return None if self.spread is None else self.spread.ends(self.difference)


def difference_test(pair: PairedSums, *, is_fraction: bool, is_share: bool = False) -> Tested | None:
    """Test B minus A by Student's t of the clusters' contributions; None if the difference is undefined.

    Independent rows that are right or wrong (`is_share`, a row a cluster) are tested with the variance under the
    hypothesis, as McNemar's test does: t becomes t / sqrt(1 + t^2 / rows). Other contributions widen the interval on
    one side by Hall's transformation (1992) of the skewness that exceeds half of its standard error.
    """
    first, second = pair.values
    difference = second - first
    if math.isnan(difference):
        return None
    changes = pair.contributions
    if changes is None:
        return Tested(difference, None, 0.0)
    squares = changes**2
    error = math.sqrt(float(squares.sum()))
    freedom = max(1.0, pair.freedom)
    if error <= _TINY:
        return Tested(difference, Spread(clusters=pair.clusters, freedom=freedom, is_fraction=is_fraction), freedom)
    weights = float(((squares - squares.mean()) ** 2).sum()) / error**4
    is_binary = is_share and pair.rows == pair.clusters
    spread = Spread(
        clusters=pair.clusters,
        freedom=freedom,
        error=error,
        skewness=0.0 if is_binary else _skewness(changes),
        score_rows=pair.clusters if is_binary else None,
        is_fraction=is_fraction,
    )
    return Tested(difference, spread, min(freedom, 2 / weights) if weights > _TINY else freedom)


def _skewness(changes: FloatArray) -> float:
    """Return the skewness of contributions, less what chance gives those of a symmetric distribution."""
    skewness = math.sqrt(len(changes)) * float((changes**3).sum()) / float((changes**2).sum()) ** 1.5
    return math.copysign(max(0.0, abs(skewness) - _SKEW_ALLOWANCE * math.sqrt(6 / len(changes))), skewness)


def _hall(t: float, skew: float, root: float) -> float:
    """Return Hall's transformation (1992) of a t of root^2 clusters."""
    return t + skew * t**2 / (3 * root) + skew**2 * t**3 / (27 * root**2) + skew / (6 * root)


def _hall_inverse(value: float, skew: float, root: float) -> float:
    if abs(skew) <= _TINY:
        return value
    inner = 1 + skew / root * (value - skew / (6 * root))
    return 3 * root / skew * (math.copysign(abs(inner) ** (1 / 3), inner) - 1)


def _unscored(score: float, rows: float) -> float:
    """Return the t whose value with the variance under the hypothesis is `score`."""
    return score / math.sqrt(1 - score**2 / rows) if score**2 < rows else math.copysign(math.inf, score)


def repeat_variance(differences: FloatArray, questions: NDArray[np.intp]) -> float | None:
    """Return the part of the variance of a mean difference that is due to chance in the answers (Miller 2024).

    It is the variance between the repeats of a question by the number of rows; None without repeats.
    """
    _, places, counts = np.unique(questions, return_inverse=True, return_counts=True)
    if len(differences) == len(counts):
        return None
    means = np.bincount(places, differences) / counts
    squares = float(((differences - means[places]) ** 2).sum())
    return squares / (len(differences) - len(counts)) / len(differences)


def least_clusters(alpha: float) -> int:
    """Return the clusters, six at least, whose differences of one sign have a p-value below alpha as signs alone."""
    return max(6, math.floor(math.log2(2 / alpha)) + 1)


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Return the p-values after Holm's correction (1979) for all of them, in their order; None stays and counts not."""
    ordered = sorted((p, index) for index, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    highest = 0.0
    for rank, (p, index) in enumerate(ordered):
        highest = max(highest, min(1.0, (len(ordered) - rank) * p))
        adjusted[index] = highest
    return adjusted
