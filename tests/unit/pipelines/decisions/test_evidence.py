"""What an interval says about a limit, on the scale on which it was made."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import t as student

from pipelines.decisions.evidence import NORMAL, Z95, Evidence, quantile, rows_for
from pipelines.metrics.intervals import FRACTION, Term, interval


def share(right: int, n: int) -> Evidence:
    rows = np.stack([np.arange(n) < right, np.ones(n)], axis=1).astype(float)
    ends = interval([Term(rows, np.arange(n))], FRACTION)
    assert ends is not None
    return Evidence(right / n, ends.low, ends.high, n, ends.freedom or math.inf)


@pytest.mark.parametrize(("right", "n"), [(80, 100), (12, 12), (0, 30), (499, 500), (1, 40)])
def test_ends_of_a_share_are_at_the_quantile(right: int, n: int) -> None:
    number = share(right, n)
    if right:
        assert number.deviations_above(number.low) == pytest.approx(Z95)
    if right < n:
        assert number.deviations_above(number.high) == pytest.approx(-Z95)
    assert number.deviations_above(right / n) == 0


def test_share_is_tested_as_the_score_test_does() -> None:
    """z = (p - limit) / sqrt(limit (1 - limit) / n)."""
    expected = (0.8 - 0.7) / math.sqrt(0.7 * 0.3 / 10_000)
    assert share(8_000, 10_000).deviations_above(0.7) == pytest.approx(expected, rel=1e-3)
    assert share(12, 12).deviations_above(0.5) == pytest.approx(math.sqrt(12))
    clips = Evidence(1.0, 10 / (10 + 2.262157**2), 1.0, 240, 9)  # ten clips, t of 9 degrees
    assert clips.deviations_above(0.5) == pytest.approx(math.sqrt(10), rel=1e-6)
    assert clips.chance_below(-math.sqrt(10)) == pytest.approx(float(student.cdf(-math.sqrt(10), 9)), rel=1e-6)


def test_mean_and_fraction_have_their_own_scales() -> None:
    mean = Evidence(3.0, 2.0, 4.0, 10)
    assert mean.deviations_above(2.5) == pytest.approx(Z95 / 2)
    assert mean.deviations_above(5.0) == pytest.approx(-2 * Z95)
    low, high = (1 / (1 + math.exp(-logit)) for logit in (-1.0, 2.0))
    f1 = Evidence(1 / (1 + math.exp(-0.5)), low, high, 10)
    assert f1.deviations_above(1 / (1 + math.exp(1.0))) == pytest.approx(Z95)
    assert f1.deviations_above(high) == pytest.approx(-Z95)
    assert 0 < f1.deviations_above(0.5) < Z95


def test_deviations_fall_with_the_limit() -> None:
    rng = np.random.default_rng(5)
    rows = np.stack([rng.integers(0, 2, 60), np.ones(60)], axis=1).astype(float)
    ends = interval([Term(rows, np.arange(60) // 4)], FRACTION)
    assert ends is not None
    number = Evidence(float(rows[:, 0].mean()), ends.low, ends.high, 60)
    deviations = [number.deviations_above(limit) for limit in np.linspace(0.01, 0.99, 50)]
    assert deviations == sorted(deviations, reverse=True)


def test_number_without_spread_is_certain() -> None:
    assert Evidence(2.0, 2.0, 2.0, 5).deviations_above(1.0) == math.inf
    assert Evidence(2.0, 2.0, 2.0, 5).deviations_above(3.0) == -math.inf


def test_rows_grow_with_the_square_of_the_quantile() -> None:
    assert NORMAL.cdf(-NORMAL.inv_cdf(0.95)) == pytest.approx(0.05)
    assert quantile(0.05) == pytest.approx(1.959964)
    assert rows_for(100, 1.0, 2.0) == 400
    assert rows_for(100, 0.0, 2.0) is None
