"""Child processes end with a parent that is killed, vLLM's among them."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib.metadata import EntryPoint

import psutil
import pytest

from models.engines.orphans import exit_with_parent
from tests.support.paths import ROOT

PARENT = """
import multiprocessing, time

def child(pipe, exits):
    if exits:
        from models.engines.orphans import exit_with_parent
        exit_with_parent()
    pipe.send(None)
    time.sleep(600)

if __name__ == "__main__":
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=child, args=(there, {exits}), daemon=True)
    process.start()
    here.recv()
    print(process.pid, flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("exits", [True, False])
def test_child_ends_with_a_killed_parent(exits: bool, tmp_path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(PARENT.replace("{exits}", str(exits)))
    command = [sys.executable, str(script)]
    with subprocess.Popen(command, env={"PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        child = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
    gone, alive = psutil.wait_procs([child], timeout=60 if exits else 1)
    for process in alive:
        process.kill()
    assert bool(gone) == exits


def test_process_without_a_parent_of_its_kind_is_left_alone() -> None:
    code = "from models.engines.orphans import *; exit_with_parent(); print(threading.active_count())"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True).stdout == "1\n"


def test_vllm_calls_it_in_its_processes() -> None:
    (value,) = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"][
        "vllm.general_plugins"
    ].values()
    assert EntryPoint("vlmsweep_orphans", value, "vllm.general_plugins").load() is exit_with_parent
