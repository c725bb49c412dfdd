"""Read `report/metrics.json` of an output."""

from __future__ import annotations

import json
import math
from typing import Any, Final

from pipelines.errors import StoreError
from pipelines.report.model import METRIC_KEYS
from pipelines.storage.store import Store

PATH: Final = "report/metrics.json"


def load_metrics(out: Store) -> list[dict[str, Any]] | None:
    """Return the rows of an output's `metrics.json`; None before the first report, StoreError for a damaged file."""
    try:
        content = out.get(PATH)
    except FileNotFoundError:
        return None
    try:
        rows = json.loads(content)
    except ValueError as error:
        raise StoreError(_damaged(out, str(error))) from error
    if not isinstance(rows, list) or not all(isinstance(row, dict) and row.keys() >= {*METRIC_KEYS} for row in rows):
        raise StoreError(_damaged(out, "not a list of metrics"))
    return rows


def number_or_none(value: object) -> float | None:
    """Return a finite number; None for null, NaN, infinity and anything else."""
    if isinstance(value, bool) or not hasattr(value, "__float__"):
        return None
    number = float(value)
    return number if math.isfinite(number) else None


def _damaged(out: Store, problem: str) -> str:
    return f"{out.uri}/{PATH}: damaged ({problem}); `vlmsweep report` writes it again"
