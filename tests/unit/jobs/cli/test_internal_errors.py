"""A bug in a stage that runs in the driver ends with exit code 70 and its traceback."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pytest

from jobs.cli.main import run

COMMANDS = {
    "ingest": ("ingest", "maia", "{source}", "--data", "{folder}/data"),
    "plan": (
        "run",
        "--models",
        "random",
        "--benchmarks",
        "maia",
        "--data",
        "{data}",
        "--out",
        "{folder}/o",
        "--dry-run",
    ),
    "status": ("status", "{folder}"),
}
FUNCTIONS = {
    "ingest": "pipelines.ingest.ingest.MediaWriter.write",
    "plan": "pipelines.plan.requests.RequestBuilder.plan_rows",
    "status": "pipelines.sweep.status.load_run",
}


@pytest.mark.parametrize("stage", COMMANDS)
def test_bug_in_a_stage_ends_with_70_and_its_traceback(
    stage: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    maia_source: Path,
    maia_data: str,
    tmp_path: Path,
) -> None:
    def planted(*arguments: object, **flags: object) -> NoReturn:
        raise KeyError("planted")

    monkeypatch.setattr(FUNCTIONS[stage], planted)
    command = [word.format(source=maia_source, data=maia_data, folder=tmp_path) for word in COMMANDS[stage]]
    assert run(command) == 70
    error = capsys.readouterr().err
    assert "in planted" in error
    assert "KeyError: 'planted'" in error
