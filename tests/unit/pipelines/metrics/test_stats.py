from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.metrics import stats
from tests.unit.pipelines.metrics.metric_cases import golden, row_name


def test_draws_are_as_many_as_rows_and_depend_on_the_seed_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    (draws,) = stats.row_draws(7, resamples=500)
    assert draws.shape == (500, 7)
    assert (draws.sum(axis=1) == 7).all()
    assert draws.mean() == pytest.approx(1.0)
    whole, again, other = (next(stats.row_draws(5, resamples=50, seed=seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(whole, again)
    assert (whole != other).any()
    (whole,) = stats.row_draws(6, resamples=40)
    monkeypatch.setattr(stats, "_BLOCK_VALUES", 50)
    blocks = list(stats.row_draws(6, resamples=40))
    assert len(blocks) == 5
    np.testing.assert_array_equal(np.concatenate(blocks), whole)


@pytest.mark.parametrize("row", golden("half_up"), ids=row_name)
def test_half_up_matches_golden_rows(row: dict[str, Any]) -> None:
    assert str(stats.half_up(row["value"], row["decimals"])) == row["expected"]


@given(st.integers(-(10**6), 10**6), st.integers(0, 3))
def test_half_up_rounds_halves_away_from_zero(n: int, decimals: int) -> None:
    scale = 10**decimals
    rounded = float(stats.half_up((n + (0.5 if n >= 0 else -0.5)) / scale, decimals))
    assert rounded == pytest.approx((n + (1 if n >= 0 else -1)) / scale)


@pytest.mark.parametrize(("value", "decimals"), [(float("nan"), 1), (float("inf"), 1), (1e15, 1), (1.0, -1), (1.0, 10)])
def test_half_up_refuses_invalid_input(value: float, decimals: int) -> None:
    with pytest.raises(ValueError, match="cannot round"):
        stats.half_up(value, decimals)
