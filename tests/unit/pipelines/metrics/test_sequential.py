"""Confidence sequences of clusters drawn without replacement, and the order that a run asks clusters in."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from pipelines.benchmarks.records import Sample
from pipelines.errors import UsageError
from pipelines.metrics.sequential import _limits, exact_interval, log_evidence, sequential_interval
from pipelines.plan.stopping.until import Cluster, Until, looks, ordered_clusters
from pipelines.sweep.until.loop import Number, is_exact_enough, spent
from tests.support.sequential_simulation import GAPS, SHAPES, Shape, simulate_intervals, simulate_rankings


@pytest.mark.parametrize(
    ("shape", "reach", "saved"),
    [
        (SHAPES["MAIA's form, 500 clips"], 0.02, 0.6),
        (SHAPES["MATE, 5,500 scenes, 15% right"], 0.02, 0.6),
        (SHAPES["MATE, 5,500 scenes, half right"], 0.02, 0.6),
        (SHAPES["MAIA, 100 clips"], 0.05, 0.4),
        (Shape(clusters=30, rows=2, share=0.5), 0.1, 0.0),
    ],
)
def test_the_full_sets_value_is_inside_at_every_stop(shape: Shape, reach: float, saved: float) -> None:
    outcome = simulate_intervals(shape, reach, sweeps=40, seed=1)
    assert outcome.always_inside >= 0.9  # 1,000 sweeps: `make simulate-until`
    assert outcome.saved >= saved


def test_rankings_are_those_of_the_full_set() -> None:
    outcome = simulate_rankings(SHAPES["MAIA, 100 clips"], GAPS["8 points apart each"], sweeps=40, seed=1)
    assert outcome.always_inside >= 0.95


def test_unequal_clusters_are_one_observation_each() -> None:
    """A ratio of sums, with rows that are all alike within a cluster: the worst that correlation can do."""
    hits = 0
    for seed in range(60):
        generator = np.random.default_rng(seed)
        sizes = generator.integers(1, 9, 200).astype(float)
        totals = sizes * (generator.random(200) < 0.4)
        value = totals.sum() / sizes.sum()
        ends = [sequential_interval(totals[:n], sizes[:n], 200, 8.0, 0.1) for n in looks(200)]
        hits += all(end.low - 1e-9 <= value <= end.high + 1e-9 for end in ends)
    assert hits >= 56


def test_an_interval_shrinks_to_the_value_and_failed_rows_are_not_in_it() -> None:
    totals = (np.random.default_rng(5).random(400) < 0.3).astype(float)
    ones = np.ones(400)
    ends = [sequential_interval(totals[:n], ones[:n], 400, 1.0, 0.05) for n in (10, 40, 100, 399, 400)]
    widths = [end.high - end.low for end in ends]
    assert widths == sorted(widths, reverse=True)
    assert ends[-1].low == ends[-1].high == pytest.approx(totals.mean())
    right = (np.random.default_rng(1).random(120) < 0.6).astype(float)
    counts = tuple(size for size in looks(200) if size <= 120)
    whole = Number("accuracy", right, np.ones(120), 200, 1.0, counts, 200).interval(0.05)
    sizes = np.where(np.arange(120) % 10 == 3, 0.0, 1.0)
    failed = Number("accuracy", right * sizes, sizes, 200, 1.0, counts, 200).interval(0.05)
    share = (right * sizes).sum() / sizes.sum()
    assert failed.low < share < failed.high
    assert failed.high - failed.low > whole.high - whole.low


def test_exact_limits_are_crossed_with_the_chance_that_is_spent() -> None:
    """All courses of 14 draws from 20, of which 9 are hits: by enumeration of where the hits are drawn."""
    counts, allowed = (4, 8, 14), (0.02, 0.1, 0.3)
    limits = _limits(9, counts, 20, allowed)
    chances = [0.0, 0.0, 0.0]
    for first, second, third in product(range(5), range(5), range(7)):
        left = 9 - first - second - third
        if not 0 <= left <= 6:
            continue
        ways = math.comb(4, first) * math.comb(4, second) * math.comb(6, third) * math.comb(6, left)
        hits = (first, first + second, first + second + third)
        crossed = next((look for look in range(3) if hits[look] >= limits[look]), None)
        for look in range(3 if crossed is None else crossed, 3):
            chances[look] += ways / math.comb(20, 9)
    assert all(chance <= level / 2 + 1e-12 for chance, level in zip(chances, allowed, strict=True))
    assert chances[2] > 0.05  # a lower limit would spend more: nothing is given away but by whole numbers


def test_an_exact_interval_holds_the_value_at_all_looks() -> None:
    """300 draws of a population in which half of the answers are right."""
    missed, population = 0, 400
    counts = looks(population)[:-1]
    allowed = spent(population, population, 0.05)
    for seed in range(300):
        answers = np.random.default_rng(seed).permutation(np.arange(population) < 200)
        hits = [int(answers[:count].sum()) for count in counts]
        end = exact_interval(hits, counts, population, allowed)
        missed += not end.low <= 0.5 <= end.high
    assert missed <= 0.05 * 300


def test_evidence_is_infinite_against_an_impossible_mean_and_rarely_large_against_the_true_one() -> None:
    assert log_evidence(np.ones(7), 10, 0.5, np.zeros(7)) == np.inf
    assert log_evidence(np.ones(4), 10, 0.5, np.zeros(4)) == 0.0
    # Ville's inequality over draws without replacement; the same bets find a mean that is too low.
    generator = np.random.default_rng(2)
    population = (np.arange(40) < 12).astype(float)
    bets = np.full(25, 0.8)
    evidence = np.array(
        [
            [log_evidence(values, 40, mean, bets) for mean in (0.3, 0.1)]
            for values in (generator.permutation(population)[:25] for _ in range(2000))
        ]
    )
    true, low = (evidence >= np.log(20)).mean(axis=0)
    assert true <= 0.05
    assert low >= 0.5


def test_equal_models_are_rarely_ranked() -> None:
    """Where two models are equal in the full set, either order is wrong."""
    ranked = 0
    for seed in range(200):
        generator = np.random.default_rng(seed)
        answers = (np.arange(100) < 50).astype(float)
        totals = [generator.permutation(answers) for _ in range(2)]
        ranked += any(
            is_exact_enough(Until(None), {str(i): {("t", "s"): number} for i, number in enumerate(numbers)})
            for size in looks(100)[:-1]
            for numbers in [[Number("accuracy", each[:size], np.ones(size), 100, 1.0) for each in totals]]
        )
    assert ranked <= 10


@pytest.mark.parametrize(
    ("text", "until"), [("ci<=0.02", Until(0.02)), ("CI <= .1", Until(0.1)), ("ranking", Until(None))]
)
def test_until_is_read(text: str, until: Until) -> None:
    assert Until.parse(text) == until
    assert Until.parse(str(until)) == until


@pytest.mark.parametrize("text", ["", "ci", "ci<=2", "ci<=0", "ci<=0.5", "accuracy", "ci>=0.02"])
def test_another_condition_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"give 'ci<=0.02'"):
        Until.parse(text)


def test_the_order_is_a_function_of_the_seed_and_keeps_clusters_whole() -> None:
    samples = [Sample(sample_id=f"s{number}", cluster=f"clip{number // 3}") for number in range(60)]
    order = ordered_clusters(samples, "maia", 1)
    assert all(len({int(name[1:]) // 3 for name in cluster.sample_ids}) == 1 for cluster in order)
    assert [c.name for c in order] == [c.name for c in ordered_clusters(reversed(samples), "maia", 1)]
    assert [c.name for c in order] != [c.name for c in ordered_clusters(samples, "maia", 2)]
    assert sorted(name for cluster in order for name in cluster.sample_ids) == sorted(s.sample_id for s in samples)
    assert ordered_clusters([Sample(sample_id="a")], "mate", 1) == [Cluster("a", ("a",))]


@pytest.mark.parametrize(
    ("clusters", "sizes"), [(2, [2]), (10, [10]), (15, [10, 13, 15]), (100, [10, 13, 17, 22, 28, 35])]
)
def test_looks_grow_and_end_with_all(clusters: int, sizes: list[int]) -> None:
    assert looks(clusters)[: len(sizes)] == sizes
    assert looks(clusters)[-1] == clusters


@pytest.mark.parametrize(("size", "is_ranked"), [(7, False), (8, True)])
def test_two_models_are_ranked_by_evidence_for_one_of_two_orders(size: int, is_ranked: bool) -> None:
    """At 7 clusters the evidence is 3.30: above log(1 / 0.05), and below log(2 / 0.05) of both orders together."""
    by_model = {
        name: {("t", "s"): Number("accuracy", totals, np.ones(size), 1000, 1.0)}
        for name, totals in (("a", np.ones(size)), ("b", np.zeros(size)))
    }
    assert is_exact_enough(Until(None), by_model) == is_ranked
