"""P-values of single items, the share of false ones among those listed, and shrunk discriminations."""

import math
from collections.abc import Sequence
from itertools import combinations
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pipelines.metrics.intervals import FloatArray, student_p

LISTED_Q: Final = 0.1  # an item is listed below it
_ENUMERATED: Final = 20_000  # ways to choose the models that are right, at most; above, Pitman's t
_ROUNDING: Final = 1e-9
_Z95: Final = 1.959964


def benjamini_hochberg(p_values: Sequence[float | None]) -> list[float | None]:
    """Return q-values (Benjamini and Hochberg 1995) in the order of the p-values; None stays and does not count."""
    ordered = sorted(((p, place) for place, p in enumerate(p_values) if p is not None), reverse=True)
    q_values: list[float | None] = [None] * len(p_values)
    lowest = 1.0
    for rank, (p, place) in zip(range(len(ordered), 0, -1), ordered, strict=True):
        lowest = min(lowest, p * len(ordered) / rank)
        q_values[place] = lowest
    return q_values


def reversed_p(right: FloatArray, rest: FloatArray) -> list[float | None]:
    """Return each item's one-sided p-value that its correlation with the rest, (models, items) each, is not negative.

    The models that are right are permuted among those that answered the item, which is exact for any difficulty.
    """
    return [_reversed_p(x[~np.isnan(x)], y[~np.isnan(x)]) for x, y in zip(right.T, rest.T, strict=True)]


def _reversed_p(x: FloatArray, y: FloatArray) -> float | None:
    models, n_right = len(x), int(x.sum())
    if not 0 < n_right < models or np.ptp(y) <= _ROUNDING:
        return None
    if math.comb(models, n_right) <= _ENUMERATED:
        chosen = np.array(list(combinations(range(models), n_right)))
        return float(np.mean(y[chosen].sum(axis=1) <= x @ y + _ROUNDING))
    r = float(np.corrcoef(x, y)[0, 1])
    half = student_p(r * math.sqrt((models - 2) / max(1 - r * r, _ROUNDING)), models - 2) / 2
    return half if r < 0 else 1 - half


def shrunk(correlations: FloatArray, models: NDArray[np.int64]) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return correlations over models shrunk to their mean by empirical Bayes, and the ends of 95% intervals."""
    is_known = ~np.isnan(correlations) & (models > 2)
    if not is_known.any():
        return (np.full(len(correlations), np.nan),) * 3
    mean = float(correlations[is_known].mean())
    error = (1 - mean**2) ** 2 / np.maximum(models - 1, 1)  # variance of a correlation
    between = max(0.0, float(((correlations[is_known] - mean) ** 2 - error[is_known]).mean()))
    means = np.where(is_known, mean + (correlations - mean) * between / (between + error), np.nan)
    # Where all differences are errors the items share the mean, which is known no better than its own error.
    variance = between * error / (between + error) + float(error[is_known].mean()) / int(is_known.sum())
    reach = _Z95 * np.sqrt(variance)
    return means, np.clip(means - reach, -1, 1), np.clip(means + reach, -1, 1)
