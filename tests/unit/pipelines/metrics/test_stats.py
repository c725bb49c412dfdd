from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.proportion import proportion_confint

from pipelines.metrics import stats
from tests.unit.pipelines.metrics.metric_cases import golden, row_name

CLUSTERS = ["v1", "v1", "v2", "v3", "v3", "v3"]
VALUES = [1.0, 0.0, 1.0, 0.0, 1.0, 1.0]


def test_replicates_are_means_of_whole_clusters() -> None:
    # Three clusters (1, 0), (1), (0, 1, 1): every mean is one of ten multisets of three.
    sums, sizes = np.array([1.0, 1.0, 2.0]), np.array([2.0, 1.0, 3.0])
    possible = {
        round(sums[[i, j, k]].sum() / sizes[[i, j, k]].sum(), 12) for i in range(3) for j in range(3) for k in range(3)
    }
    drawn = stats.bootstrap_replicates(VALUES, CLUSTERS, resamples=2000)
    assert {round(float(value), 12) for value in drawn} == possible


def test_drawn_ratios_equal_single_bootstraps() -> None:
    # Part 1 has rows in all three clusters, part 2 in the last alone.
    totals, sizes = np.array([[1.0, 0.0], [1.0, 0.0], [2.0, 3.0]]), np.array([[2.0, 0.0], [1.0, 0.0], [3.0, 4.0]])
    drawn = stats.drawn_ratios(totals, sizes, resamples=500)
    np.testing.assert_array_equal(drawn[:, 0], stats.bootstrap_replicates(VALUES, CLUSTERS, resamples=500))
    rest = stats.drawn_ratios(np.array([[0.0], [0.0], [1.0]]), np.ones((3, 1)), resamples=500)
    absent = rest[:, 0] == 0.0
    assert 0 < absent.sum() < 500
    np.testing.assert_array_equal(np.isnan(drawn[:, 1]), absent)
    np.testing.assert_allclose(drawn[~absent, 1], 0.75)


def test_interval_of_equal_draws_contains_its_number() -> None:
    third = 1 / 3
    assert stats.interval_of(np.full(9, third + 1e-16), third) == stats.Interval(third, third)
    assert stats.interval_of(np.array([0.2, np.nan, 0.2]), 0.2) == stats.Interval(0.2, 0.2)
    assert stats.interval_of(np.array([np.nan]), 0.2) is None


def test_first_draws_are_independent_of_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = stats.bootstrap_replicates(VALUES, CLUSTERS, resamples=100)
    monkeypatch.setattr(stats, "_BLOCK_CELLS", 7)  # two draws of three clusters a block
    np.testing.assert_array_equal(stats.bootstrap_replicates(VALUES, CLUSTERS, resamples=100), whole)


@pytest.mark.parametrize("cached", [True, False])
def test_tables_that_share_draws_get_the_bits_of_single_ones(monkeypatch: pytest.MonkeyPatch, cached: bool) -> None:
    monkeypatch.setattr(stats, "_CACHED_CELLS", 1 << 40 if cached else 0)
    monkeypatch.setattr(stats, "_BLOCK_CELLS", 10_000)  # seven draws a block
    monkeypatch.setattr(stats, "_CACHE_CELLS", 3_000)  # two draws a step
    generator = np.random.default_rng(3)
    counts = generator.integers(0, 9, size=(1301, 4)).astype(np.float64)
    tables = [generator.normal(size=(1301, 2)), counts, generator.normal(size=(1301, 3))]
    together = stats.drawn_tables(tables, resamples=50)
    drawn = np.random.default_rng(stats.SEED).integers(0, 1301, size=(50, 1301))
    np.testing.assert_array_equal(together[1], np.stack([counts[draw].sum(axis=0) for draw in drawn]))
    for table, sums in zip(tables, together, strict=True):
        np.testing.assert_array_equal(sums, stats.drawn_sums(table, resamples=50))


def test_seeds_give_different_draws() -> None:
    a, b = (stats.bootstrap_replicates(VALUES, CLUSTERS, resamples=50, seed=seed) for seed in (42, 43))
    assert not np.array_equal(a, b)


