"""The examples of the documentation run as they stand."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.docs import write_files
from tests.support.paths import ROOT

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
SLOW = ("add_a_model",)


@pytest.mark.parametrize(
    "example",
    [pytest.param(path, id=path.stem, marks=pytest.mark.full if path.stem in SLOW else []) for path in EXAMPLES],
)
def test_example_runs_on_the_sample_data(example: Path, tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, str(example), str(tmp_path / "out")], cwd=tmp_path, capture_output=True, text=True, timeout=600
    )
    assert run.returncode == 0, run.stderr[-4000:]
    assert "report: " in run.stdout
    assert (tmp_path / "out" / "results" / "report" / "index.html").is_file()


def test_the_pages_columns_file_is_that_of_the_example(tmp_path: Path) -> None:
    page = ROOT / "docs" / "how-to" / "own-questions.md"
    write_files(page.read_text(encoding="utf-8"), tmp_path)
    assert (tmp_path / "columns.yaml").read_text() == (ROOT / "examples/own-questions/columns.yaml").read_text()
