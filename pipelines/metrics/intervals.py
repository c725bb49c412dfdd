"""The 95% interval of every number of a report: of shares, means of scores, metrics of a corpus, and differences.

A number is a weighted sum of statistics of sums over rows. Rows that share a clip, picture or scene are a cluster, the
unit that repeats. The variance between clusters has the leverage correction CR2, and ends are Student's t of
Bell-McCaffrey degrees of freedom away, so that clusters of unequal size count for what they are worth
(docs/intervals.md).
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_UP, Decimal
from functools import lru_cache
from statistics import NormalDist
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]
Statistic: TypeAlias = Callable[..., NDArray[Any]]  # sums, (N,) each -> N values; NaN where undefined

LEVEL: Final = 0.95
FRACTION: Final = (0.0, 1.0)
DIFFERENCE: Final = (-1.0, 1.0)  # of fractions
NORMAL: Final = 1.959963984540054  # 95% of a normal distribution lie within
_TINY: Final = 1e-12  # rounding noise of standard errors
_MANY: Final = 1e7  # degrees of freedom that are as good as infinitely many
_ROUNDING: Final = 1e-9  # relative, of degrees of freedom
_DOUBT: Final = 0.8
"""How much doubt each cluster with a row of the rarer kind leaves that clusters are right or wrong as a whole. Smaller
values cover less if clips fail as a whole, larger ones are needlessly wide; chosen by simulation."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval, in the unit of its number."""

    low: float
    high: float
    freedom: float = 0.0  # degrees of freedom of the t that its ends are away; 0 if the quantile is the normal one


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
      n_eff = min(n, p (1 - p) / V), V the variance between clusters; nearer to the number of clusters the fewer of
      them have a row of the rarer kind. If the rows that the correlation of pairs of rows leaves give a wider interval,
      that one. Rows that are each their own cluster use z in place of t.
    - Means of scores, and differences: t interval of the jackknife that leaves out one cluster at a time.
    - Other statistics that are fractions, such as F1 and BLEU: the same jackknife on the logit scale.
    - Numbers that no row would change: Wilson's of as many rows as there are clusters for fractions; for a difference
      of 0, what so many clusters without a change allow; else None.

    None with fewer than two clusters with rows, or if leaving one out leaves the number undefined.
    """
    parts = _Parts.of(terms)
    if parts.clusters < 2 or not np.isfinite(parts.deviations).all():
        return None
    is_share = ends == FRACTION and all(term.is_share and term.weight > 0 for term in terms)
    if is_share:
        return _share_interval(parts)
    freedom = parts.freedom
    result = _interval(terms, parts, ends, student_quantile(freedom))
    return None if result is None else replace(result, freedom=freedom)


def _share_interval(parts: "_Parts") -> Interval:
    value = min(max(parts.value, 0.0), 1.0)
    effective = _effective_rows(parts, value)
    if parts.is_independent:
        return wilson(value, effective, NORMAL)
    estimates = (
        (effective, parts.freedom),
        (parts.worth(parts.uncorrelated_rows()), parts.clusters - 1.0),
    )
    # Wilson's interval is the wider, the larger t^2 / n.
    rows, freedom = max(estimates, key=lambda estimate: student_quantile(estimate[1]) ** 2 / estimate[0])
    return replace(wilson(value, rows, student_quantile(freedom)), freedom=freedom)


def _effective_rows(parts: "_Parts", value: float) -> float:
    """Return how many independent rows have the variance over clusters."""
    clusters, spread, variance = parts.worth(parts.counts), value * (1 - value), parts.variance
    if variance * parts.worth(parts.rows) <= spread * _TINY or spread <= _TINY:
        return clusters
    n = min(parts.worth(parts.rows), spread / variance)
    worth = min(clusters, parts.worth(1 / (parts.leverage**2).sum(axis=1)))  # Kish's number of clusters
    if n <= worth:
        return n
    rarer = parts.clusters_with(is_right=value <= 1 / 2)
    doubt = min(_DOUBT**rarer, abs(1 - 2 * value) ** clusters)
    return 1 / float(doubt / worth + (1 - doubt) / n)


def _interval(terms: Sequence[Term], parts: "_Parts", ends: tuple[float, float], t: float) -> Interval | None:
    value, error = parts.value, math.sqrt(parts.variance)
    if ends == FRACTION and 0 <= value <= 1:
        spread = value * (1 - value)
        if error <= _TINY or spread <= _TINY:
            return wilson(value, parts.worth(parts.counts), t)
        if any(term.statistic is not ratio for term in terms):
            return _logit_interval(value, t * error / spread)
    if error <= _TINY:
        return _unchanged(value, parts, t) if ends == DIFFERENCE else None
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


def _unchanged(value: float, parts: "_Parts", t: float) -> Interval | None:
    """Return what clusters of which none differs allow: as many of them may differ as Wilson's upper end says."""
    if abs(value) > _TINY:
        return None
    sides = [parts.weights * sign > 0 for sign in (1, -1)]
    reach = wilson(0.0, min(parts.worth(parts.counts, side) for side in sides if side.any()), t).high
    return Interval(-reach, reach)


