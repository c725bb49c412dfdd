"""A subset of samples whose plain mean stands for that of all, and its error for new models."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from jobs.analysis.items.statistics import shares_right
from pipelines.metrics.intervals import FloatArray, student_quantile
from pipelines.metrics.stats import SEED

SHARES: Final = (0.05, 0.1, 0.2, 0.3, 0.5)
MAX_ERROR: Final = 0.03  # root mean square over models
_DRAWS: Final = 200  # random subsets that the chosen one is compared with


@dataclass(frozen=True, slots=True)
class Compact:
    """A subset of samples whose plain mean stands for that of all."""

    places: tuple[int, ...]
    error: float  # root mean square over models that had no part in the choice
    is_random: bool  # a draw by a fixed seed, since choosing by difficulty did no better


def compact_subset(right: FloatArray, shares: Sequence[float] = SHARES) -> Compact:
    """Return the smallest of several subsets whose error on new models is small enough, else the largest.

    `right` is (models, samples). Samples are sorted by difficulty, and by how far they split models, and cut into
    groups of equal size; of each the middle one is chosen. Each model is left out of the choice once. Where its error
    is not below that of random draws by more than chance over models allows, the subset is a random draw.
    """
    rng = np.random.default_rng([SEED, right.shape[1]])
    for share in shares:
        size = max(1, round(share * right.shape[1]))
        left_out = [
            _errors(right[model], [_chosen(np.delete(right, model, axis=0), size)]) for model in range(len(right))
        ]
        draws = np.array([rng.permutation(right.shape[1])[:size] for _ in range(_DRAWS)])
        chosen, drawn = np.array(left_out), np.array([_errors(row, draws) for row in right])
        gains = (drawn - chosen)[~np.isnan(drawn - chosen)]
        is_random = not _is_above_zero(gains)
        error = math.sqrt(float(np.nanmean(drawn if is_random else chosen)))
        places = sorted(map(int, draws[0])) if is_random else _chosen(right, size)
        result = Compact(tuple(places), error, is_random)
        if error <= MAX_ERROR:
            break
    return result


def _errors(row: FloatArray, subsets: Sequence[Sequence[int]] | NDArray[np.int64]) -> float:
    """Return a model's mean squared difference between subsets and the whole."""
    means = shares_right(row[np.asarray(subsets)].T)
    return float(np.nanmean((means - np.nanmean(row)) ** 2))


def _is_above_zero(gains: FloatArray) -> bool:
    """Return whether the mean of models' gains is above 0 by more than chance: its 95% interval leaves out 0."""
    if len(gains) < 2:
        return False
    error = float(gains.std(ddof=1)) / math.sqrt(len(gains))
    return float(gains.mean()) > student_quantile(len(gains) - 1) * error


def _chosen(right: FloatArray, size: int) -> list[int]:
    difficulty, strength = shares_right(right), _ability_split(right)
    groups = np.array_split(np.lexsort((strength, difficulty)), size)
    return sorted(int(group[len(group) // 2]) for group in groups if len(group))


def _ability_split(right: FloatArray) -> FloatArray:
    """Return by how much the better half of the models is more often right than the other, (items,)."""
    order = np.argsort(shares_right(right.T), kind="stable")
    half = len(order) // 2
    worse, better = (np.nan_to_num(shares_right(right[part])) for part in (order[:half], order[half:]))
    return np.asarray(better - worse)
