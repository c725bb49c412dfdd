"""Permutation test, intervals and effect sizes of paired differences."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kstest

from pipelines.metrics import paired
from pipelines.metrics.agreement import mcnemar_exact
from pipelines.metrics.bleu import bleu_counts, bleu_of_sums
from pipelines.metrics.f1 import macro_f1
from pipelines.metrics.intervals import Statistic, Term, ratio
from tests.support.paired_simulation import simulate, uniform_p_values
from tests.unit.pipelines.metrics.metric_cases import corpus_bleu

WORDS = st.lists(st.sampled_from(["a", "b", "c", "the", "cat", "."]), min_size=1, max_size=7).map(" ".join)


def means(a: Any, b: Any, clusters: Any = None) -> paired.PairedSums:
    """Return the mean of values of A and B."""
    sides = [(np.asarray(side, dtype=np.float64), np.ones(len(side))) for side in (a, b)]
    return sums(sides[0], sides[1], np.arange(len(a)) if clusters is None else clusters)


def sums(a: Sequence[Any], b: Sequence[Any], clusters: Any, statistic: Statistic = ratio) -> paired.PairedSums:
    """Return the sums of one statistic's columns of A and B."""
    terms = [Term(np.stack(side, axis=1).astype(np.float64), clusters, statistic) for side in (a, b)]
    return paired.PairedSums.of(terms[:1], terms[1:])


@pytest.mark.parametrize(
    ("differences", "expected"),
    [
        ([1, 2, 3], 2 / 8),  # only the swap of all or of none reaches 6
        ([1, 2, -3], 1.0),  # the sum is 0, which every swap reaches
        ([1, 2, 0, 4], 2 / 8),  # a cluster without a difference is no evidence
        ([1, 1, 1, -1], 10 / 16),  # sums of at least 2: one or no cluster of another sign, 2 * (1 + 4) of 16
        ([5], 1.0),
        ([0, 0], 1.0),
    ],
)
def test_permutations_of_few_clusters_are_counted_by_hand(differences: list[float], expected: float) -> None:
    assert paired.permutation_p(means([0] * len(differences), differences)) == expected


def test_clusters_without_a_row_of_the_metric_are_no_evidence() -> None:
    wrong = np.array([1.0, 1, 1, 0, 0, 0, 0, 0])  # a share of wrong answers, of which three clusters hold any
    pair = sums((wrong * 0, wrong), (wrong, wrong), np.arange(8))
    assert pair.clusters == 3
    assert paired.permutation_p(pair) == paired.smallest_p(pair.clusters) == 2 / 2**3


def test_whole_clusters_are_swapped() -> None:
    a, b = [0] * 8, [1, 1, 1, 1, 0, 1, 1, 1]
    assert paired.permutation_p(means(a, b)) == 2 / 2**7
    assert paired.permutation_p(means(a, b, np.repeat([0, 1, 2, 3], 2))) == 2 / 2**4
    assert paired.permutation_p(means(a, b, np.zeros(8))) == 1.0


@settings(deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=30))
def test_permutation_of_independent_yes_and_no_is_mcnemars_exact_test(pairs: list[tuple[bool, bool]]) -> None:
    a, b = zip(*pairs, strict=True)
    pair = means(a, b)
    if paired.is_exact(pair):
        assert paired.permutation_p(pair) == pytest.approx(mcnemar_exact(a, b))


def test_drawn_permutations_come_close_to_all_of_them() -> None:
    generator = np.random.default_rng(3)
    differences = generator.normal(0.3, 1, paired.EXACT_CLUSTERS + 1)
    signs = np.array(list(product((-1, 1), repeat=len(differences))))
    exact = float((np.abs(signs @ differences) >= abs(differences.sum()) - 1e-12).mean())
    drawn = paired.permutation_p(means(np.zeros(len(differences)), differences))
    assert not paired.is_exact(means(np.zeros(len(differences)), differences))
    assert drawn == pytest.approx(exact, abs=4 * sqrt(exact * (1 - exact) / paired.PERMUTATIONS))


def test_a_metric_that_is_no_mean_is_computed_again_on_every_permutation() -> None:
    generator = np.random.default_rng(7)
    gold, clusters = generator.random(12) < 0.5, np.repeat(np.arange(4), 3)
    right = [generator.random(12) < share for share in (0.4, 0.8)]

    def f1(rows: Any) -> float:
        counts = (np.array([float(np.sum(rows & gold))]), np.array([float(np.sum(rows & ~gold))]), np.array([12.0]))
        return float(macro_f1(*counts)[0])

    observed, reached = f1(right[1]) - f1(right[0]), 0
    for swap in product((False, True), repeat=4):
        swapped = np.array(swap)[clusters]
        a, b = np.where(swapped, right[1], right[0]), np.where(swapped, right[0], right[1])
        reached += abs(f1(b) - f1(a)) >= abs(observed) - 1e-12
    sides = [(rows & gold, rows & ~gold, np.ones(12)) for rows in right]
    pair = sums(sides[0], sides[1], clusters, macro_f1)
    assert pair.values == (f1(right[0]), f1(right[1]))
    assert paired.permutation_p(pair) == reached / 16


