"""The end of a demo fits a screen and shows where to look next."""

from __future__ import annotations

import pytest

from jobs.demo.samples import BENCHMARKS
from jobs.demo.screen import screen
from models.spec import ModelSpec
from pipelines.benchmarks import benchmark
from pipelines.plan.run_spec import RunSpec
from pipelines.predict.records import CellCount
from pipelines.report.measured import Measured
from pipelines.sweep.result import SweepResult
from tests.support.measured import measured


@pytest.fixture
def spec() -> RunSpec:
    models = {name: ModelSpec(engine="random") for name in ("tiny", "chance")}
    return RunSpec(data="data", out="demo out/results", models=models, benchmarks=BENCHMARKS)


def metric(name: str, model: str, value: float | None, **place: str) -> Measured:
    (task, setting), headline = benchmark(name).headline_at, benchmark(name).headline
    whole = {"task": task, "setting": setting, "subset": "", "category": "", "metric": headline}
    ends = {"ci_low": None, "ci_high": None} if value is None else {"ci_low": 0.0, "ci_high": 1.0}
    return measured(**{"benchmark": name, "model": model, **whole, "value": value, "n": 16, **ends, **place})


def test_screen_shows_one_headline_a_benchmark(spec: RunSpec) -> None:
    metrics = [metric(name, "tiny", 0.125) for name in BENCHMARKS]
    metrics += [metric("vague", "chance", None), metric("maia", "chance", 0.5, category="Planning")]
    text = screen(SweepResult(metrics=metrics, report="demo out/results/report/index.html"), spec, "demo out", 12.3)
    lines = text.splitlines()
    assert len(lines) < 24
    rows = [line for line in lines if line.split()[:1] and line.split()[0] in BENCHMARKS]
    assert {line.split()[0] for line in rows} == {*BENCHMARKS}
    assert sum("12.5% [0.0, 100.0]" in row for row in rows) == len(BENCHMARKS)
    assert ["mate", "img2img", "0-shot"] in [row.split()[:3] for row in rows]  # what the model has learned
    assert "50.0%" not in text, "a category is no headline"
    assert "report: demo out/results/report/index.html" in lines
    assert "viewer: vlmsweep view 'demo out/results'" in lines


def test_failures_are_counted(spec: RunSpec) -> None:
    count = CellCount(
        benchmark="vague", model="tiny", task="mcq", setting="vlm", requests=3, ok=2, error=1, excluded=0, missing=0
    )
    assert "3 requests, 1 failed" in screen(SweepResult(counts=[count]), spec, "out", 1.0)
    assert "0 requests, none failed" in screen(SweepResult(), spec, "out", 1.0)
