"""Helper processes: forked or spawned, whichever is safe in the parent."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from jobs.generate import processes
from jobs.generate.processes import Processes, start_method
from tests.support.paths import ROOT

SCRIPT = """
import json
from jobs.generate.processes import Processes, start_method
{before}
with Processes(2) as helpers:
    print(json.dumps([start_method(), list(helpers.map(len, ["a", "bb", "ccc"] * 7))]))
"""


def test_single_threaded_process_forks_and_others_spawn(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(processes, "_THREADS", tmp_path)
    (tmp_path / "1").mkdir()
    assert start_method() == "fork"
    (tmp_path / "2").mkdir()
    assert start_method() == "spawn"
    monkeypatch.setattr(sys.modules["__main__"], "__file__", str(tmp_path / "<stdin>"), raising=False)
    assert start_method() is None
    monkeypatch.delattr(sys.modules["__main__"], "__file__")
    assert start_method() == "spawn"
    monkeypatch.setattr(processes, "_THREADS", tmp_path / "elsewhere")
    assert start_method() == "spawn"


@pytest.mark.parametrize(
    ("before", "method"),
    [("", "fork"), ("import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()", None)],
)
def test_script_from_standard_input_gets_its_results(before: str, method: str | None) -> None:
    if not sys.platform.startswith("linux"):
        method = None
    result = subprocess.run(
        [sys.executable, "-"], input=SCRIPT.format(before=before), capture_output=True, text=True, check=True, cwd=ROOT,
        timeout=240,
    )  # fmt: skip
    assert json.loads(result.stdout) == [method, [1, 2, 3] * 7]


@pytest.mark.parametrize("workers", [1, 2])
def test_results_are_ordered_and_an_error_ends_the_pool(workers: int) -> None:
    with Processes(workers) as helpers:
        assert list(helpers.map(abs, range(-20, 0))) == list(range(20, 0, -1))
    with pytest.raises(ValueError, match="invalid literal"), Processes(workers) as helpers:
        list(helpers.map(int, ["1", "2", "x"]))
