"""Numbers of a report, by the names that their rows have in `metrics.json`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipelines.benchmarks.records import Metric
from pipelines.report.metrics_file import TABLES, Measured
from pipelines.schemas import METRIC_KEYS

if TYPE_CHECKING:
    import pandas as pd


def measured(*, benchmark: str, model: str, **fields: Any) -> Measured:
    """Return a number as the reduction of an entry makes it."""
    source = fields.pop("source", TABLES)
    return Measured.of(benchmark, model, Metric(**{"n": 0, **fields}), source)


def numbers_of(frame: pd.DataFrame) -> tuple[Measured, ...]:
    """Return the rows of a frame with the columns of `metrics.json` and `note`."""
    rows = frame.astype(object).where(frame.notna(), None)[[*METRIC_KEYS, "note"]].to_dict("records")
    return tuple(measured(**{str(name): value for name, value in row.items()}) for row in rows)
