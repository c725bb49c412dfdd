"""The examples of the documentation run as they stand."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
SLOW = ("add_a_model",)


@pytest.mark.parametrize(
    "example",
    [pytest.param(path, id=path.stem, marks=pytest.mark.slow if path.stem in SLOW else []) for path in EXAMPLES],
)
def test_example_runs_on_the_sample_data(example: Path, tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, str(example), str(tmp_path / "out")], cwd=tmp_path, capture_output=True, text=True, timeout=600
    )
    assert run.returncode == 0, run.stderr[-4000:]
    assert "report: " in run.stdout
    assert (tmp_path / "out" / "results" / "report" / "index.html").is_file()
