"""`Results` for tests of tables and figures, from frames with the columns of `metrics.json` and of `published.csv`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from pipelines.benchmarks.published import load_published
from pipelines.benchmarks.records import Metric, PublishedValue
from pipelines.benchmarks.results import Results
from pipelines.schemas import METRIC_KEYS

_DEFAULTS: Mapping[str, Any] = {
    "value": None,
    "n": 0,
    "n_failed": 0,
    "ci_low": None,
    "ci_high": None,
    "unit": "fraction",
}


def results_of(benchmark: str, metrics: pd.DataFrame, published: pd.DataFrame | None = None) -> Results:
    """Return the results of metric rows and published rows, by default those of the benchmark's file."""
    by_model: dict[str, list[Metric]] = {}
    for row in metrics.to_dict("records"):
        if row.get("benchmark", benchmark) != benchmark:
            continue
        fields = {name: _plain(row.get(name), _DEFAULTS.get(name, "")) for name in Metric.__slots__}
        by_model.setdefault(str(row["model"]), []).append(Metric(**fields))
    if published is None:
        return Results.of(benchmark, by_model, load_published(benchmark))
    values = [
        PublishedValue(
            **{name: _plain(row[name], None if name == "value" else "") for name in PublishedValue.__slots__}
        )
        for row in published.to_dict("records")
    ]
    return Results.of(benchmark, by_model, values)


def _plain(value: Any, default: Any) -> Any:
    return default if value is None or value == "" or pd.isna(value) else value


EMPTY = pd.DataFrame(columns=[*METRIC_KEYS, "note"])
"""No row of `metrics.json`."""


def rows_of(name: str, **columns: list[object]) -> pd.DataFrame:
    """Return rows of `metrics.json` of a benchmark; keys without a column are empty."""
    frame = pd.DataFrame(columns)
    return frame.assign(benchmark=name, **{k: "" for k in METRIC_KEYS if k not in frame and k != "benchmark"})
