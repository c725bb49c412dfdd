"""Macro F1 of V-FLUTE's rows as a statistic of sums over rows, its baselines, and F1 of two models.

An answer with one of two labels is right or wrong, so macro F1 follows from the number of right answers of each class.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from pipelines.benchmarks.aggregation import Statistic, draw_sums
from pipelines.benchmarks.paired import PairedMetric
from pipelines.benchmarks.records import Sample
from pipelines.benchmarks.vflute.facts import REPORTED_THRESHOLDS, TASK
from pipelines.benchmarks.vflute.scored_rows import Bools, SettingRows
from pipelines.metrics.f1 import macro_f1
from pipelines.metrics.stats import RESAMPLES, FloatArray

if TYPE_CHECKING:
    import pandas as pd


def value_of(columns: Sequence[Bools], statistic: Statistic) -> float | None:
    """Compute a statistic on the rows themselves from its columns, (rows,) each; None where it is undefined."""
    value = float(statistic(*(np.array([float(np.count_nonzero(column))]) for column in columns))[0])
    return None if np.isnan(value) else value


def f1_columns(entailment: Bools, right: Bools) -> tuple[Bools, ...]:
    """Return the columns whose sums `macro_f1` takes, for answers that are right or wrong."""
    return right & entailment, right & ~entailment, np.ones_like(right)


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


def paired_columns(entailment: Bools, right_a: Bools, right_b: Bools) -> tuple[Bools, ...]:
    """Return the columns whose sums `f1_of_a`, `f1_of_b` and `f1_gain` take; all over the same rows."""
    rows = np.ones_like(right_a)
    return right_a & entailment, right_a & ~entailment, right_b & entailment, right_b & ~entailment, rows


def f1_of_a(*sums: FloatArray) -> FloatArray:
    """Compute macro F1 of A."""
    return macro_f1(sums[0], sums[1], sums[4])


def f1_of_b(*sums: FloatArray) -> FloatArray:
    """Compute macro F1 of B."""
    return macro_f1(sums[2], sums[3], sums[4])


def f1_gain(*sums: FloatArray) -> FloatArray:
    """Compute macro F1 of B minus that of A."""
    return f1_of_b(*sums) - f1_of_a(*sums)


def koehn_p(entailment: Bools, right_a: Bools, right_b: Bools) -> float:
    """Test one-sided that A has the higher macro F1 on the same rows, by resampling rows (Koehn 2004).

    All arrays are (rows,). p = (1 + draws on which A is not better) / (draws + 1).
    """
    columns = np.stack(paired_columns(entailment, right_a, right_b), axis=1, dtype=np.float64)
    gain = f1_gain(*draw_sums(columns).T)
    return (1 + int(np.count_nonzero(~(gain < 0)))) / (RESAMPLES + 1)


def paired_metrics(a: pd.DataFrame, b: pd.DataFrame, samples: Mapping[str, Sample]) -> Iterator[PairedMetric]:
    """Yield F1 of labels in one setting, and F1 at the thresholds where the explanations of both are scored."""
    if not samples:
        return
    setting = str(a["setting"].iloc[0])
    rows_a, rows_b = (SettingRows.of(frame, setting, samples) for frame in (a, b))
    yield _f1("label_f1", rows_a, rows_a.labelled_right(), rows_b.labelled_right())
    for k in REPORTED_THRESHOLDS if setting != "label-only" else ():
        at_a, at_b = rows_a.right_at(k), rows_b.right_at(k)
        if not (at_a.unknown.any() or at_b.unknown.any()):
            yield _f1(f"f1_at_{k}", rows_a, at_a.right, at_b.right)


def _f1(metric: str, rows: SettingRows, right_a: Bools, right_b: Bools) -> PairedMetric:
    return PairedMetric(
        task=TASK,
        setting=rows.setting,
        metric=metric,
        a=f1_columns(rows.entailment, right_a),
        b=f1_columns(rows.entailment, right_b),
        clusters=rows.cluster,
        statistic=macro_f1,
    )
