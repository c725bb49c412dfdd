"""Simulated answers of two models whose true difference is known, by clusters of rows, and what the tests say of them.

A row is right where a normal draw of its cluster and one of the row together are above a threshold, so the true share
of right answers has a closed form. B has another draw in every cluster: clusters differ in what they favour.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from jobs.analysis.power import Pilot
from pipelines.metrics.intervals import Term
from pipelines.metrics.paired import PairedSums, Tested, difference_test, repeat_variance

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
    shared, effects_b = generator.normal(0, _SHARED, clusters), generator.normal(0, _OWN, clusters)
    a = shared[cluster] + generator.normal(size=len(cluster))
    b = shared[cluster] + effects_b[cluster] + gain + generator.normal(size=len(cluster))
    if binary:
        a, b = (a > 0).astype(np.float64), (b > 0).astype(np.float64)
    return [Term(np.stack([side, np.ones(len(cluster))], axis=1), cluster) for side in (a, b)]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two models of known shares of right answers, on clusters of questions."""

    clusters: int
    questions: int  # of a cluster
    share_a: float
    share_b: float
    correlation: float = 0.0  # of a cluster's questions, and of a cluster's differences
    repeats: int = 1  # answers to a question


@dataclass(frozen=True, slots=True)
class PlannedPower:
    """What tests find on as many clusters as pilots ask for."""

    power: float  # share of tests that find the difference
    clusters: tuple[int, int, int]  # that pilots ask for: the 5th, 50th and 95th of a hundred
    within_range: float  # share of pilots whose range has the clusters that the true spread needs


def simulate_power(
    pair: Pair, *, repetitions: int, seed: int, repeats: int = 0, most_clusters: int = 5000
) -> PlannedPower:
    """Repeat a pilot, and the comparison that it plans, with as many answers to a question or `repeats`."""
    generator = np.random.default_rng([seed, pair.clusters, pair.questions])
    gain = abs(pair.share_b - pair.share_a)
    plans: list[Pilot] = []
    clusters: list[int] = []
    rejections = 0
    while len(plans) < repetitions:
        pilot, noise = _tested(pair, generator)
        if pilot.spread is None or pilot.spread.error is None:
            continue  # models that answer alike: nothing can be planned
        plan = Pilot(
            standard_error=pilot.spread.error,
            n=pair.clusters * pair.questions * pair.repeats,
            clusters=pair.clusters,
            freedom=pilot.spread.freedom,
            spread_freedom=pilot.spread_freedom,
            repeats=pair.repeats,
            repeat_share=min(1.0, (noise or 0.0) / pilot.spread.error**2),
        ).with_repeats(repeats or pair.repeats)
        plans.append(plan)
        clusters.append(min(plan.needed(gain), most_clusters))
        test, _ = _tested(replace(pair, clusters=clusters[-1], repeats=plan.repeats), generator)
        rejections += test.p is not None and test.p < 0.05
    error = math.sqrt(sum(plan.standard_error**2 for plan in plans) / repetitions)
    true = replace(plans[0], standard_error=error, spread_freedom=1e6).needed(gain)
    within = sum(low <= true <= high for low, high in (plan.needed_within(gain) for plan in plans))
    low, middle, high = (int(value) for value in np.percentile(clusters, [5, 50, 95]))
    return PlannedPower(rejections / repetitions, (low, middle, high), within / repetitions)


def _tested(pair: Pair, generator: np.random.Generator) -> tuple[Tested, float | None]:
    """Draw answers of both models; half of the chance in an answer is anew in each repeat."""
    questions = np.repeat(np.arange(pair.clusters), pair.questions)
    rows = np.repeat(np.arange(len(questions)), pair.repeats)
    spread = math.sqrt(pair.correlation)
    shared = generator.normal(0, spread, pair.clusters)[questions] + generator.normal(0, 0.55, len(questions))
    total = math.sqrt(2 * pair.correlation + 0.55**2 + 1)
    answers = []
    for share in (pair.share_a, pair.share_b):
        effects = generator.normal(0, spread, pair.clusters)[questions] + generator.normal(0, 0.5**0.5, len(questions))
        latent = (shared + effects)[rows] + generator.normal(0, 0.5**0.5, len(rows))
        answers.append((latent < NormalDist().inv_cdf(share) * total).astype(np.float64))
    terms = [
        Term(np.stack([side, np.ones(len(rows))], axis=1), questions[rows], repeats=pair.repeats) for side in answers
    ]
    tested = difference_test(PairedSums.of([terms[0]], [terms[1]]), is_fraction=True, is_share=True)
    assert tested is not None
    return tested, repeat_variance(answers[1] - answers[0], rows)
