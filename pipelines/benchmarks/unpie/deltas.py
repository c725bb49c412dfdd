"""Gain of a picture or its caption: the headline of `sm` and `vlm` minus that of `lm`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from pipelines.benchmarks.records import Metric
from pipelines.benchmarks.unpie.aggregate import ALL, KINDS, MetricScope, kinds_interval, mean_interval

if TYPE_CHECKING:
    import pandas as pd

_COMPARED: Final[Mapping[str, tuple[str, str]]] = {
    "grounding": ("exact_match", "correct"),
    "reconstruction": ("correct_pct", "accepted"),
}
"""Task -> metric, and the column that it is the mean of."""


def deltas(metrics: Sequence[Metric], cells: Mapping[tuple[str, str], pd.DataFrame]) -> Iterator[Metric]:
    """Yield `delta_vs_lm` of every subset and category from one model's metrics, unrounded.

    `cells` has the rows by task and setting; the interval is of paired rows, and absent where they differ.
    """
    for task, (name, column) in _COMPARED.items():
        baseline = {(m.subset, m.category): m for m in metrics if (m.task, m.setting, m.metric) == (task, "lm", name)}
        for metric in metrics:
            base = baseline.get((metric.subset, metric.category))
            if (metric.task, metric.metric) != (task, name) or metric.setting == "lm" or base is None:
                continue
            delta = _delta(metric, base)
            yield (
                delta if delta.value is None else _paired(delta, cells[task, metric.setting], cells[task, "lm"], column)
            )


def _delta(metric: Metric, base: Metric) -> Metric:
    note = metric.note or base.note
    value = metric.value - base.value if metric.value is not None and base.value is not None else None
    if value is not None and metric.n != base.n:
        note = "; ".join(filter(None, (note, f"over {metric.n:,} rows and {base.n:,} of lm")))
    return MetricScope(metric.task, metric.setting, metric.subset).metric(
        "delta_vs_lm",
        value,
        metric.n,
        n_failed=metric.n_failed + base.n_failed,
        category=metric.category,
        unit=metric.unit,
        note=note,
    )


def _paired(delta: Metric, rows: pd.DataFrame, baseline: pd.DataFrame, column: str) -> Metric:
    if delta.category not in ("", ALL, *KINDS):
        return delta
    keys = ["sample_id", "variant"]
    left, right = (_scored(frame, column, delta) for frame in (rows, baseline))
    pairs = left.merge(right[[*keys, column]], on=keys, suffixes=("", "_lm"))
    if not len(left) == len(right) == len(pairs):
        return delta
    differences = (pairs[column] - pairs[f"{column}_lm"]).to_numpy(dtype=np.float64)
    if delta.category == ALL:
        return kinds_interval(delta, differences, pairs["category"].to_numpy(), pairs["cluster"].to_numpy())
    return mean_interval(delta, differences, pairs["cluster"].to_numpy())


def _scored(frame: pd.DataFrame, column: str, metric: Metric) -> pd.DataFrame:
    rows = frame[(frame["status"] == "ok") & frame[column].notna()]
    if metric.subset:
        rows = rows[rows["lang"] == metric.subset[:2].lower()]
    return rows[rows["category"] == metric.category] if metric.category in KINDS else rows
