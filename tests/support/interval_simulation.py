"""Simulated numbers of a report whose true values are known, by clusters of rows, and how often intervals hold them.

A row is right where a normal draw of its cluster and one of the row together are above a threshold; `correlation` is
that of these sums between rows of one cluster; with 1 clusters are right or wrong as a whole.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import NormalDist
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from pipelines.metrics.f1 import macro_f1
from pipelines.metrics.intervals import FRACTION, FloatArray, Interval, Term, interval
from pipelines.metrics.ngrams import bleu_of_sums

Draw: TypeAlias = "Callable[[np.random.Generator, Case], tuple[list[Term], float]]"  # terms, and the true value

SHARES: Final = (0.02, 0.3, 0.9)
SCORES: Final = (0.1, 0.5)  # of numbers that are no shares
CORRELATIONS: Final = (0.0, 0.1, 0.6, 1.0)
CORRELATIONS_OF_SCORES: Final = (0.0, 0.3)
SIZES: Final = ("1", "24", "lognormal", "one half")  # rows a cluster; one has half of all rows


@dataclass(frozen=True, slots=True)
class Case:
    """One cell of the grid."""

    kind: str
    clusters: int
    size: str
    value: float
    correlation: float


def cases(clusters: Sequence[int]) -> Iterator[Case]:
    """Yield the grid; single rows correlate with no other, and a group of two needs two clusters."""
    for kind, k, size in product(KINDS, clusters, SIZES):
        is_share = kind == "share"
        if is_share or 6 <= k <= 50:
            correlations = CORRELATIONS if is_share else CORRELATIONS_OF_SCORES
            for correlation, value in product(correlations if size != "1" else (0.0,), SHARES if is_share else SCORES):
                yield Case(kind, k, size, value, correlation)


def coverage(case: Case, repetitions: int, seed: int) -> float:
    """Return the share of intervals that hold the true value."""
    return sum(ends.low <= truth <= ends.high for ends, truth, _ in intervals(case, repetitions, seed)) / repetitions


def intervals(case: Case, repetitions: int, seed: int) -> Iterator[tuple[Interval, float, list[Term]]]:
    """Yield intervals, the true value, and the terms."""
    name = f"{case.kind}/{case.clusters}/{case.size}/{case.value}/{case.correlation}"
    generator = np.random.default_rng([seed, *name.encode()])
    for _ in range(repetitions):
        terms, truth = KINDS[case.kind](generator, case)
        ends = interval(terms, FRACTION)
        assert ends is not None, case
        yield ends, truth, terms


def _clusters(generator: np.random.Generator, case: Case) -> NDArray[np.intp]:
    """Return the cluster of each row."""
    k = case.clusters
    if case.size == "lognormal":
        sizes = np.maximum(1, np.rint(np.exp(generator.normal(2, 1, k)))).astype(int)
    elif case.size == "one half":
        sizes = np.array([4 * (k - 1), *[4] * (k - 1)])
    else:
        sizes = np.full(k, int(case.size))
    return np.repeat(np.arange(k), sizes)


def _rates(generator: np.random.Generator, case: Case, clusters: NDArray[np.intp], value: float) -> FloatArray:
    """Return the share of each row's cluster, (rows,); their mean is `value`."""
    shared = generator.normal(0, math.sqrt(case.correlation), case.clusters)
    threshold = NormalDist().inv_cdf(value)
    rates: FloatArray = ndtr((threshold - shared) / math.sqrt(max(1 - case.correlation, 1e-12)))
    return rates[clusters]


def _mean(values: FloatArray, clusters: NDArray[np.intp], weight: float = 1.0) -> Term:
    return Term(np.stack([values, np.ones(len(values))], axis=1), clusters, weight=weight)


def _share(generator: np.random.Generator, case: Case) -> tuple[list[Term], float]:
    clusters = _clusters(generator, case)
    right = generator.random(len(clusters)) < _rates(generator, case, clusters, case.value)
    return [_mean(right.astype(np.float64), clusters)], case.value


def _groups(generator: np.random.Generator, case: Case) -> tuple[list[Term], float]:
    """Return the mean of the shares of two groups, of two thirds and a third of the clusters."""
    clusters = _clusters(generator, case)
    values = (case.value, (case.value + 0.5) / 2)
    in_second = clusters % 3 == 2
    parts = []
    for value, rows in zip(values, (~in_second, in_second), strict=True):
        right = generator.random(len(clusters)) < _rates(generator, case, clusters, value)
        parts.append(_mean(right[rows].astype(np.float64), clusters[rows], 0.5))
    return parts, sum(values) / 2


def _scores(generator: np.random.Generator, case: Case) -> tuple[list[Term], float]:
    """Return the mean of scores of 0..1, such as ROUGE."""
    clusters = _clusters(generator, case)
    rates = np.clip(_rates(generator, case, clusters, case.value), 1e-3, 1 - 1e-3)
    return [_mean(generator.beta(8 * rates, 8 * (1 - rates)), clusters)], case.value


def _f1(generator: np.random.Generator, case: Case) -> tuple[list[Term], float]:
    """Return macro F1 of two classes, the first of 60% of the rows; `value` is the share of right labels."""
    clusters = _clusters(generator, case)
    first = generator.random(len(clusters)) < 0.6
    right = generator.random(len(clusters)) < _rates(generator, case, clusters, case.value)
    columns = np.stack([right & first, right & ~first, np.ones_like(right)], axis=1).astype(np.float64)
    truth = macro_f1(*(np.array([share]) for share in (0.6 * case.value, 0.4 * case.value, 1.0)))
    return [Term(columns, clusters, macro_f1)], float(truth[0])


def _bleu(generator: np.random.Generator, case: Case) -> tuple[list[Term], float]:
    """Return BLEU of answers of 12 words of which a share matches, less of longer n-grams; none is too short."""
    clusters = _clusters(generator, case)
    rates = _rates(generator, case, clusters, case.value)
    totals = np.array([12, 11, 10, 9])
    falling = np.array([1.0, 0.7, 0.55, 0.45])
    matches = generator.binomial(totals, np.clip(rates[:, None] * falling, 0, 1))
    lengths = np.full((len(clusters), 2), 12)
    columns = np.hstack([matches, np.broadcast_to(totals, matches.shape), lengths]).astype(np.float64)
    truth = bleu_of_sums(
        *(np.array([x], dtype=np.float64) for x in (*(totals * case.value * falling), *totals, 12, 12))
    )
    return [Term(columns, clusters, bleu_of_sums)], float(truth[0])


KINDS: Final[dict[str, Draw]] = {
    "share": _share,
    "mean of two groups": _groups,
    "mean of scores": _scores,
    "macro F1": _f1,
    "BLEU": _bleu,
}