def test_p_values_do_not_depend_on_the_order_of_rows_or_on_which_model_is_first() -> None:
    generator = np.random.default_rng(1)
    a, b, clusters = generator.random(60), generator.random(60), np.repeat(np.arange(20), 3)
    order = generator.permutation(60)
    p = paired.permutation_p(means(a, b, clusters))
    assert paired.permutation_p(means(a[order], b[order], clusters[order])) == p
    assert paired.permutation_p(means(b, a, clusters)) == p


def test_a_metric_without_a_value_has_no_p_value() -> None:
    zeros, ones = np.zeros(3), np.ones(3)
    pair = sums((ones, ones), (zeros, zeros), np.arange(3))
    assert paired.permutation_p(pair) is None


@pytest.mark.parametrize(
    ("clusters", "expected"), [(1, 1.0), (3, 0.25), (5, 0.0625), (6, 0.03125), (13, 2 / 8192), (14, 1 / 10001)]
)
def test_the_smallest_p_value_follows_from_the_number_of_clusters(clusters: int, expected: float) -> None:
    assert paired.smallest_p(clusters) == expected
    assert paired.permutation_p(means([0] * clusters, [1] * clusters)) == pytest.approx(expected, abs=3e-4)


def test_effect_sizes_by_hand() -> None:
    assert paired.cohen_h(0.25, 0.5) == pytest.approx(1.570796 - 1.047198, abs=1e-6)
    assert paired.cohen_h(0.5, 0.25) == -paired.cohen_h(0.25, 0.5)
    assert paired.cohen_d(means([0, 0, 0], [1, 2, 3])) == pytest.approx(2.0)  # mean 2, deviation 1
    assert paired.cohen_d(means([0, 0], [1, 1])) is None


def test_holm_by_hand() -> None:
    assert paired.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert paired.holm([0.6, 0.5]) == [1.0, 1.0]
    assert paired.holm([]) == []
    assert paired.holm([None, 0.04, None, 0.01]) == [None, 0.04, None, 0.02], "what was not tested counts not"


@settings(deadline=None)
@given(st.lists(st.tuples(WORDS | st.just(""), st.lists(WORDS, min_size=1, max_size=3)), min_size=1, max_size=4))
def test_bleu_of_summed_counts_is_corpus_bleu(rows: list[tuple[str, list[str]]]) -> None:
    candidates, references = [row[0] for row in rows], [row[1] for row in rows]
    sums = bleu_counts(candidates, references).sum(axis=0)
    for order in range(1, 5):
        value = float(bleu_of_sums(*sums[:, None], order=order)[0])
        assert value == pytest.approx(corpus_bleu(candidates, references, order=order), abs=1e-12)


def test_bleu_by_hand() -> None:
    # precisions 3/4, 2/3, 1/2 and, without a match, half of 1/1: their product is 1/8
    counts = bleu_counts(["nel forno caldo ieri"], [["nel forno caldo oggi"]])
    assert counts[0].tolist() == [3, 2, 1, 0, 4, 3, 2, 1, 4, 4]
    assert float(bleu_of_sums(*counts.T)[0]) == pytest.approx(0.125**0.25)


# ------------------------------------------------------------------------- simulated truth; all of it: make simulate


def test_intervals_cover_a_known_difference() -> None:
    outcomes = [simulate(clusters, gain=0.3, repetitions=400, seed=5) for clusters in (3, 10)]
    outcomes.append(simulate(100, gain=0.3, repetitions=150, seed=5))
    assert [round(outcome.true_difference, 4) for outcome in outcomes] == [0.09] * 3
    assert all(0.93 <= outcome.covered <= 0.97 for outcome in outcomes), [o.covered for o in outcomes]


@pytest.mark.parametrize(("clusters", "repetitions"), [(3, 400), (10, 400), (100, 150)])
def test_p_values_without_a_difference_are_uniform(clusters: int, repetitions: int) -> None:
    outcome = simulate(clusters, gain=0.0, repetitions=repetitions, seed=2, binary=False)
    assert kstest(uniform_p_values(outcome, 2), "uniform").pvalue > 0.01
    assert outcome.rejected <= 0.08


def test_power_grows_with_clusters_and_three_have_none() -> None:
    power = [simulate(clusters, gain=0.3, repetitions=100, seed=3).rejected for clusters in (3, 10, 100)]
    assert power[0] == 0.0
    assert 0.1 < power[1] < 0.5
    assert power[2] > 0.95