@dataclass(frozen=True, slots=True, eq=False)
class _Parts:
    """The terms of a number by cluster: what each is worth, and how far each cluster moves it."""

    sums: Sequence[FloatArray]  # of each term's columns, (clusters, K)
    weights: FloatArray  # (terms,)
    values: FloatArray  # (terms,), weighted
    leverage: FloatArray  # (terms, clusters), the cluster's share of the term's rows
    deviations: FloatArray  # (terms, clusters), whose squares add up to the variance of each term
    counts: FloatArray  # (terms,), clusters with rows
    rows: FloatArray  # (terms,)
    is_independent: bool  # a single term, and every row is its own cluster

    @classmethod
    def of(cls, terms: Sequence[Term]) -> "_Parts":
        """Sum the terms by cluster, and leave out one cluster at a time."""
        rows_of = [Term(_row_of(term), term.clusters) for term in terms]
        both = sums_by_cluster([*terms, *rows_of])
        sums, rows = both[: len(terms)], np.array([term_sums[:, 0] for term_sums in both[len(terms) :]])
        sizes = np.array(
            [
                by_cluster[:, 1] if term.statistic is ratio else number
                for term, by_cluster, number in zip(terms, sums, rows, strict=True)
            ]
        )
        weights = np.array([term.weight for term in terms])
        with np.errstate(invalid="ignore", divide="ignore"):
            leverage = sizes / sizes.sum(axis=1, keepdims=True)
            values = weights[:, None] * np.array(
                [
                    term.statistic(*np.vstack([total, total - by_cluster]).T)
                    for term, by_cluster in zip(terms, sums, strict=True)
                    for total in [by_cluster.sum(axis=0)]
                ]
            )
        return cls(
            sums=sums,
            weights=weights,
            values=values[:, 0],
            leverage=leverage,
            deviations=leave_one_out(values[:, 1:], leverage),
            counts=np.count_nonzero(rows, axis=1).astype(np.float64),
            rows=rows.sum(axis=1),
            is_independent=len(terms) == 1 and bool((rows <= 1).all()),
        )

    @property
    def clusters(self) -> int:
        return len(self.sums[0])

    @property
    def value(self) -> float:
        return float(self.values.sum())

    @property
    def variance(self) -> float:
        return float((self.deviations.sum(axis=0) ** 2).sum())

    @property
    def freedom(self) -> float:
        variances = (self.deviations**2).sum(axis=1)
        if variances.sum() <= _TINY**2:
            variances = self.weights**2 / self.counts
        return degrees_of_freedom(variances, self.leverage)

    def worth(self, numbers: FloatArray, chosen: NDArray[np.bool_] | None = None) -> float:
        """Return how many units of one term give the variance of the sum, of numbers by term; clusters repeat once."""
        terms = np.ones(len(numbers), np.bool_) if chosen is None else chosen
        weights = np.abs(self.weights[terms])
        whole = float(weights.sum()) ** 2 / float((weights**2 / numbers[terms]).sum())
        return min(whole, float(self.clusters)) if numbers is self.counts else whole

    def uncorrelated_rows(self) -> FloatArray:
        """Return how many uncorrelated rows would say as much about each share, (terms,).

        The correlation is that of two rows of a cluster. If the large ones of unequal clusters agree by chance, the
        variance over clusters is too low; this number is not too high: clusters that are right or wrong as a whole
        count by their sizes. If sizes are equal, the variance over clusters gives the smaller number.
        """
        return np.array([_uncorrelated_rows(*by_cluster.T) for by_cluster in self.sums])

    def clusters_with(self, *, is_right: bool) -> int:
        """Return how many clusters have a right row, or a wrong one, of shares."""
        has_any = np.array([by[:, 0] > 0 if is_right else by[:, 0] < by[:, 1] for by in self.sums]).any(axis=0)
        return int(np.count_nonzero(has_any))


