from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kstest, ttest_1samp
from scipy.stats import t as student

from pipelines.metrics import paired
from pipelines.metrics.intervals import Statistic, Term, ratio
from pipelines.metrics.ngrams import bleu_counts, bleu_of_sums
from tests.support.paired_simulation import simulate
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


def compared(pair: paired.PairedSums, *, share: bool = False) -> paired.Tested:
    result = paired.difference_test(pair, is_fraction=share, is_share=share)
    assert result is not None
    return result


def test_differences_without_skewness_have_students_t_test() -> None:
    differences = [1.0, 2.0, 3.0, 4.0, 5.0]
    result = compared(means([0.0] * 5, differences))
    assert result.p == pytest.approx(ttest_1samp(differences, 0).pvalue)
    low, high = ttest_1samp(differences, 0).confidence_interval()
    assert (result.ends.low, result.ends.high) == (pytest.approx(low), pytest.approx(high))
    assert (result.spread.freedom, result.spread.error) == (pytest.approx(4), pytest.approx(sqrt(0.5)))  # 2.5 / 5


@given(st.integers(0, 30), st.integers(0, 30))
def test_independent_right_and_wrong_rows_have_mcnemars_statistic(better: int, worse: int) -> None:
    rows = 100
    a, b = np.zeros(rows), np.zeros(rows)
    b[:better], a[better : better + worse] = 1, 1
    if better == worse:
        return
    statistic = (better - worse) / sqrt(better + worse)
    result = compared(means(a, b), share=True)
    assert result.p == pytest.approx(2 * student.sf(abs(statistic), rows - 1), rel=0.2)


@given(
    st.lists(st.tuples(st.booleans(), st.booleans(), st.integers(0, 9)), min_size=4, max_size=60),
    st.floats(0.0005, 0.2),
    st.booleans(),
)
def test_intervals_of_any_level_agree_with_p(rows: list[tuple[bool, bool, int]], alpha: float, share: bool) -> None:
    a, b, clusters = zip(*rows, strict=True)
    result = compared(means(a, b, np.array(clusters)), share=share)
    ends = None if result.spread is None else result.spread.ends(result.difference, alpha)
    for level, interval in ((alpha, ends), (0.05, result.ends)):
        if result.p is not None and interval is not None and abs(result.p - level) > 1e-6:
            assert (result.p < level) == (interval.low > 0 or interval.high < 0)


def test_whole_clusters_that_have_a_row_are_the_units() -> None:
    a, b = [0.0] * 40, [1.0, 0.0, 1.0, 1.0] * 10
    alone, together = (compared(means(a, b, np.repeat(np.arange(40 // size), size))) for size in (1, 4))
    assert together.p is None or alone.p is not None
    assert compared(means(a, b, np.zeros(40))).p is None  # one cluster tells nothing
    assert compared(means(a, b, np.zeros(40))).ends is None
    wrong = np.array([1.0, 1, 1, 0, 0, 0, 0, 0])  # a share of wrong answers, of which three clusters hold any
    assert sums((wrong * 0, wrong), (wrong, wrong), np.arange(8)).clusters == 3


def test_equal_differences_have_an_interval_and_a_metric_without_a_value_no_test() -> None:
    result = compared(means(np.zeros(12), np.zeros(12)), share=True)
    assert (result.p, result.ends is not None and result.ends.low < 0 < result.ends.high) == (1.0, True)
    gained = compared(means(np.zeros(12), np.ones(12)), share=True)
    assert gained.p is not None
    assert gained.p < 0.05
    assert 0 < gained.ends.low < gained.ends.high == 1.0
    zeros, ones = np.zeros(3), np.ones(3)
    pair = sums((ones, ones), (zeros, zeros), np.arange(3))
    assert paired.difference_test(pair, is_fraction=True) is None


def test_p_values_do_not_depend_on_the_order_of_rows_or_on_which_model_is_first() -> None:
    generator = np.random.default_rng(1)
    a, b, clusters = generator.random(60), generator.random(60), np.repeat(np.arange(20), 3)
    order = generator.permutation(60)
    p = compared(means(a, b, clusters)).p
    assert compared(means(a[order], b[order], clusters[order])).p == pytest.approx(p)
    assert compared(means(b, a, clusters)).p == pytest.approx(p)


def test_variance_of_repeats_and_holm_by_hand() -> None:
    differences, questions = np.array([1.0, 0.0, 1.0, 1.0]), np.array([4, 4, 7, 7])
    assert paired.repeat_variance(differences, questions) == pytest.approx(0.5 / 2 / 4)  # squares, freedom, rows
    assert paired.repeat_variance(differences, np.arange(4)) is None
    assert paired.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert paired.holm([0.6, 0.5]) == [1.0, 1.0]
    assert paired.holm([]) == []
    assert paired.holm([None, 0.04, None, 0.01]) == [None, 0.04, None, 0.02], "what was not tested counts not"


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
    assert all(0.93 <= outcome.covered <= 0.99 for outcome in outcomes), [o.covered for o in outcomes]


@pytest.mark.parametrize(("clusters", "repetitions"), [(3, 400), (10, 400), (100, 150)])
def test_p_values_without_a_difference_are_no_smaller_than_chance(clusters: int, repetitions: int) -> None:
    outcome = simulate(clusters, gain=0.0, repetitions=repetitions, seed=2, binary=False)
    assert kstest(outcome.p_values, "uniform", alternative="greater").pvalue > 0.01
    assert outcome.rejected <= 0.08


def test_power_grows_with_clusters() -> None:
    power = [simulate(clusters, gain=0.3, repetitions=100, seed=3).rejected for clusters in (3, 10, 100)]
    assert power[0] < 0.2
    assert 0.1 < power[1] < 0.5
    assert power[2] > 0.95
