"""The end of a demo fits a screen and shows where to look next."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from jobs.cli.main import run
from jobs.demo.main import BENCHMARKS
from jobs.demo.screen import screen
from models.spec import ModelSpec
from pipelines.benchmarks import benchmark
from pipelines.plan.run_spec import RunSpec
from pipelines.predict.records import TaskCount
from pipelines.report.metrics_file import Measured
from pipelines.sweep.result import SweepResult
from tests.support.measured import measured


@pytest.fixture
def spec() -> RunSpec:
    models = {name: ModelSpec(engine="random") for name in ("tiny", "random")}
    return RunSpec(data="data", out="demo out/results", models=models, benchmarks=BENCHMARKS)


def metric(name: str, model: str, value: float | None, **place: str) -> Measured:
    (task, setting), headline = benchmark(name).headline_at, benchmark(name).headline
    whole = {"task": task, "setting": setting, "subset": "", "category": "", "metric": headline}
    ends = {"ci_low": None, "ci_high": None} if value is None else {"ci_low": 0.0, "ci_high": 1.0}
    return measured(**{"benchmark": name, "model": model, **whole, "value": value, "n": 16, **ends, **place})


def shown(spec: RunSpec, metrics: list[Measured]) -> list[str]:
    result = SweepResult(metrics=metrics, report="demo out/results/report/index.html")
    return screen(result, spec, "demo out", 12.3).splitlines()


def test_screen_shows_one_headline_a_benchmark_beside_chance_and_people(spec: RunSpec) -> None:
    metrics = [metric(name, "tiny", 0.125) for name in BENCHMARKS]
    metrics += [metric("vague", "random", 0.3), metric("maia", "tiny", 0.5, category="Planning")]
    lines = shown(spec, metrics)
    assert len(lines) < 24
    rows = [line for line in lines if line.split()[:1] and line.split()[0] in BENCHMARKS]
    assert {line.split()[0] for line in rows} == {*BENCHMARKS}
    assert all("guesses" in row for row in rows if "img2img" not in row), "the interval holds chance"
    assert not any("0.0%" in row.split() for row in rows), "no table of zeros"
    ends = {row.split()[0]: row.split()[-4:] for row in rows}
    assert ends["vague"] == ["guesses", "25.0%", "-", "16"]
    assert ends["vflute"] == ["guesses", "-", "89.1%", "16"]
    assert "50.0%" not in "".join(rows), "a category is no headline"
    assert "report: demo out/results/report/index.html" in lines
    assert "viewer: vlmsweep view 'demo out/results'" in lines


def test_what_the_model_has_learned_has_its_number(spec: RunSpec) -> None:
    place = {"task": "img2img", "setting": "0-shot"}
    learned = replace(metric("mate", "tiny", 1.0, **place), ci_low=0.7)
    metrics = [metric("mate", "tiny", 0.0), learned, metric("mate", "random", 0.1, **place)]
    rows = [line for line in shown(spec, metrics) if line.startswith("mate")]
    assert ["guesses" in row for row in rows] == [True, False]
    assert "img2img, 0-shot: exact match" in rows[1]
    assert "100.0% [70.0, 100.0]" in rows[1]


def test_two_commands_lead_to_an_own_checkpoint_and_own_questions(
    spec: RunSpec, maia_data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text("mine: {engine: random}")
    (tmp_path / "questions.csv").write_text("question,A,B,C,answer\n1+1?,1,2,3,B\n2+2?,4,5,6,A\n")
    lines = shown(replace(spec, data=maia_data), [])
    commands = [shlex.split(line) for line in lines if line.startswith("  vlmsweep")]
    assert [command[1] for command in commands] == ["run", "ingest"]
    assert run([*("maia" if word == "vague" else word for word in commands[0][1:]), "--dry-run"]) == 0
    assert run(["data" if word == maia_data else word for word in commands[1][1:]]) == 0


def test_failures_are_counted(spec: RunSpec) -> None:
    count = TaskCount(
        benchmark="vague", model="tiny", task="mcq", setting="vlm", requests=3, ok=2, error=1, excluded=0, missing=0
    )
    assert "3 requests, 1 failed" in screen(SweepResult(counts=[count]), spec, "out", 1.0)
    assert "0 requests, none failed" in screen(SweepResult(), spec, "out", 1.0)
