"""V-FLUTE's macro F1 of two models, of labels and at the thresholds of the explanations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pipelines.benchmarks.paired import PairedMetric
from pipelines.benchmarks.records import Sample
from pipelines.benchmarks.vflute.aggregate import f1_columns
from pipelines.benchmarks.vflute.facts import REPORTED_THRESHOLDS, TASK
from pipelines.benchmarks.vflute.scored_rows import Bools, SettingRows
from pipelines.metrics.f1 import macro_f1

if TYPE_CHECKING:
    import pandas as pd


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
