"""Macro F1 of V-FLUTE's baselines, and the test that one setting is better than another."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from pipelines.benchmarks.metrics_kernel.rows import Bools
from pipelines.metrics.f1 import macro_f1
from pipelines.metrics.stats import RESAMPLES, row_draws


def all_entailment_f1(entailment: int, contradiction: int) -> float:
    """Return macro F1 of a model that always answers entailment."""
    right = np.array([float(entailment)])
    return float(macro_f1(right, np.zeros(1), right + contradiction)[0])


@lru_cache(maxsize=64)
def chance_f1(entailment: int, contradiction: int) -> float:
    """Return the exact mean of macro F1 of a fair coin, over all numbers of right answers of either class."""
    from scipy.stats import binom

    e, c = np.arange(entailment + 1.0), np.arange(contradiction + 1.0)
    chance = np.outer(binom.pmf(e, entailment, 0.5), binom.pmf(c, contradiction, 0.5))
    right_e, right_c = np.meshgrid(e, c, indexing="ij")
    value = macro_f1(right_e.ravel(), right_c.ravel(), np.full(chance.size, float(entailment + contradiction)))
    return float((value * chance.ravel()).sum())


def koehn_p(entailment: Bools, right_a: Bools, right_b: Bools) -> float:
    """Test one-sided that A has the higher macro F1 on the same rows, by resampling rows (Koehn 2004).

    All arrays are (rows,). p = (1 + draws on which A is not better) / (draws + 1).
    """
    sides = [right & gold for right in (right_a, right_b) for gold in (entailment, ~entailment)]
    columns = np.stack([*sides, np.ones_like(right_a)], axis=1, dtype=np.float64)
    drawn = np.concatenate([weights @ columns for weights in row_draws(len(columns))])
    a_entailment, a_other, b_entailment, b_other, rows = drawn.T
    gain = macro_f1(b_entailment, b_other, rows) - macro_f1(a_entailment, a_other, rows)
    return (1 + int(np.count_nonzero(~(gain < 0)))) / (RESAMPLES + 1)
