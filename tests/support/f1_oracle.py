"""Macro F1 and F1@k from labels, row by row: the definitions that V-FLUTE's metrics are tested against."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from pipelines.metrics.intervals import FloatArray, row_draws

Statistic: TypeAlias = Callable[[FloatArray, FloatArray], FloatArray]  # (rows,), weights (draws, rows) -> (draws,)

_CLASSES = (1, 0)


def macro_f1(gold: Sequence[int], answers: Sequence[int]) -> float:
    """Return macro F1 over the classes present in gold or answers."""
    return float(macro_f1_statistic(gold)(np.asarray(answers, dtype=np.float64), np.ones((1, len(gold))))[0])


def macro_f1_statistic(gold: Sequence[int]) -> Statistic:
    """Return macro F1 of weighted rows as a function of the answers and the weights of each draw."""
    truth = np.asarray(gold)

    def statistic(answers: FloatArray, weights: FloatArray) -> FloatArray:
        total, present = np.zeros(len(weights)), np.zeros(len(weights))
        for label in _CLASSES:
            is_gold, is_answer = truth == label, answers == label
            hits = weights @ (is_gold & is_answer).astype(np.float64)
            size = weights @ (is_gold.astype(np.float64) + is_answer.astype(np.float64))  # 2TP + FP + FN
            total += np.divide(2.0 * hits, size, out=np.zeros_like(hits), where=size > 0)
            present += size > 0
        return total / present

    return statistic


def answers_at_k(gold: Sequence[int], predicted: Sequence[int | None], scores: Sequence[float], k: int) -> list[int]:
    """Return the answers that F1@k judges: wrong without a label or where the explanation is not above k/100."""
    rows = zip(gold, predicted, scores, strict=True)
    return [y if label == y and score > k / 100 else 1 - y for y, label, score in rows]


def f1_at_k(gold: Sequence[int], predicted: Sequence[int | None], scores: Sequence[float], k: int) -> float:
    """Return macro F1 of `answers_at_k`."""
    return macro_f1(gold, answers_at_k(gold, predicted, scores, k))


def drawn_macro_f1(gold: Sequence[int], answers: Sequence[float]) -> FloatArray:
    """Return macro F1 on each draw of rows, with every row repeated as it is drawn."""
    weights = np.concatenate(list(row_draws(len(gold))))
    return macro_f1_statistic(gold)(np.asarray(answers, dtype=np.float64), weights)