def _uncorrelated_rows(right: FloatArray, rows: FloatArray) -> float:
    n, share = float(rows.sum()), float(right.sum() / rows.sum())
    in_pairs = rows > 1
    if not in_pairs.any() or not 0 < share < 1:
        return n
    size, hits = rows[in_pairs], right[in_pairs]
    unequal = float((2 * hits * (size - hits) / (size - 1)).sum() / size.sum())  # share of pairs of which one is right
    correlation = min(max(1 - unequal / (2 * share * (1 - share)), 0.0), 1.0)
    return 1 / (correlation * float((rows**2).sum()) / n**2 + (1 - correlation) / n)


def leave_one_out(without: FloatArray, leverage: FloatArray) -> FloatArray:
    """Return by how much each cluster moves each term, (terms, clusters); squares add up to the variance.

    Args:
        without: the values without each cluster, (terms, clusters).
        leverage: each cluster's share of the term's rows, (terms, clusters). A ratio with residuals e is off by
            e / (n (1 - h)) without a cluster; times (1 - h)^(1/2) that is CR2's residual (Bell and McCaffrey 2002).
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        left = 1 - leverage
        center = (left * without).sum(axis=1, keepdims=True) / left.sum(axis=1, keepdims=True)
        return np.asarray(np.sqrt(left) * (without - center))


def degrees_of_freedom(variances: FloatArray, leverage: FloatArray) -> float:
    """Return those of a variance of terms, (terms,) and (terms, clusters), if rows are independent.

    Satterthwaite's tr(B)^2 / tr(B^2), B the covariance of CR2's residuals: the clusters less one if sizes are equal,
    Welch's if terms have no cluster in common.
    """
    roots = leverage / np.sqrt(1 - leverage)
    off_diagonal = (roots @ roots.T) ** 2 - roots**2 @ (roots**2).T
    squares = float(((variances @ leverage) ** 2).sum() + variances @ off_diagonal @ variances)
    freedom = float(variances.sum()) ** 2 / squares
    return max(1.0, float(round(freedom)) if abs(freedom - round(freedom)) < _ROUNDING * freedom else freedom)


def _row_of(term: Term) -> FloatArray:
    """Return 1 for each row of a term that has anything to count, (rows, 1)."""
    return np.asarray(term.columns.any(axis=1, keepdims=True), dtype=np.float64)


def sums_by_cluster(terms: Sequence[Term]) -> list[FloatArray]:
    """Return the sums of each term's columns by cluster, (clusters, K), of the clusters that have a row of any."""
    names, inverse = np.unique(np.concatenate([term.clusters for term in terms]), return_inverse=True)
    numbers = np.split(inverse.reshape(-1), np.cumsum([len(term.clusters) for term in terms])[:-1])
    sums: list[FloatArray] = [
        np.array([np.bincount(row_numbers, column, len(names)) for column in term.columns.T], dtype=np.float64).T
        for term, row_numbers in zip(terms, numbers, strict=True)
    ]
    has_rows = np.any([(by_cluster != 0).any(axis=1) for by_cluster in sums], axis=0)
    return [by_cluster[has_rows] for by_cluster in sums]


def variance_between(terms: Sequence[Term]) -> float:
    """Return the variance of a sum of terms between clusters."""
    return _Parts.of(terms).variance


@lru_cache(maxsize=4096)
def student_quantile(freedom: float, level: float = LEVEL) -> float:
    """Return the t that a share, 95% by default, of Student's distribution lies within; one degree of freedom or more.

    Newton's steps on the angle whose tangent is t / sqrt(freedom): its distribution is concave, so steps from below
    never pass the root. Importing scipy takes longer.
    """
    if freedom > _MANY:
        return NormalDist().inv_cdf((1 + level) / 2)
    slope = 2 * math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(math.pi)
    angle = step = level / slope
    while step > _ROUNDING * angle:
        step = (_student_beyond(angle, freedom) - 1 + level) / (slope * math.cos(angle) ** (freedom - 1))
        angle += step
    return math.sqrt(freedom) * math.tan(angle)


