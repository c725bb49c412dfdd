"""Statistics of items from the answers of many models: pure functions of (models, items) arrays.

- Difficulty: the share of models that are wrong.
- Discrimination: the correlation of an item with the models' share right on all other items.
- Suspect label: the log odds by `ResponseModel` that an answer on which models agree is right and the label is not.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from jobs.analysis.items.response_model import LABEL, NO_ANSWER, ResponseModel
from pipelines.metrics.intervals import FloatArray

MOST_OPTIONS: Final = 10
SHORTCUT_SHARE: Final = 0.5  # of models that answer an item right without its medium
_ROUNDING: Final = 1e-9


def shares_right(right: FloatArray) -> FloatArray:
    """Return the share of models that are right, (items,); NaN where none has a score."""
    counts = np.sum(~np.isnan(right), axis=0)
    return np.where(counts > 0, np.nansum(right, axis=0) / np.maximum(counts, 1), np.nan)


def sample_shares(right: FloatArray, samples: Sequence[str]) -> tuple[tuple[str, ...], FloatArray]:
    """Return samples and each model's share right of its items, (models, samples); items are sorted by sample."""
    names, starts = np.unique(np.array(samples), return_index=True)
    counts = np.add.reduceat((~np.isnan(right)).astype(float), starts, axis=1)
    sums = np.add.reduceat(np.nan_to_num(right), starts, axis=1)
    return tuple(map(str, names)), np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def rest_shares(right: FloatArray) -> FloatArray:
    """Return each model's share right on all other items than each, (models, items); NaN where it has no score."""
    present = ~np.isnan(right)
    totals, counts = np.nansum(right, axis=1, keepdims=True), present.sum(axis=1, keepdims=True)
    return np.where(present, (totals - np.nan_to_num(right)) / np.maximum(counts - present, 1), np.nan)


def discrimination(right: FloatArray) -> FloatArray:
    """Return the correlation of each item with the rest, (items,); NaN where models do not differ."""
    rest = rest_shares(right)
    x, y = right - shares_right(right), rest - shares_right(rest)
    spread = np.sqrt(np.nansum(x**2, axis=0) * np.nansum(y**2, axis=0))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(spread > 0, np.nansum(x * y, axis=0) / spread, np.nan)


@dataclass(frozen=True, slots=True)
class Suspicion:
    """The answer that models agree on against a label, and the log odds that it is right."""

    answer: str
    odds: float
    models: int  # that give it
    p: float  # share of items with a right label whose odds are as high


def suspicions(right: FloatArray, answers: NDArray[Any]) -> list[Suspicion | None]:
    """Return for each item the wrong answer that most likely is right; None where no model gave one."""
    codes, names = _coded(right, answers)
    if not any(names):
        return [None] * right.shape[1]
    model = ResponseModel.fit(codes, max(_options(answers) - 1, *map(len, names)))
    odds, best = model.log_odds(codes)
    null = model.null_odds(codes != NO_ANSWER)
    p_values = (1 + len(null) - np.searchsorted(null, odds - _ROUNDING)) / (1 + len(null))
    return [
        Suspicion(given[option - 1], float(value), int((column == option).sum()), float(p)) if given else None
        for given, option, value, p, column in zip(names, best, odds, p_values, codes.T, strict=True)
    ]


def _coded(right: FloatArray, answers: NDArray[Any]) -> tuple[NDArray[np.int64], list[list[str]]]:
    """Return answers as codes of `ResponseModel`, and the wrong answers of each item, of which the first has code 1."""
    codes = np.where(right == 1, LABEL, NO_ANSWER)
    names = []
    for place, (column, given) in enumerate(zip(right.T, answers.T, strict=True)):
        wrong = [model for model in np.flatnonzero(column == 0) if given[model] is not None]
        distinct = sorted({str(given[model]) for model in wrong})
        codes[wrong, place] = [1 + distinct.index(str(given[model])) for model in wrong]
        names.append(distinct)
    return codes, names


def _options(answers: NDArray[Any]) -> int:
    """Return how many answers an item has: those of all items where they are few, such as letters."""
    distinct = len({answer for answer in answers.flat if answer is not None})
    by_item = [len({answer for answer in column if answer is not None}) for column in answers.T]
    return max(2, distinct if distinct <= MOST_OPTIONS else int(np.median(by_item)) + 1)
