"""Macro F1 of two classes, 1 and 0, its baselines and a test of it, and precision-recall summaries."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import comb
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pipelines.metrics.intervals import RESAMPLES, FloatArray, row_draws

THRESHOLDS: Final = tuple(k / 100 for k in range(101))  # of F1@k; divided one by one, since a running sum drifts

_EMPTY: Final = 1e-12  # below any count


def macro_f1(right_positive: FloatArray, right_negative: FloatArray, rows: FloatArray) -> FloatArray:
    """Compute macro F1 (draws,) from counts (draws,) of right answers by class and of all rows; NaN without rows.

    It covers the classes in gold or answers: if only one occurs, the first error adds the other with F1 0.
    """
    wrong = rows - right_positive - right_negative
    total, present = np.zeros_like(wrong), np.zeros_like(wrong)
    for right in (right_positive, right_negative):
        size = 2 * right + wrong  # 2TP + FP + FN: an error is a false answer of one class and a miss of the other
        total += np.divide(2 * right, size, out=np.zeros_like(size), where=size > _EMPTY)
        present += size > _EMPTY
    mean: FloatArray = np.divide(total, present, out=np.full_like(total, np.nan), where=present > 0)
    return mean


def all_entailment_f1(entailment: int, contradiction: int) -> float:
    """Return macro F1 of a model that always answers entailment."""
    right = np.array([float(entailment)])
    return float(macro_f1(right, np.zeros(1), right + contradiction)[0])


@lru_cache(maxsize=64)
def chance_f1(entailment: int, contradiction: int) -> float:
    """Return the exact mean of macro F1 of a fair coin, over all numbers of right answers of either class."""
    e, c = np.arange(entailment + 1.0), np.arange(contradiction + 1.0)
    # From whole numbers: the import of scipy takes a second.
    chance_e, chance_c = ([comb(n, k) / 2**n for k in range(n + 1)] for n in (entailment, contradiction))
    chance = np.outer(chance_e, chance_c)
    right_e, right_c = np.meshgrid(e, c, indexing="ij")
    value = macro_f1(right_e.ravel(), right_c.ravel(), np.full(chance.size, float(entailment + contradiction)))
    return float((value * chance.ravel()).sum())


def koehn_p(entailment: NDArray[np.bool_], right_a: NDArray[np.bool_], right_b: NDArray[np.bool_]) -> float:
    """Test one-sided that A has the higher macro F1 on the same rows, by resampling rows (Koehn 2004).

    All arrays are (rows,). p = (1 + draws on which A is not better) / (draws + 1).
    """
    sides = [right & gold for right in (right_a, right_b) for gold in (entailment, ~entailment)]
    columns = np.stack([*sides, np.ones_like(right_a)], axis=1, dtype=np.float64)
    drawn = np.concatenate([weights @ columns for weights in row_draws(len(columns))])
    a_entailment, a_other, b_entailment, b_other, rows = drawn.T
    gain = macro_f1(b_entailment, b_other, rows) - macro_f1(a_entailment, a_other, rows)
    return (1 + int(np.count_nonzero(~(gain < 0)))) / (RESAMPLES + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrecisionRecall:
    """Precision and recall of a score as a predictor of a positive verdict."""

    auc: float  # trapezoid area under (recall, precision), a fraction
    average_precision: float  # step-wise area, a fraction
    max_f1: float  # best F1 over thresholds; scores >= threshold are positive
    max_f1_threshold: float  # the highest threshold with that F1
    balanced_threshold: float | None  # threshold of the best F1 among those with precision and recall above the floor


def precision_recall(adequate: Sequence[int], scores: Sequence[float], *, floor: float = 0.75) -> PrecisionRecall:
    """Summarize N scores as predictors of verdicts (1 or 0); the balanced threshold needs both above `floor`."""
    if len(adequate) != len(scores) or not any(adequate) or not np.isfinite(scores).all():
        raise ValueError("precision and recall need as many finite scores as verdicts, and at least one adequate row")
    p, r, thresholds = precision_recall_curve(adequate, scores)  # highest threshold first, so that ties go to it
    f1 = np.divide(2 * p * r, p + r, out=np.zeros_like(p), where=p + r > 0)
    balanced = np.flatnonzero((p > floor) & (r > floor))
    gains = np.diff(r, prepend=0.0)
    return PrecisionRecall(
        auc=float(gains @ (p + np.concatenate([[1.0], p[:-1]])) / 2),  # the curve begins at recall 0 and precision 1
        average_precision=float(gains @ p),
        max_f1=float(f1.max()),
        max_f1_threshold=float(thresholds[f1.argmax()]),
        balanced_threshold=float(thresholds[balanced[f1[balanced].argmax()]]) if balanced.size else None,
    )


def precision_recall_curve(
    adequate: Sequence[int], scores: Sequence[float]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return precision, recall and threshold of each distinct score of N rows, (thresholds,), the highest first.

    Rows with a score of at least the threshold are predicted to be adequate (1); at least one row must be.
    """
    values, places = np.unique(np.asarray(scores, dtype=np.float64), return_inverse=True)
    rows = np.bincount(places)[::-1].cumsum()
    hits = np.bincount(places, weights=np.asarray(adequate, dtype=np.float64))[::-1].cumsum()
    return hits / rows, hits / hits[-1], values[::-1]
