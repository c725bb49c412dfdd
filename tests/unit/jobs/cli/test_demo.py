"""`vlmsweep demo` prints one screen; with `--all` or `--json` what `run` prints."""

from __future__ import annotations

import json

import pytest

from jobs.cli.main import run
from models.spec import ModelSpec
from pipelines.plan.run_spec import RunSpec
from pipelines.predict.records import TaskCount
from pipelines.progress import ProgressListener
from pipelines.sweep.result import SweepResult

SPEC = RunSpec(data="data", out="demo-out/results", models={"m": ModelSpec(engine="random")}, benchmarks=("vague",))


@pytest.fixture(params=[0, 1], ids=["all well", "one failed"])
def failed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Replace the sweep by one that has so many failed rows."""
    errors = int(request.param)
    place = {"benchmark": "vague", "model": "m", "task": "mcq", "setting": "vlm"}
    result = SweepResult(counts=[TaskCount(**place, requests=16, ok=16 - errors, error=errors)], report="index.html")

    def run_demo(_out: str, *, all_settings: bool, progress: ProgressListener) -> tuple[RunSpec, SweepResult]:
        progress.phase("predict m", 16)
        progress.advance(16, errors)
        return SPEC, result

    monkeypatch.setattr("jobs.demo.main.run_demo", run_demo)
    return errors


def test_demo_prints_one_screen(failed: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["demo"]) == failed
    shown = capsys.readouterr()
    assert "viewer: vlmsweep view demo-out/results" in shown.out
    assert "requests  " not in shown.out, "no table of counts"
    assert shown.err == "", "short phases leave no line"


def test_demo_of_all_settings_prints_all_tables(failed: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["demo", "--all"]) == failed
    shown = capsys.readouterr()
    assert "report: index.html" in shown.out
    assert "missing" in shown.out
    assert "predict m: 16 of 16" in shown.err


def test_demo_prints_json(failed: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["demo", "--json"]) == failed
    assert json.loads(capsys.readouterr().out)["failed"] == failed
