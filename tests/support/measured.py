"""Numbers of a report, by the names that their rows have in `metrics.json`."""

from __future__ import annotations

from typing import Any

from pipelines.benchmarks.records import Metric
from pipelines.report.measured import TABLES, Measured


def measured(*, benchmark: str, model: str, **fields: Any) -> Measured:
    """Return a number as the reduction of an entry makes it."""
    source = fields.pop("source", TABLES)
    return Measured.of(benchmark, model, Metric(**{"n": 0, **fields}), source)
