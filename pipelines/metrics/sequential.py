"""Intervals and rankings that hold at every moment of a run, however often it looks at them and whenever it stops.

Clusters (clips, pictures, scenes) are drawn without replacement from a finite set of them, and the number is the value
of the whole set. The theorem: for each candidate value the product of 1 + bet x (observation - its mean if the
candidate were true, given all before) is a martingale that never falls below 0, if each bet is fixed beforehand; by
Ville's inequality it exceeds 1 / alpha at any time with a chance of at most alpha. Candidates whose product exceeds
that are rejected (Waudby-Smith and Ramdas 2020, Confidence sequences for sampling without replacement, NeurIPS;
2024, Estimating means of bounded random variables by betting, JRSS-B 86(1), section 5 and appendix).

Where each cluster is one row that is right or wrong, the number of right ones in the whole set decides the chance of
each course of the draw, and limits at the looks of a run are exact: `exact_interval`.

Otherwise a cluster's rows are one observation: it is the sum of its scores, filled up to the size of the largest
cluster by rows that are worth the candidate. So a share of rows of unequal clusters is tested exactly, and no
independence of rows within a cluster is assumed.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from pipelines.metrics.intervals import LEVEL, FloatArray, Interval

ALPHA: Final = 1 - LEVEL
_LARGEST_BET: Final = 0.9  # share of the capital that one cluster may cost
_HALVINGS: Final = 16
_PRIOR: Final = 0.25  # variance that one cluster beforehand stands for
_TINY: Final = 1e-9
_DEVIATIONS: Final = 12
"""Standard deviations beyond which hits between two looks are impossible: a chance of 1e-18 or so."""
_STEPS_BACK: Final = 4


def exact_interval(hits: Sequence[int], counts: Sequence[int], population: int, spent: Sequence[float]) -> Interval:
    """Return the interval of a share of right rows, which holds at all looks at once with 1 - the last of `spent`.

    There were `hits` among the first `counts` of a `population`, drawn without replacement, at each look so far; by
    then the chance of an error may be `spent`, fixed beforehand. Candidates are rejected that were at any look.
    """
    misses = [count - right for count, right in zip(counts, hits, strict=True)]
    low, high = (_fewest(each, tuple(counts), population, tuple(spent)) for each in (hits, misses))
    return Interval(low / population, 1 - high / population)


def _fewest(hits: Sequence[int], counts: tuple[int, ...], population: int, spent: tuple[float, ...]) -> int:
    """Return the fewest hits in the population that no look rejects as too few."""

    def is_rejected(candidate: int) -> bool:
        limits = _limits(candidate, counts, population, spent)
        return any(right >= limit for right, limit in zip(hits, limits, strict=True))

    low, high = hits[-1] - 1, population
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if is_rejected(middle) else (low, middle)
    # Limits are whole numbers: a candidate somewhat below one that is rejected may not be.
    return next(each for each in range(max(hits[-1], high - _STEPS_BACK), high + 1) if not is_rejected(each))


@lru_cache(maxsize=1 << 16)
def _limits(hits: int, counts: tuple[int, ...], population: int, spent: tuple[float, ...]) -> tuple[int, ...]:
    """Return from how many hits at each look on `hits` in the population are rejected as too few.

    Draws without replacement are independent ones, given their sum over the population: the chances of courses that
    stayed below the limits are convolutions. Each limit is the lowest that half of what may be `spent` allows.
    """
    if hits in {0, population}:
        return tuple(1 if hits == 0 else count + 1 for count in counts)
    share, limits = hits / population, list[int]()
    whole = _binomial(np.array([hits]), population, share)
    courses, first, before, used = np.ones(1), 0, 0, 0.0
    for count, level in zip(counts, spent, strict=True):
        drawn, before = count - before, count
        reach = _DEVIATIONS * math.sqrt(drawn * share * (1 - share) + 1)
        start, end = max(0, int(drawn * share - reach)), min(drawn, int(drawn * share + reach))
        courses = np.convolve(courses, _binomial(np.arange(start, end + 1), drawn, share))
        first += start
        rest = hits - np.arange(first, first + len(courses))
        chances = courses * _binomial(rest, population - count, share) / whole
        tails = np.append(np.cumsum(chances[::-1])[::-1], 0.0)
        length = int((used + tails <= level / 2).argmax())
        used += float(tails[length])
        limits.append(first + length)
        courses = courses[: max(1, length)]
    return tuple(limits)


def _binomial(hits: npt.NDArray[np.int64], draws: int, share: float) -> FloatArray:
    """Return the chances of so many hits in independent draws."""
    logs, inside = _log_factorials(draws), (hits >= 0) & (hits <= draws)
    right = hits[inside]
    chances = np.zeros(len(hits))
    ways = logs[draws] - logs[right] - logs[draws - right]
    chances[inside] = np.exp(ways + right * math.log(share) + (draws - right) * math.log1p(-share))
    return chances


@lru_cache(maxsize=256)
def _log_factorials(largest: int) -> FloatArray:
    return np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, largest + 1)))])


def sequential_interval(
    totals: FloatArray, sizes: FloatArray, population: int, largest: float, reach: float
) -> Interval:
    """Return the interval of the whole set's share, which holds at all sizes of the sample at once with 95%.

    `totals` and `sizes` are the sums of scores (0 to 1 each) and the rows of each cluster in the order of the draw, out
    of a `population` of clusters of at most `largest` rows. The bets are best for an interval that reaches so far.
    """
    if len(totals) >= population:
        value = float(totals.sum() / sizes.sum())
        return Interval(value, value)
    bets = _bets(totals, sizes, population, largest, reach)
    low = _lower_end(totals, sizes, population, largest, bets)
    return Interval(low, 1 - _lower_end(sizes - totals, sizes, population, largest, bets))


def _bets(totals: FloatArray, sizes: FloatArray, population: int, largest: float, reach: float) -> FloatArray:
    """Return the bet on each cluster, from those before it: the distance to be seen, by their variance."""
    count = np.arange(len(totals))
    before = np.cumsum(totals) - totals, np.cumsum(sizes) - sizes
    shares = np.where(before[1] > 0, before[0] / np.maximum(before[1], _TINY), 0.5)
    squares = ((totals - shares * sizes) / largest) ** 2
    variances = (_PRIOR + np.cumsum(squares) - squares) / (count + 1)
    # A candidate off by `reach` is off by more among the clusters that are left.
    distances = reach * population / (population - count)
    bets: FloatArray = distances / variances
    return bets


def _lower_end(totals: FloatArray, sizes: FloatArray, population: int, largest: float, bets: FloatArray) -> float:
    """Return the largest candidate that is rejected as too low; the evidence against lower ones is larger."""
    low, high = 0.0, float(totals.sum() / max(sizes.sum(), _TINY))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        filled = (totals + middle * (largest - sizes)) / largest
        is_rejected = log_evidence(filled, population, middle, bets) >= math.log(2 / ALPHA)
        low, high = (middle, high) if is_rejected else (low, middle)
    return low


def log_evidence(values: FloatArray, population: int, mean: float, bets: FloatArray) -> float:
    """Return the largest log capital so far of bets that the mean of a population in [0, 1] exceeds `mean`."""
    left = population - np.arange(len(values))
    expected = (population * mean - (np.cumsum(values) - values)) / left
    if (expected < -_TINY).any():  # no rest of the population has such a mean
        return math.inf
    limits = _LARGEST_BET / np.maximum(expected, _TINY)
    with np.errstate(divide="ignore"):
        gains = np.log1p(np.minimum(bets, limits) * (values - expected))
    return max(0.0, float(np.cumsum(gains).max(initial=0.0)))


def log_evidence_of_order(better: FloatArray, worse: FloatArray, population: int, largest: float) -> float:
    """Return the log evidence that one model's whole sum of scores exceeds another's, from sums by cluster.

    Bets are those that would have grown best so far (aGRAPA, section B.3 of the second paper).
    """
    values = (1 + (better - worse) / largest) / 2
    count = np.arange(len(values))
    total, squares = np.cumsum(values) - values, np.cumsum(values**2) - values**2
    means = (0.5 + total) / (count + 1)
    variances = (0.5 + squares) / (count + 1) - means**2
    gaps = means - 0.5
    bets = np.maximum(0.0, gaps / (np.maximum(variances, _TINY) + gaps**2))
    return log_evidence(values, population, 0.5, bets)
