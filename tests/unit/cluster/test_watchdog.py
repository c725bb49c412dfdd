"""A dead Ray ends the process; a healthy one, or one without a dispensable part, does not."""

import contextlib
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from cluster import connection
from models.scratch import make_scratch

CODE = """
import logging, subprocess, sys, time
from pathlib import Path
from cluster import connection
from models.scratch import hold_scratch

name, end, files, watch_s, shutdown_s = sys.argv[1:]
logging.basicConfig()
connection.POLL_S, connection.SHUTDOWN_S = 0.05, float(shutdown_s)
Path(files, name).symlink_to("/bin/sh")
process = subprocess.Popen([Path(files, name), "-c", "read line; " + end], stdin=subprocess.PIPE)
sleeper = subprocess.Popen(["sleep", "240"])
print(sleeper.pid, flush=True)
hold_scratch(Path(files))
with connection.watch_embedded_ray():
    process.stdin.close()
    time.sleep(float(watch_s))
sleeper.kill()
print("the block is over")
"""


HEAD = """
import logging, sys, time
from cluster import connection
from cluster.errors import ClusterError

answers = list(sys.argv[1])
replies = []

def ping(address):
    replies.append(answers.pop(0) if answers else replies[-1])
    if replies[-1] == "-":
        raise ClusterError("nothing answers at " + address)

logging.basicConfig()
connection.PING_EVERY_S, connection.MAX_ABSENCE_S = 0.05, float(sys.argv[2])
with connection.watch_head("head:1", ping):
    while len(replies) < int(sys.argv[3]):
        time.sleep(0.01)
print("the block is over")
"""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", CODE, *arguments], capture_output=True, text=True, timeout=240)


@pytest.mark.parametrize(
    ("process", "end", "message"),
    [
        ("raylet", "kill -9 $$", "Ray's raylet was ended by SIGKILL, possibly out of memory."),
        ("raylet", "kill -15 $$", "Ray's raylet was ended by SIGTERM."),
        ("gcs_server", "exit 1", "Ray's head ended with exit code 1."),
    ],
)
def test_dead_ray_process_ends_the_driver_with_3(process: str, end: str, message: str, tmp_path: Path) -> None:
    files = make_scratch(str(tmp_path))
    result = run(process, end, str(files), "240", "0.1")
    assert result.returncode == 3
    assert f"{message} Run the same command again to resume." in result.stderr
    assert not files.exists()
    with contextlib.suppress(psutil.NoSuchProcess):  # other children are killed, and take a moment to end
        psutil.Process(int(result.stdout)).wait(30)


@pytest.mark.parametrize(
    ("process", "end"),
    [("log_monitor", "kill -9 $$"), ("raylet", "kill -15 $$"), ("raylet", "kill -1 $$"), ("gcs_server", "exit 0")],
)
def test_other_and_orderly_ends_are_ignored(process: str, end: str, tmp_path: Path) -> None:
    result = run(process, end, str(tmp_path), "0.5", "240")
    assert (result.returncode, result.stdout.split("\n", 1)[1]) == (0, "the block is over\n")
    assert tmp_path.exists()


@pytest.mark.parametrize(("argument", "is_killed"), [("", True), ("60", True), ("never", False)])
def test_descendants_are_killed(argument: str, is_killed: bool, tmp_path: Path) -> None:
    """The kernel keeps 15 bytes of a name, and may cut within a character."""
    program = shutil.copy(shutil.which("sleep") or "", tmp_path / ("\N{LATIN SMALL LETTER E WITH ACUTE}" * 8))
    with subprocess.Popen(["sh", "-c", '"$0" 60; exit $?', program]) as shell:
        while not (children := psutil.Process(shell.pid).children()) or "60" not in children[0].cmdline():
            assert shell.poll() is None
        connection.kill_descendants(shell.pid, argument)
        if is_killed:
            assert shell.wait(60) == 128 + signal.SIGKILL
        else:
            assert children[0].is_running()
            children[0].kill()


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
