"""A Ray that is gone ends the process; one that is whole, or has lost what it can do without, does not."""

import subprocess
import sys
from pathlib import Path

import pytest

CODE = """
import logging, sys, time
import ray
from types import SimpleNamespace as Some
from cluster import watchdog

class Node:
    def dead_processes(self):
        return [(sys.argv[1], Some(returncode=int(sys.argv[2])))]

    def kill_all_processes(self, check_alive):
        print("the rest is ended")

logging.basicConfig()
watchdog.POLL_S = 0.05
watchdog.ORDERLY_S = float(sys.argv[5])
ray._private.worker._global_node = Node()
with watchdog.watch_embedded_ray(sys.argv[3]):
    time.sleep(float(sys.argv[4]))
print("the block is over")
"""


HEAD = """
import logging, sys, time
from cluster import watchdog

answers = list(sys.argv[1])
told = []

def knock(address):
    told.append(answers.pop(0) if answers else told[-1])
    if told[-1] == "-":
        raise RuntimeError("nobody at " + address)

logging.basicConfig()
watchdog.PING_EVERY_S, watchdog.MAX_ABSENCE_S = 0.05, float(sys.argv[2])
with watchdog.watch_head("head:1", knock):
    while len(told) < int(sys.argv[3]):
        time.sleep(0.01)
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


def watch_head(answers: str, away_s: float, knocks: int) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-c", HEAD, answers, str(away_s), str(knocks)]
    return subprocess.run(words, capture_output=True, text=True, timeout=240)


def test_a_head_that_stays_away_ends_the_process() -> None:
    done = watch_head("++-", away_s=0.5, knocks=10**6)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.count("the cluster's head at head:1 is gone") == 1
    assert "the cluster's head stays away; the same command goes on" in done.stderr


@pytest.mark.parametrize(
    ("answers", "told"),
    [("+", 0), ("+--+--+", 2), ("-", 0)],
    ids=["stays", "comes back, twice", "was never reached there"],
)
def test_a_head_that_comes_back_or_was_never_reached_there(answers: str, told: int) -> None:
    done = watch_head(answers, away_s=60, knocks=len(answers))
    assert (done.returncode, done.stdout) == (0, "the block is over\n")
    assert done.stderr.count("is gone") == told
