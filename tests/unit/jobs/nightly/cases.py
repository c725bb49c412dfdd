"""Shared test data of the nightly run."""

from __future__ import annotations

from models.spec import ModelSpec
from pipelines.report.metrics_file import Measured
from tests.support.measured import measured

EARLIER, NOW = "20260101T020000.000000Z", "20260102T020000.000000Z"


def random(**more: object) -> ModelSpec:
    return ModelSpec(engine="random", **more)


def metric(value: float | None, **more: object) -> Measured:
    row = {
        "benchmark": "maia", "task": "vsv", "model": "m", "setting": "1-frame", "subset": "", "category": "",
        "metric": "statement_accuracy", "value": value, "unit": "fraction", "n": 10, "n_failed": 0, "ci_low": 0.4,
        "ci_high": 0.6,
    }  # fmt: skip
    return measured(**{**row, **more})
