"""A Ray that is gone ends the process; one that is whole, or has lost what it can do without, does not."""

import subprocess
import sys
from pathlib import Path

import pytest

CODE = """
import logging, sys, time
import ray
from types import SimpleNamespace as Some
from cluster import vigil

class Node:
    def dead_processes(self):
        return [(sys.argv[1], Some(returncode=int(sys.argv[2])))]

    def kill_all_processes(self, check_alive):
        print("the rest is ended")

logging.basicConfig()
vigil.LOOK_S = 0.05
vigil.ORDERLY_S = float(sys.argv[5])
ray._private.worker._global_node = Node()
with vigil.watched(sys.argv[3]):
    time.sleep(float(sys.argv[4]))
print("the block is over")
"""


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", CODE, *words], capture_output=True, text=True, timeout=240)


@pytest.mark.parametrize(
    ("process", "code", "told"),
    [
        ("raylet", -9, "Ray's raylet has ended by SIGKILL, as for want of memory; the same command goes on"),
        ("raylet", -15, "Ray's raylet has ended by SIGTERM; the same command goes on"),
        ("gcs_server", 1, "Ray's head has ended with exit code 1; the same command goes on"),
    ],
)
def test_what_all_hang_on(process: str, code: int, told: str, tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    done = run(process, str(code), str(files), "240", "0.1")
    assert done.returncode == 3
    assert told in done.stderr
    assert done.stdout == "the rest is ended\n"
    assert not files.exists()


@pytest.mark.parametrize(("process", "code"), [("log_monitor", "-9"), ("raylet", "-15"), ("gcs_server", "0")])
def test_what_is_not_missed_and_what_was_told_to_end(process: str, code: str, tmp_path: Path) -> None:
    done = run(process, code, str(tmp_path), "0.5", "240")
    assert (done.returncode, done.stdout) == (0, "the block is over\n")
    assert tmp_path.exists()
