"""Metrics and tables of people's answers, looked up in tests."""

from __future__ import annotations

from collections.abc import Sequence

from pipelines.benchmarks.records import Metric
from pipelines.benchmarks.tables import Table


def values(metrics: Sequence[Metric], **where: str) -> dict[str, tuple[float | None, int]]:
    """Return value and n of the metrics with these keys, by name."""
    return {
        metric.metric: (None if metric.value is None else round(metric.value, 6), metric.n)
        for metric in metrics
        if all(getattr(metric, name) == value for name, value in where.items())
    }


def only(tables: Sequence[Table], table_id: str) -> Table:
    """Return the only table of an id."""
    (table,) = (table for table in tables if table.id == table_id)
    return table