def student_p(t: float, freedom: float) -> float:
    """Return the two-sided p-value of a t of this many degrees of freedom; infinitely many are normal."""
    if math.isinf(freedom) or math.isinf(t):
        return math.erfc(abs(t) / math.sqrt(2))
    return _student_beyond(math.atan(abs(t) / math.sqrt(freedom)), freedom)


def _student_beyond(angle: float, freedom: float) -> float:
    """Return the share beyond sqrt(freedom) * tan(angle) to either side: the incomplete beta of freedom / 2, 1/2."""
    far, near = math.cos(angle) ** 2, math.sin(angle) ** 2
    if near < 3 / (freedom + 5):
        return 1 - _incomplete_beta(0.5, freedom / 2, near)
    return _incomplete_beta(freedom / 2, 0.5, far)


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """Return the regularised incomplete beta function by its continued fraction (DLMF 8.17.22, Lentz's method)."""
    if x <= 0:
        return 0.0
    logs = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    fraction, numerator, denominator, m = 1.0, 1.0, 0.0, 0
    while True:
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        even = (m + 1) * (b - m - 1) * x / ((a + 2 * m + 1) * (a + 2 * m + 2))
        for part in (odd, even):
            denominator = 1 / (1 + part * denominator)
            numerator = 1 + part / numerator
            fraction *= numerator * denominator
        if abs(numerator * denominator - 1) < 1e-15:
            return math.exp(logs) / (a * fraction)
        m += 1


LEAST_CLUSTERS: Final = 20
"""With fewer clusters than these the tail is Student's."""


def sums_by(clusters: NDArray[Any], values: FloatArray) -> FloatArray:
    """Return the sum of each cluster's values."""
    return np.bincount(np.unique(clusters, return_inverse=True)[1].reshape(-1), values).astype(np.float64)


def shift_p(differences: FloatArray, clusters: NDArray[Any], tail: float = 1.0) -> float:
    """Return the two-sided p-value that differences of samples, (samples,), have mean 0; 1 without any.

    Clusters are the independent unit. With at least `LEAST_CLUSTERS` their signs are random: the normal tail of their
    sum times `tail`. With fewer it is Student's, and the error at least that of samples that differ independently.
    """
    sums = sums_by(clusters, differences)
    squares, count = float(np.square(sums).sum()), len(sums)
    if count < 2 or math.sqrt(squares) <= 1e-12 * len(differences):
        return 1.0
    total = float(sums.sum())
    if count >= LEAST_CLUSTERS:
        return min(1.0, tail * math.erfc(abs(total) / math.sqrt(2 * squares)))
    between = count / (count - 1) * float(np.square(sums - sums.mean()).sum())
    return student_p(total / math.sqrt(max(between, float(np.square(differences).sum()))), count - 1)


RESAMPLES: Final = 10_000
SEED: Final = 42
_BLOCK_VALUES: Final = 4_000_000  # drawn numbers in memory at once, 32 MB
_NOISE_DIGITS: Final = 9  # further decimals of a printed number are rounding noise
_MAX_PRINTED: Final = 1e15  # larger doubles have no tenths


def row_draws(rows: int, *, resamples: int = RESAMPLES, seed: int = SEED) -> Iterator[FloatArray]:
    """Yield blocks of how often each row is drawn, (draws, rows): a pure function of the numbers and the seed."""
    generator = np.random.default_rng(seed)
    block = max(1, _BLOCK_VALUES // rows)
    for start in range(0, resamples, block):
        draws = generator.integers(0, rows, size=(min(block, resamples - start), rows))
        indices = draws + np.arange(len(draws))[:, None] * rows
        yield np.bincount(indices.ravel(), minlength=draws.size).reshape(draws.shape).astype(np.float64)


def half_up(value: float, decimals: int) -> Decimal:
    """Round a number in its printed unit, halves away from zero: 44.25 gives 44.3 where Python gives 44.2.

    Binary noise is dropped first: 28.499999999999996 counts as 28.5. The result is never minus zero. Raises ValueError
    for a number that is not finite or at least 1e15, or for `decimals` outside 0..9.
    """
    if not abs(value) < _MAX_PRINTED or not 0 <= decimals <= _NOISE_DIGITS:
        raise ValueError(f"cannot round {value} to {decimals} decimals")
    cleaned = Decimal(repr(float(value))).quantize(Decimal(1).scaleb(-_NOISE_DIGITS), ROUND_HALF_UP)
    rounded = cleaned.quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_UP)
    return rounded or abs(rounded)
