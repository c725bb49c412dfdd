"""Draws of rows, for tests that resample, and rounding."""

from collections.abc import Iterator
from decimal import ROUND_HALF_UP, Decimal
from typing import Final

import numpy as np

from pipelines.metrics.intervals import FloatArray

RESAMPLES: Final = 10_000
SEED: Final = 42
_BLOCK_VALUES: Final = 4_000_000  # drawn numbers in memory at once, 32 MB
_NOISE_DIGITS: Final = 9  # further decimals of a printed number are rounding noise
_MAX_PRINTED: Final = 1e15  # larger doubles have no tenths


def row_draws(rows: int, *, resamples: int = RESAMPLES, seed: int = SEED) -> Iterator[FloatArray]:
    """Yield blocks of how often each row is drawn, (draws, rows): a pure function of the numbers and the seed."""
    generator = np.random.default_rng(seed)
    block = max(1, _BLOCK_VALUES // rows)
    for start in range(0, resamples, block):
        draws = generator.integers(0, rows, size=(min(block, resamples - start), rows))
        indices = draws + np.arange(len(draws))[:, None] * rows
        yield np.bincount(indices.ravel(), minlength=draws.size).reshape(draws.shape).astype(np.float64)


def half_up(value: float, decimals: int) -> Decimal:
    """Round a number in its printed unit, halves away from zero: 44.25 gives 44.3 where Python gives 44.2.

    Binary noise is dropped first: 28.499999999999996 counts as 28.5. The result is never minus zero. Raises ValueError
    for a number that is not finite or at least 1e15, or for `decimals` outside 0..9.
    """
    if not abs(value) < _MAX_PRINTED or not 0 <= decimals <= _NOISE_DIGITS:
        raise ValueError(f"cannot round {value} to {decimals} decimals")
    cleaned = Decimal(repr(float(value))).quantize(Decimal(1).scaleb(-_NOISE_DIGITS), ROUND_HALF_UP)
    rounded = cleaned.quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_UP)
    return rounded or abs(rounded)
