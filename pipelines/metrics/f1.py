"""Macro F1 of two classes, F1@k that also wants a good explanation, and precision-recall summaries.

Classes are 1 and 0. Macro F1 is the mean over the classes that occur in gold or answers: with one class in
both it is that class's F1, and the first error brings in the other class with F1 0.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pipelines.metrics.stats import FloatArray, Statistic

THRESHOLDS: Final = tuple(k / 100 for k in range(101))
"""Thresholds of F1@k, k = 0..100: divided one by one, as a running sum drifts off 0.57 and 0.70."""

_CLASSES: Final = (1, 0)


def _labels(values: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
    array = np.asarray(values, dtype=np.int64)
    if array.ndim != 1 or array.size == 0 or not np.isin(array, _CLASSES).all():
        raise ValueError("labels must be one non-empty row of 0 and 1")
    return array


def _weighted_macro_f1(gold: NDArray[np.int64], answers: FloatArray, weights: FloatArray) -> FloatArray:
    """Macro F1 of every row of weights, (draws, rows) to (draws,)."""
    total = np.zeros(len(weights))
    present = np.zeros(len(weights))
    for label in _CLASSES:
        is_gold, is_answer = gold == label, answers == label
        hits = weights @ (is_gold & is_answer).astype(np.float64)
        # Gold plus answered counts the hits twice: 2TP + FP + FN.
        size = weights @ (is_gold.astype(np.float64) + is_answer.astype(np.float64))
        total += np.divide(2.0 * hits, size, out=np.zeros_like(hits), where=size > 0)
        present += size > 0
    return total / present


def macro_f1(gold: Sequence[int], answers: Sequence[int]) -> float:
    """Macro F1 over the classes present in gold or answers, as scikit-learn has it.

    Args:
        gold: N labels, 0 or 1.
        answers: N labels, 0 or 1.

    Returns:
        A fraction.

    Raises:
        ValueError: The lengths differ, there are no rows, or a label is neither 0 nor 1.
    """
    truth, given = _labels(gold), _labels(answers)
    if truth.size != given.size:
        raise ValueError(f"{truth.size} gold labels but {given.size} answers")
    return float(_weighted_macro_f1(truth, given.astype(np.float64), np.ones((1, truth.size)))[0])


def macro_f1_statistic(gold: Sequence[int]) -> Statistic:
    """Macro F1 as a statistic of the bootstrap in `stats`, whose values are the answers.

    Args:
        gold: N labels, 0 or 1, in the order of the answers.

    Returns:
        A function of answers (rows,) and row weights (draws, rows) to macro F1 (draws,).

    Raises:
        ValueError: There are no rows, or a label is neither 0 nor 1.
    """
    truth = _labels(gold)

    def statistic(values: FloatArray, weights: FloatArray) -> FloatArray:
        return _weighted_macro_f1(truth, values, weights)

    return statistic


def answers_at_k(gold: Sequence[int], predicted: Sequence[int | None], scores: Sequence[float], k: int) -> list[int]:
    """The answers that F1@k judges: wrong where there is no label or the explanation is not above k/100.

    Args:
        gold: N labels, 0 or 1.
        predicted: N labels, None where the output had none.
        scores: N explanation scores on the 0..1 scale; 1 throughout where explanations are not judged.
        k: Threshold in hundredths, 0..100; a score equal to it does not pass.

    Returns:
        N labels, 0 or 1.

    Raises:
        ValueError: The lengths differ, there are no rows, a score is not finite, a label is neither 0 nor 1,
            or k is out of range.
    """
    if not len(gold) == len(predicted) == len(scores):
        raise ValueError(f"{len(gold)} gold, {len(predicted)} predicted, {len(scores)} scores")
    if k not in range(101):
        raise ValueError(f"k = {k}: thresholds run from 0 to 100 hundredths")
    truth = _labels(gold)
    given = _labels([1 - y if p is None else p for y, p in zip(gold, predicted, strict=True)])
    earned = np.asarray(scores, dtype=np.float64)
    if not np.isfinite(earned).all():
        raise ValueError("explanation scores must be finite; an empty explanation scores 0")
    return [int(label) for label in np.where(earned <= THRESHOLDS[k], 1 - truth, given)]


def f1_at_k(gold: Sequence[int], predicted: Sequence[int | None], scores: Sequence[float], k: int) -> float:
    """Macro F1 of the answers that also explain themselves well enough (V-FLUTE's F1@k).

    Args:
        gold: N labels, 0 or 1.
        predicted: N labels, None where the output had none.
        scores: N explanation scores on the 0..1 scale.
        k: Threshold in hundredths, 0..100.

    Returns:
        A fraction.

    Raises:
        ValueError: As for `answers_at_k`.
    """
    return macro_f1(gold, answers_at_k(gold, predicted, scores, k))


def percent_drop(at_0: float, at_60: float) -> float:
    """How much of F1@0 is lost at the higher threshold, in percent; 0 where F1@0 is 0."""
    return 0.0 if at_0 == 0 else 100.0 * (at_0 - at_60) / at_0


@dataclass(frozen=True, slots=True, kw_only=True)
class PrecisionRecall:
    """How well a score predicts a yes.

    Attributes:
        auc: Trapezoid area under (recall, precision), a fraction.
        average_precision: The step-wise area, a fraction.
        max_f1: Best F1 over thresholds, predicting yes where score >= threshold.
        max_f1_threshold: Where that is; the highest such threshold.
        balanced_threshold: The threshold of best F1 among those with precision and recall above the floor;
            None where there is none.
    """

    auc: float
    average_precision: float
    max_f1: float
    max_f1_threshold: float
    balanced_threshold: float | None


def precision_recall(adequate: Sequence[int], scores: Sequence[float], *, floor: float = 0.75) -> PrecisionRecall:
    """Summarises a score as a predictor of adequacy, by scikit-learn.

    Args:
        adequate: N verdicts, 1 or 0, at least one of them 1.
        scores: N finite scores.
        floor: What precision and recall must both exceed for the balanced threshold.

    Returns:
        Areas, best F1 and thresholds.

    Raises:
        ValueError: The lengths differ, nothing is adequate, or a score is not finite.
    """
    if len(adequate) != len(scores) or not any(adequate):
        raise ValueError("precision and recall want scores of equal number and at least one adequate row")
    from sklearn.metrics import auc, average_precision_score, precision_recall_curve

    truth, given = np.asarray(adequate, dtype=np.int64), np.asarray(scores, dtype=np.float64)
    precision, recall, thresholds = precision_recall_curve(truth, given)
    p, r = precision[:-1][::-1], recall[:-1][::-1]  # highest threshold first, so that ties go to it
    descending = thresholds[::-1]
    f1 = np.divide(2 * p * r, p + r, out=np.zeros_like(p), where=p + r > 0)
    balanced = np.flatnonzero((p > floor) & (r > floor))
    return PrecisionRecall(
        auc=float(auc(recall, precision)),
        average_precision=float(average_precision_score(truth, given)),
        max_f1=float(f1.max()),
        max_f1_threshold=float(descending[f1.argmax()]),
        balanced_threshold=float(descending[balanced[f1[balanced].argmax()]]) if balanced.size else None,
    )
