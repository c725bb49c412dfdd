"""Simulated answers of two models whose true difference is known, by clusters of rows, and what the tests say of them.

A row is right where a normal draw of its cluster and one of the row together are above a threshold, so the true share
of right answers has a closed form. B has another draw in every cluster: clusters differ in what they favour.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from pipelines.metrics.intervals import Term
from pipelines.metrics.paired import PairedSums, difference_test

ROWS = 24  # a cluster, as MAIA's questions of a clip
_SHARED, _OWN = 0.7, 0.5  # standard deviations of the clusters' draws: of both models, and of B


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the tests said in so many repetitions."""

    clusters: int
    true_difference: float
    covered: float  # share of 95% intervals that hold the true difference
    rejected: float  # share with p < 0.05
    p_values: NDArray[np.float64]


def simulate(
    clusters: int, *, gain: float, repetitions: int, seed: int, binary: bool = True, sized: bool = False
) -> Outcome:
    """Repeat a comparison of B, whose latent score is higher by `gain`, with A.

    `binary`: rows are right or wrong, else scores without ties. `sized`: clusters have 12 to 36 rows.
    """
    generator = np.random.default_rng([seed, clusters])
    truth = _true_difference(gain) if binary else gain
    p_values, covered = np.empty(repetitions), 0
    for repetition in range(repetitions):
        a, b = _draw(generator, clusters, gain, binary=binary, sized=sized)
        tested = difference_test(PairedSums.of([a], [b]), is_fraction=binary, is_share=binary)
        assert tested is not None
        assert tested.p is not None
        assert tested.ends is not None
        covered += tested.ends.low <= truth <= tested.ends.high
        p_values[repetition] = tested.p
    return Outcome(clusters, truth, covered / repetitions, float((p_values < 0.05).mean()), p_values)


def _true_difference(gain: float) -> float:
    normal = NormalDist()
    share_a = normal.cdf(0.0)
    return normal.cdf(gain / math.sqrt(1 + _SHARED**2 + _OWN**2)) - share_a


def _draw(generator: np.random.Generator, clusters: int, gain: float, *, binary: bool, sized: bool) -> list[Term]:
    sizes = generator.integers(ROWS // 2, ROWS * 3 // 2 + 1, clusters) if sized else np.full(clusters, ROWS)
    cluster = np.repeat(np.arange(clusters), sizes)
    shared, of_b = generator.normal(0, _SHARED, clusters), generator.normal(0, _OWN, clusters)
    a = shared[cluster] + generator.normal(size=len(cluster))
    b = shared[cluster] + of_b[cluster] + gain + generator.normal(size=len(cluster))
    if binary:
        a, b = (a > 0).astype(np.float64), (b > 0).astype(np.float64)
    return [Term(np.stack([side, np.ones(len(cluster))], axis=1), cluster) for side in (a, b)]
