"""What a picture or its caption brings: the headline of `sm` and `vlm` minus that of `lm`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from pipelines.benchmarks.records import Metric
from pipelines.benchmarks.unpie.aggregate import ALL, KINDS, Place, interval
from pipelines.metrics.stats import Interval

if TYPE_CHECKING:
    import pandas as pd

_COMPARED: Final[Mapping[str, tuple[str, str]]] = {
    "grounding": ("exact_match", "correct"),
    "reconstruction": ("correct_pct", "accepted"),
}
"""Task -> metric, and the column that it is the mean of."""


def deltas(metrics: Sequence[Metric], cells: Mapping[tuple[str, str], pd.DataFrame]) -> Iterator[Metric]:
    """`delta_vs_lm` of every subset and category, from unrounded values.

    Args:
        metrics: those of one model.
        cells: the rows behind them by task and setting.

    Yields:
        Differences of the two values. The interval is of paired rows, and there is none where the rows differ.
    """
    for task, (name, column) in _COMPARED.items():
        plain = {(m.subset, m.category): m for m in metrics if (m.task, m.setting, m.metric) == (task, "lm", name)}
        for one in metrics:
            base = plain.get((one.subset, one.category))
            if (one.task, one.metric) != (task, name) or one.setting == "lm" or base is None:
                continue
            known = one.value is not None and base.value is not None
            ends = _paired(cells[task, one.setting], cells[task, "lm"], column, one) if known else None
            note = one.note or base.note
            if known and one.n != base.n:
                note = "; ".join(filter(None, (note, f"over {one.n:,} rows and {base.n:,} of lm")))
            yield Place(task, one.setting, one.subset).metric(
                "delta_vs_lm",
                one.value - base.value if one.value is not None and base.value is not None else None,
                one.n,
                n_failed=one.n_failed + base.n_failed,
                category=one.category,
                unit=one.unit,
                ci_low=ends.low if ends else None,
                ci_high=ends.high if ends else None,
                note=note,
            )


def _paired(rows: pd.DataFrame, plain: pd.DataFrame, column: str, one: Metric) -> Interval | None:
    """The interval of the mean difference, where both settings have the same rows."""
    if one.category not in ("", ALL, *KINDS):
        return None
    keys = ["sample_id", "variant"]
    here, there = (_scored(frame, column, one) for frame in (rows, plain))
    both = here.merge(there[[*keys, column]], on=keys, suffixes=("", "_lm"))
    if not len(here) == len(there) == len(both):
        return None
    differences = (both[column] - both[f"{column}_lm"]).to_numpy(dtype=np.float64)
    kinds = both["category"].to_numpy()
    groups = [kinds == kind for kind in KINDS] if one.category == ALL else [np.ones(len(both), dtype=np.bool_)]
    return interval(
        np.repeat(differences[:, None], len(groups), axis=1), both["cluster"].to_numpy(), np.stack(groups, axis=1)
    )


def _scored(frame: pd.DataFrame, column: str, one: Metric) -> pd.DataFrame:
    """Rows behind a metric that have a score."""
    kept = frame[(frame["status"] == "ok") & frame[column].notna()]
    if one.subset:
        kept = kept[kept["lang"] == one.subset[:2].lower()]
    return kept[kept["category"] == one.category] if one.category in KINDS else kept
