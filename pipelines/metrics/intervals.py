"""The 95% interval of every number of a report: of shares, means of scores, metrics of a corpus, and differences.

A number is a weighted sum of statistics of sums over rows. Rows that share a clip, picture or scene are a cluster, the
unit that repeats: with k clusters, ends are Student's t of k - 1 degrees of freedom away. The percentile bootstrap of
clusters covers 21 to 88% instead of 95% where there are few clusters or shares near 0 and 1 (docs/intervals.md).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]
Statistic: TypeAlias = Callable[..., NDArray[Any]]  # sums, (N,) each -> N values; NaN where undefined

LEVEL: Final = 0.95
FRACTION: Final = (0.0, 1.0)
DIFFERENCE: Final = (-1.0, 1.0)  # of fractions
_TINY: Final = 1e-12  # rounding noise of standard errors
_ROUNDING: Final = 1e-9  # of degrees of freedom, which are whole numbers for a single term


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval, in the unit of its number."""

    low: float
    high: float
    freedom: int = 0  # degrees of freedom of the t that its ends are away; 0 where it was made with another quantile


def ratio(total: FloatArray, size: FloatArray) -> FloatArray:
    """Return means from sums and numbers of rows; NaN without rows."""
    with np.errstate(invalid="ignore", divide="ignore"):
        share: FloatArray = total / size
    return share


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """One summand of a number: `weight` times a statistic of the sums of columns over rows."""

    columns: FloatArray  # (rows, K)
    clusters: NDArray[Any]  # (rows,), what shares media or origin
    statistic: Statistic = ratio
    weight: float = 1.0
    repeats: int = 1  # rows of a question, which are no further rows where none differs

    @property
    def is_share(self) -> bool:
        """Whether the statistic is a share of rows."""
        return self.statistic is ratio and bool(np.isin(self.columns, (0.0, 1.0)).all())


def interval(terms: Sequence[Term], ends: tuple[float, float]) -> Interval | None:
    """Return the 95% interval of a sum of terms within the ends that its value may have.

    - Shares, and means of shares: Wilson's score interval (1927) with the effective number of rows
      n_eff = min(n, p (1 - p) / V), V the variance between clusters; n where no row differs.
    - Means of scores, and differences: the jackknife that leaves out one cluster at a time.
    - Other statistics that are fractions, such as F1 and BLEU: the same jackknife on the logit scale.
    - Numbers that no row of theirs would change: Wilson's of all n rows for fractions; for a difference of 0, what so
      many rows without a change allow; else None.

    None with fewer than two clusters with rows, or where leaving one out leaves the number undefined.
    """
    sums = sums_by_cluster(terms)
    values = _without_each(terms, sums)
    if len(sums[0]) < 2 or np.isnan(values).any():
        return None
    freedom = _freedom(values[:, 1:], sums)
    result = _interval(terms, sums, values, ends, student_quantile(freedom))
    return None if result is None else replace(result, freedom=freedom)


def _interval(
    terms: Sequence[Term], sums: Sequence[FloatArray], values: FloatArray, ends: tuple[float, float], t: float
) -> Interval | None:
    value = float(values[:, 0].sum())
    error = math.sqrt(_jackknife_variance(values[:, 1:].sum(axis=0)))
    rows = _rows(terms)
    if ends == FRACTION and 0 <= value <= 1:
        spread = value * (1 - value)
        if all(term.is_share and term.weight > 0 for term in terms):
            variance = _variance(terms, sums)
            return wilson(value, min(rows, spread / variance) if variance * rows > spread * _TINY else rows, t)
        if error <= _TINY or spread <= _TINY:
            return wilson(value, rows, t)
        if any(term.statistic is not ratio for term in terms):
            return _logit_interval(value, t * error / spread)
    if error <= _TINY:
        return _unchanged(value, terms, t) if ends == DIFFERENCE else None
    return Interval(max(value - t * error, ends[0]), min(value + t * error, ends[1]))


def wilson(share: float, n: float, quantile: float) -> Interval:
    """Return Wilson's score interval of a share of n rows; one that is 0 or 1 is an end of it."""
    squared = quantile**2
    center = (share + squared / (2 * n)) / (1 + squared / n)
    reach = quantile * math.sqrt(share * (1 - share) / n + squared / (4 * n**2)) / (1 + squared / n)
    low, high = max(float(center - reach), 0.0), min(float(center + reach), 1.0)
    return Interval(low if share > _TINY else 0.0, high if share < 1 - _TINY else 1.0)


def _logit_interval(value: float, reach: float) -> Interval:
    logit = math.log(value / (1 - value))
    low, high = (0.5 * (1 + math.tanh((logit + side) / 2)) for side in (-reach, reach))
    return Interval(low, high)


def _unchanged(value: float, terms: Sequence[Term], t: float) -> Interval | None:
    """Return what rows of which none differs allow: as many of them may differ as Wilson's upper end says."""
    if abs(value) > _TINY:
        return None
    sides = [[term for term in terms if term.weight * sign > 0] for sign in (1, -1)]
    reach = wilson(0.0, min(_rows(side) for side in sides if side), t).high
    return Interval(-reach, reach)