def test_interval_matches_theory_on_independent_rows() -> None:
    values = np.random.default_rng(7).normal(size=400)
    interval = stats.bootstrap_ci(values)
    assert interval is not None
    half_width = 1.96 * values.std() / 20
    assert interval.low == pytest.approx(values.mean() - half_width, abs=0.01)
    assert interval.high == pytest.approx(values.mean() + half_width, abs=0.01)


def test_clusters_widen_the_interval_of_correlated_rows() -> None:
    values = np.repeat(np.random.default_rng(7).normal(size=50), 20)
    rows = stats.bootstrap_ci(values)
    clusters = stats.bootstrap_ci(values, np.repeat(np.arange(50), 20))
    assert rows is not None
    assert clusters is not None
    assert clusters.high - clusters.low > 3 * (rows.high - rows.low)


@pytest.mark.parametrize(("values", "clusters"), [([], None), ([1.0], None), ([1.0, 0.0], ["a", "a"])])
def test_fewer_than_two_clusters_have_no_interval(values: list[float], clusters: list[str] | None) -> None:
    assert stats.bootstrap_ci(values, clusters) is None


def test_invalid_input_is_refused() -> None:
    with pytest.raises(ValueError, match="finite"):
        stats.bootstrap_ci([1.0, float("nan")])
    with pytest.raises(ValueError, match="finite"):
        stats.bootstrap_ci([[1.0, 0.0]])
    with pytest.raises(ValueError, match="2 values but 1 clusters"):
        stats.bootstrap_ci([1.0, 0.0], ["a"])
    with pytest.raises(ValueError, match="no rows"):
        stats.bootstrap_replicates([])


@settings(max_examples=25, deadline=None)
@given(st.permutations(range(6)))
def test_interval_is_independent_of_the_row_order(order: list[int]) -> None:
    # 0.1 + 0.2 + 0.3 is another double than 0.3 + 0.2 + 0.1.
    values, clusters = [0.1, 0.2, 0.3, 0.9, 0.7, 0.6], ["b", "b", "b", "c", "a", "c"]
    expected = stats.bootstrap_replicates(values, clusters, resamples=200)
    shuffled = [values[i] for i in order], [clusters[i] for i in order]
    np.testing.assert_array_equal(stats.bootstrap_replicates(*shuffled, resamples=200), expected)


@pytest.mark.parametrize("row", golden("wilson"), ids=row_name)
def test_wilson_interval_matches_golden_rows(row: dict[str, Any]) -> None:
    interval = stats.wilson_ci(row["successes"], row["n"])
    assert interval is not None
    assert [interval.low, interval.high] == pytest.approx([row["low"], row["high"]], abs=5e-5)


@pytest.mark.parametrize("n", [1, 2, 7, 100, 3333])
def test_wilson_interval_equals_statsmodels(n: int) -> None:
    for successes in {*range(min(n, 40)), n}:
        low, high = proportion_confint(successes, n, alpha=1.0 - stats.LEVEL, method="wilson")
        assert stats.wilson_ci(successes, n) == stats.Interval(low, high)


def test_wilson_interval_without_trials_is_none() -> None:
    assert stats.wilson_ci(0, 0) is None
    with pytest.raises(ValueError, match="3 successes in 2 trials"):
        stats.wilson_ci(3, 2)


@pytest.mark.parametrize("row", golden("half_up"), ids=row_name)
def test_half_up_matches_golden_rows(row: dict[str, Any]) -> None:
    assert str(stats.half_up(row["value"], row["decimals"])) == row["expected"]


@settings(deadline=None)  # the first example imports a library
@given(st.integers(-(10**6), 10**6), st.integers(0, 3))
def test_half_up_rounds_halves_away_from_zero(n: int, decimals: int) -> None:
    scale = 10**decimals
    rounded = float(stats.half_up((n + (0.5 if n >= 0 else -0.5)) / scale, decimals))
    assert rounded == pytest.approx((n + (1 if n >= 0 else -1)) / scale)


@pytest.mark.parametrize(("value", "decimals"), [(float("nan"), 1), (float("inf"), 1), (1e15, 1), (1.0, -1), (1.0, 10)])
def test_half_up_refuses_invalid_input(value: float, decimals: int) -> None:
    with pytest.raises(ValueError, match="cannot round"):
        stats.half_up(value, decimals)
