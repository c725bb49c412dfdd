"""Intervals against their definitions written out, statsmodels, and simulated numbers whose true values are known."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t as student
from statsmodels.stats.proportion import proportion_confint

from pipelines.metrics import intervals
from pipelines.metrics.f1 import macro_f1
from pipelines.metrics.intervals import DIFFERENCE, FRACTION, Term, interval, student_p, student_quantile, wilson
from pipelines.report.tables.repeats import variance_components
from tests.support.interval_oracle import jackknife_ends, mean_ends, share_ends
from tests.support.interval_simulation import Case, coverage
from tests.unit.pipelines.metrics.metric_cases import golden, row_name

NORMAL = 1.959963984540054


def mean(values: Any, clusters: Any = None, weight: float = 1.0) -> Term:
    """Return the mean of values; every row is a cluster by default."""
    names = np.arange(len(values)) if clusters is None else np.asarray(clusters)
    return Term(np.stack([np.asarray(values, dtype=np.float64), np.ones(len(values))], axis=1), names, weight=weight)


def ends(*terms: Term, within: tuple[float, float] = FRACTION) -> tuple[float, float]:
    result = interval(terms, within)
    return result.low, result.high


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5)), min_size=2, max_size=40))
def test_shares_have_wilsons_interval_of_the_effective_rows(rows: list[tuple[bool, int]]) -> None:
    values, clusters = [float(right) for right, _ in rows], [cluster for _, cluster in rows]
    if len(set(clusters)) < 2:
        assert interval([mean(values, clusters)], FRACTION) is None
        return
    assert ends(mean(values, clusters)) == pytest.approx(share_ends(values, clusters), abs=1e-9)


def test_intervals_of_shares_are_no_points_and_count_clusters_by_their_sizes() -> None:
    # 12 independent rows: z^2 / (n + z^2) = 3.841459 / 15.841459
    assert ends(mean([1.0] * 12)) == (pytest.approx(1 - 0.2424940, abs=1e-6), 1.0)
    assert ends(mean([0.0] * 12)) == (0.0, pytest.approx(0.2424940, abs=1e-6))
    # 10 clips of 24 rows are 10 rows; t of 9 degrees 2.262157: t^2 / (k + t^2) = 5.117355 / 15.117355
    assert ends(mean([1.0] * 240, np.arange(240) // 24)) == (pytest.approx(1 - 0.3385086, abs=1e-6), 1.0)
    assert ends(mean([1.0] * 12, [0] * 6 + [1] * 6))[0] < 0.1  # two clips say little, however many questions
    # The large ones agree: the variance over clusters is that of 14 rows. By their sizes they are worth 4.2.
    sizes, right = np.array([40, 30, 20, 10, 5, 5, 2, 2]), np.array([1.0, 1, 1, 1, 0, 0, 1, 1])
    result = interval([mean(right.repeat(sizes), np.arange(8).repeat(sizes))], FRACTION)
    expected = wilson(104 / 114, 114**2 / (sizes**2).sum(), student_quantile(result.freedom))
    assert (result.low, result.high) == pytest.approx((expected.low, expected.high), abs=1e-9)
    values = np.random.default_rng(5).random(50) < 0.5
    alone, together = ends(mean(values.repeat(20))), ends(mean(values.repeat(20), np.arange(50).repeat(20)))
    assert together[1] - together[0] > 3 * (alone[1] - alone[0])
    assert together == pytest.approx(ends(mean(values)), abs=0.01)


@pytest.mark.parametrize("n", [1, 2, 7, 100, 3333])
def test_wilsons_interval_equals_statsmodels(n: int) -> None:
    for successes in {*range(min(n, 40)), n}:
        expected = proportion_confint(successes, n, alpha=0.05, method="wilson")
        result = wilson(successes / n, n, NORMAL)
        assert (result.low, result.high) == pytest.approx(expected, abs=1e-12)


@given(st.lists(st.tuples(st.floats(0.05, 0.95), st.integers(0, 3)), min_size=4, max_size=30))
def test_means_of_scores_have_the_jackknifes_interval_within_their_range(rows: list[tuple[float, int]]) -> None:
    values, clusters = zip(*rows, strict=True)
    result = interval([mean(values, clusters)], FRACTION)
    if len(set(clusters)) < 2 or result is None:
        return
    low, high = mean_ends(values, clusters)
    if high - low > 1e-6:
        assert (result.low, result.high) == pytest.approx((max(low, 0.0), min(high, 1.0)))


def test_means_of_three_clusters_and_f1_have_the_jackknifes_interval() -> None:
    # 1, 2, 3: mean 2, standard error 1 / sqrt(3), t of 2 degrees 4.302653
    reach = 4.302653 / math.sqrt(3)
    assert ends(mean([1, 2, 3]), within=(-math.inf, math.inf)) == pytest.approx((2 - reach, 2 + reach), abs=1e-6)
    assert ends(mean([1, 2, 3]), within=(0.0, math.inf))[0] == 0.0
    generator = np.random.default_rng(2)
    gold, right, clusters = generator.random(60) < 0.5, generator.random(60) < 0.8, np.arange(60) // 6
    columns = np.stack([right & gold, right & ~gold, np.ones(60)], axis=1).astype(np.float64)

    def f1(rows: Any) -> float:
        return float(macro_f1(*columns[rows].sum(axis=0)[:, None])[0])

    expected = jackknife_ends(f1, clusters.tolist(), logit=True)
    assert ends(Term(columns, clusters, macro_f1)) == pytest.approx(expected)
    all_right = np.stack([gold, ~gold, np.ones(60)], axis=1).astype(np.float64)
    assert ends(Term(all_right, clusters, macro_f1)) == pytest.approx((10 / (10 + student.ppf(0.975, 9) ** 2), 1.0))


def test_intervals_of_differences_and_groups_are_those_of_the_rows() -> None:
    generator = np.random.default_rng(1)
    a, b, clusters = generator.random(30) < 0.5, generator.random(30) < 0.7, (np.arange(30) // 3).tolist()
    result = ends(mean(b, clusters), mean(a, clusters, -1.0), within=DIFFERENCE)
    assert result == pytest.approx(mean_ends((b.astype(float) - a).tolist(), clusters))
    ones = mean([1.0] * 12)
    assert ends(ones, replace(ones, weight=-1.0), within=DIFFERENCE) == pytest.approx((-0.2875943, 0.2875943), abs=1e-6)
    assert interval([mean([0.5] * 4)], DIFFERENCE) is None  # every row changes alike: nothing tells how others would
    large, small = mean([1.0, 0.0] * 200, range(400), 0.5), mean([1.0, 0.0] * 3, range(400, 406), 0.5)
    low, high = ends(large, small)
    alone = ends(replace(small, weight=1.0))
    assert 0.9 * (alone[1] - alone[0]) / 2 < high - low < alone[1] - alone[0]
    assert high - low > 4 * np.ptp(ends(replace(large, weight=1.0)))


def test_intervals_need_two_clusters_and_tell_their_degrees_of_freedom_in_any_order() -> None:
    assert interval([mean([1.0, 0.0], ["a", "a"])], FRACTION) is None
    assert interval([Term(np.zeros((3, 2)), np.arange(3))], FRACTION) is None
    lone = Term(np.array([[1.0, 1.0], [0.0, 0.0], [0.0, 0.0]]), np.arange(3), weight=0.5)
    assert interval([lone, mean([1.0, 0.0, 1.0], weight=0.5)], FRACTION) is None  # a group of one cluster
    generator = np.random.default_rng(4)
    values, clusters, order = generator.random(40), generator.integers(0, 6, 40), generator.permutation(40)
    assert ends(mean(values, clusters)) == pytest.approx(ends(mean(values[order], clusters[order])), abs=1e-12)
    result = interval([mean([1.0, 0.0, 1.0, 1.0, 0.0, 1.0], [0, 0, 1, 1, 2, 2])], FRACTION)
    assert result.freedom == 2
    assert interval([mean([1.0, 0.0, 1.0])], FRACTION) == replace(wilson(2 / 3, 2, NORMAL), freedom=0.0)
    giant = interval([mean([1.0, 0.0] * 40, [0] * 40 + [1 + row // 4 for row in range(40)])], FRACTION)
    assert 3 < giant.freedom < 4  # not ten: one of the eleven clusters has half of the rows


@pytest.mark.parametrize("freedom", [1, 1.02, 1.7, 3.3, 27.4, 1e5])
def test_students_quantiles_are_those_of_scipy(freedom: float) -> None:
    assert student_quantile(freedom) == pytest.approx(float(student.ppf(0.975, freedom)), rel=1e-9)


@pytest.mark.parametrize("kind", ["share", "mean of two groups", "mean of scores", "macro F1", "BLEU"])
def test_intervals_hold_the_true_value(kind: str) -> None:
    """A small part of `make simulate-intervals`."""
    grid = [
        Case(kind, clusters, size, value, correlation)
        for clusters in (6, 20)
        for size, correlation in (("1", 0.0), ("24", 0.1), ("lognormal", 0.3), ("one half", 0.1))
        for value in (0.1, 0.5, 0.9)
    ]
    held = [coverage(case, 60, seed=7) for case in grid]
    assert 0.92 <= np.mean(held) <= 0.995
    assert min(held) >= 0.75  # of 60 repetitions


@pytest.mark.parametrize("freedom", [1, 1.3, 2, 4, 4.7, 9, 200, math.inf])
def test_p_values_are_those_of_scipy(freedom: float) -> None:
    for t in (0.0, 0.5, -2.0, 4.0):
        expected = 2 * float(student.sf(abs(t), freedom if math.isfinite(freedom) else 1e12))
        assert student_p(t, freedom) == pytest.approx(expected, abs=1e-9)


def planted(seed: int, shape: tuple[int, int, int, int], **deviations: float) -> np.ndarray:
    draws = np.random.default_rng(seed).normal
    items, settings, prompts, repeats = shape
    return (
        deviations.get("items", 0) * draws(size=(items, 1, 1, 1))
        + deviations.get("settings", 0) * draws(size=(1, settings, 1, 1))
        + deviations.get("prompts", 0) * draws(size=(1, 1, prompts, 1))
        + deviations.get("interaction", 0) * draws(size=(items, settings, prompts, 1))
        + deviations.get("repeats", 0) * draws(size=(items, settings, prompts, repeats))
    )


def test_planted_components_are_estimated_without_bias() -> None:
    planned = {"items": 1.0, "settings": 0.5, "prompts": 0.4, "interaction": 0.6, "repeats": 0.8}
    estimates = [variance_components(planted(seed, (60, 6, 6, 3), **planned)) for seed in range(100)]
    for name, deviation in planned.items():
        assert np.mean([parts[name] for parts in estimates]) == pytest.approx(deviation**2, rel=0.15)


def test_a_factor_with_one_level_is_absent_and_equal_scores_have_no_variance() -> None:
    assert set(variance_components(planted(1, (9, 1, 1, 4), items=1, repeats=1))) == {"items", "repeats"}
    assert set(variance_components(planted(1, (9, 3, 1, 1), items=1, repeats=1))) == {
        "items",
        "settings",
        "interaction",
    }
    assert set(variance_components(np.ones((5, 2, 2, 3))).values()) == {0.0}


def test_draws_are_as_many_as_rows_and_depend_on_the_seed_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    (draws,) = intervals.row_draws(7, resamples=500)
    assert draws.shape == (500, 7)
    assert (draws.sum(axis=1) == 7).all()
    assert draws.mean() == pytest.approx(1.0)
    whole, again, other = (next(intervals.row_draws(5, resamples=50, seed=seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(whole, again)
    assert (whole != other).any()
    (whole,) = intervals.row_draws(6, resamples=40)
    monkeypatch.setattr(intervals, "_BLOCK_VALUES", 50)
    blocks = list(intervals.row_draws(6, resamples=40))
    assert len(blocks) == 5
    np.testing.assert_array_equal(np.concatenate(blocks), whole)


@pytest.mark.parametrize("row", golden("half_up"), ids=row_name)
def test_half_up_matches_golden_rows(row: dict[str, Any]) -> None:
    assert str(intervals.half_up(row["value"], row["decimals"])) == row["expected"]


@given(st.integers(-(10**6), 10**6), st.integers(0, 3))
def test_half_up_rounds_halves_away_from_zero(n: int, decimals: int) -> None:
    scale = 10**decimals
    rounded = float(intervals.half_up((n + (0.5 if n >= 0 else -0.5)) / scale, decimals))
    assert rounded == pytest.approx((n + (1 if n >= 0 else -1)) / scale)


@pytest.mark.parametrize(("value", "decimals"), [(float("nan"), 1), (float("inf"), 1), (1e15, 1), (1.0, -1), (1.0, 10)])
def test_half_up_refuses_invalid_input(value: float, decimals: int) -> None:
    with pytest.raises(ValueError, match="cannot round"):
        intervals.half_up(value, decimals)
