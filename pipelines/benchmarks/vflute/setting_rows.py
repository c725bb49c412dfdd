"""The scored rows of one V-FLUTE setting, and which of them are right at a threshold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from pipelines.benchmarks.metrics_kernel.definitions import Form, MetricDef
from pipelines.benchmarks.metrics_kernel.rows import Bools, ScoredRows, coverage_note
from pipelines.benchmarks.records import Sample
from pipelines.benchmarks.vflute.explanation_score import ROBUST
from pipelines.benchmarks.vflute.facts import LABELS, TASK
from pipelines.metrics.f1 import THRESHOLDS, macro_f1
from pipelines.metrics.intervals import FloatArray

if TYPE_CHECKING:
    import pandas as pd

_SCORES = ("label", f"label{ROBUST}", "es", f"es{ROBUST}", "empty")


def setting_rows(scores: pd.DataFrame, setting: str, samples: Mapping[str, Sample]) -> ScoredRows:
    """Select the counted rows of one setting, those that were answered and those that failed.

    `entailment` is whether the right label is entailment; `es` is 1 where explanations are not scored.
    """
    planned = ScoredRows.of(scores, task=TASK, setting=setting).where(setting=setting)
    rows = planned.where(planned.ok | planned.failed).named(note=coverage_note(planned))
    # A value in a failed row does not come from the model.
    columns = {name: np.where(rows.failed, np.nan, rows.floats(name)) for name in _SCORES}
    if setting == "label-only":
        columns |= {name: np.ones(len(rows)) for name in ("es", f"es{ROBUST}")}
    gold = [LABELS[samples[name].data["label"]] == 1 for name in rows["sample_id"]]
    return rows.with_columns(entailment=np.array(gold, dtype=np.bool_), **columns)


def labelled_right(rows: ScoredRows, *, robust: bool = False) -> Bools:
    """Return which labels equal gold."""
    return np.asarray(rows.floats(f"label{ROBUST}" if robust else "label") == rows["entailment"], dtype=np.bool_)


def right_at(rows: ScoredRows, k: int, *, robust: bool = False) -> FloatArray:
    """Return 1 where a label is right with an explanation that scores above k hundredths, else 0.

    NaN where the label is right and the explanation is not scored: any such row leaves F1@k undefined.
    """
    labelled, score = labelled_right(rows, robust=robust), rows.floats(f"es{ROBUST}" if robust else "es")
    return np.where(labelled & np.isnan(score), np.nan, labelled & (score > THRESHOLDS[k]))


def every(rows: ScoredRows) -> Bools:
    """Count every row: a failed request is a wrong answer."""
    return np.ones(len(rows), dtype=np.bool_)


def f1_columns(rows: ScoredRows, right: FloatArray | Bools) -> FloatArray:
    """Return the columns whose sums `macro_f1` takes, (rows, 3), for answers that are right (1), wrong or unknown."""
    entailment = rows["entailment"]
    return np.stack([right * entailment, right * ~entailment, np.ones(len(rows))], axis=1)


def f1_metric(name: str, right: Callable[[ScoredRows], FloatArray | Bools], form: Form = "single") -> MetricDef:
    """Return macro F1 of answers that are right, wrong or unknown."""
    return MetricDef(
        name=name, value=lambda rows: f1_columns(rows, right(rows)), counted=every, statistic=macro_f1, form=form
    )