def _without_each(terms: Sequence[Term], sums: Sequence[FloatArray]) -> FloatArray:
    """Return each term's value, and its value without each cluster, (terms, 1 + clusters)."""
    values = []
    with np.errstate(invalid="ignore", divide="ignore"):
        for term, by_cluster in zip(terms, sums, strict=True):
            total = by_cluster.sum(axis=0)
            values.append(term.weight * term.statistic(*np.vstack([total, total - by_cluster]).T))
    return np.array(values, dtype=np.float64)


def _jackknife_variance(without: FloatArray) -> float:
    clusters = len(without)
    return (clusters - 1) / clusters * float(((without - without.mean()) ** 2).sum())


def _freedom(without: FloatArray, sums: Sequence[FloatArray]) -> int:
    """Return the degrees of freedom: the clusters less one, fewer where one term of few makes most variance (Welch)."""
    most = len(sums[0]) - 1
    variances = np.array([_jackknife_variance(row) for row in without])
    freedoms = np.array([max(1, np.count_nonzero((by_cluster != 0).any(axis=1)) - 1) for by_cluster in sums])
    if not variances.any():
        return min(most, int(freedoms.min()))
    welch = float(variances.sum() ** 2 / (variances**2 / freedoms).sum())
    return max(1, min(most, math.floor(welch + _ROUNDING)))


def sums_by_cluster(terms: Sequence[Term]) -> list[FloatArray]:
    """Return the sums of each term's columns by cluster, (clusters, K), of the clusters that have a row of any."""
    names, inverse = np.unique(np.concatenate([term.clusters for term in terms]), return_inverse=True)
    numbers = np.split(inverse.reshape(-1), np.cumsum([len(term.clusters) for term in terms])[:-1])
    sums: list[FloatArray] = [
        np.array([np.bincount(of_rows, column, len(names)) for column in term.columns.T], dtype=np.float64).T
        for term, of_rows in zip(terms, numbers, strict=True)
    ]
    has_rows = np.any([(by_cluster != 0).any(axis=1) for by_cluster in sums], axis=0)
    return [by_cluster[has_rows] for by_cluster in sums]


def _rows(terms: Sequence[Term]) -> float:
    """Return the number of rows; of a mean of parts the number in one part that would give the same variance."""
    sizes = [np.count_nonzero(term.columns.any(axis=1)) / term.repeats for term in terms]
    weights = [abs(term.weight) for term in terms]
    return sum(weights) ** 2 / sum(weight**2 / size for weight, size in zip(weights, sizes, strict=True))


def variance_between(terms: Sequence[Term]) -> float:
    """Return the variance of a weighted sum of ratios between clusters, linearised."""
    return _variance(terms, sums_by_cluster(terms))


def _variance(terms: Sequence[Term], sums: Sequence[FloatArray]) -> float:
    """Return the variance of a weighted mean of ratios between clusters, linearised."""
    deviations = np.zeros(len(sums[0]))
    for term, by_cluster in zip(terms, sums, strict=True):
        total, size = by_cluster.sum(axis=0)
        deviations = deviations + term.weight * (by_cluster[:, 0] - total / size * by_cluster[:, 1]) / size
    return (clusters := len(deviations)) / (clusters - 1) * float((deviations**2).sum())


@lru_cache(maxsize=256)
def student_quantile(freedom: int) -> float:
    """Return the t that 95% of Student's distribution lie within, by bisection; importing scipy takes longer."""
    low, high = 0.0, math.pi / 2
    for _ in range(60):
        angle = (low + high) / 2
        low, high = (angle, high) if _student_within(angle, freedom) < LEVEL else (low, angle)
    return math.sqrt(freedom) * math.tan((low + high) / 2)


def student_p(t: float, freedom: float) -> float:
    """Return the two-sided p-value of a t of this many degrees of freedom, rounded down; infinitely many are normal."""
    if math.isinf(freedom):
        return math.erfc(abs(t) / math.sqrt(2))
    whole = max(1, math.floor(freedom + _ROUNDING))
    return max(0.0, 1.0 - _student_within(math.atan(abs(t) / math.sqrt(whole)), whole))


def _student_within(angle: float, freedom: int) -> float:
    """Return the share within sqrt(freedom) * tan(angle) of zero (Abramowitz and Stegun 1964, 26.7.3-4)."""
    odd = freedom % 2
    steps = np.arange(1 + odd, freedom - 1, 2, dtype=np.float64)  # factors 1/2, 3/4, ... or 2/3, 4/5, ...
    terms = np.concatenate([[1.0], np.cumprod(steps / (steps + 1) * math.cos(angle) ** 2)])
    if not odd:
        return math.sin(angle) * float(terms.sum())
    return 2 / math.pi * (angle + (math.sin(angle) * math.cos(angle) * float(terms.sum()) if freedom > 1 else 0.0))
