"""A dead Ray ends the process; a healthy one, or one without a dispensable part, does not."""

import subprocess
import sys
from pathlib import Path

import pytest

from models.scratch import make_scratch

CODE = """
import logging, sys, time
import ray
from pathlib import Path
from types import SimpleNamespace as Some
from cluster import watchdog
from models.scratch import hold_scratch

class Node:
    def dead_processes(self):
        return [(sys.argv[1], Some(returncode=int(sys.argv[2])))]

    def kill_all_processes(self, check_alive):
        print("all processes are killed")

logging.basicConfig()
watchdog.POLL_S = 0.05
watchdog.SHUTDOWN_S = float(sys.argv[5])
ray._private.worker._global_node = Node()
hold_scratch(Path(sys.argv[3]))
with watchdog.watch_embedded_ray():
    time.sleep(float(sys.argv[4]))
print("the block is over")
"""


HEAD = """
import logging, sys, time
from cluster import watchdog
from cluster.errors import ClusterError

answers = list(sys.argv[1])
replies = []

def ping(address):
    replies.append(answers.pop(0) if answers else replies[-1])
    if replies[-1] == "-":
        raise ClusterError("nothing answers at " + address)

logging.basicConfig()
watchdog.PING_EVERY_S, watchdog.MAX_ABSENCE_S = 0.05, float(sys.argv[2])
with watchdog.watch_head("head:1", ping):
    while len(replies) < int(sys.argv[3]):
        time.sleep(0.01)
print("the block is over")
"""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", CODE, *arguments], capture_output=True, text=True, timeout=240)


@pytest.mark.parametrize(
    ("process", "code", "message"),
    [
        (
            "raylet",
            -9,
            "Ray's raylet was ended by SIGKILL, possibly out of memory. Run the same command again to resume.",
        ),
        ("raylet", -15, "Ray's raylet was ended by SIGTERM. Run the same command again to resume."),
        ("gcs_server", 1, "Ray's head ended with exit code 1. Run the same command again to resume."),
    ],
)
def test_dead_ray_process_ends_the_driver_with_3(process: str, code: int, message: str, tmp_path: Path) -> None:
    files = make_scratch(str(tmp_path))
    result = run(process, str(code), str(files), "240", "0.1")
    assert result.returncode == 3
    assert message in result.stderr
    assert result.stdout == "all processes are killed\n"
    assert not files.exists()


@pytest.mark.parametrize(
    ("process", "code"), [("log_monitor", "-9"), ("raylet", "-15"), ("raylet", "-1"), ("gcs_server", "0")]
)
def test_other_and_orderly_ends_are_ignored(process: str, code: str, tmp_path: Path) -> None:
    result = run(process, code, str(tmp_path), "0.5", "240")
    assert (result.returncode, result.stdout) == (0, "the block is over\n")
    assert tmp_path.exists()


def watch_head(answers: str, max_absence_s: float, pings: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", HEAD, answers, str(max_absence_s), str(pings)]
    return subprocess.run(command, capture_output=True, text=True, timeout=240)


def test_unreachable_head_ends_the_process() -> None:
    result = watch_head("++-", max_absence_s=0.5, pings=10**6)
    assert (result.returncode, result.stdout) == (3, "")
    assert result.stderr.count("the cluster's head at head:1 does not answer") == 1
    assert "the cluster's head stays unreachable. Run the same command again" in result.stderr


@pytest.mark.parametrize(
    ("answers", "warnings"),
    [("+", 0), ("+--+--+", 2), ("-", 0)],
    ids=["stays", "comes back, twice", "was never reached there"],
)
def test_head_that_returns_or_was_never_reached_is_ignored(answers: str, warnings: int) -> None:
    result = watch_head(answers, max_absence_s=60, pings=len(answers))
    assert (result.returncode, result.stdout) == (0, "the block is over\n")
    assert result.stderr.count("does not answer") == warnings
