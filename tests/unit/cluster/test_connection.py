"""Errors of a Ray that cannot be started."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import psutil
import pytest
import ray
import ray._private.utils
import ray._private.worker
from hypothesis import given
from hypothesis import strategies as st

from cluster import connection
from cluster.connection import MAX_NODES_LABEL, connect, max_gpu_nodes, parse_max_nodes_label
from cluster.errors import ClusterError
from cluster.ray_private import shut_down, take_over
from models.scratch import make_scratch


def failing(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def init(**_: object) -> NoReturn:
        raise error

    monkeypatch.setattr(ray, "init", init)


def test_start_whose_raylet_ended_is_tried_again_with_the_same_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = list[str]()

    def init(**_: object) -> NoReturn:
        limits.append(os.environ["RAY_gcs_server_port_wait_time_s"])  # noqa: SIM112  as Ray spells it
        raise Exception("The current node timed out during startup.")  # noqa: TRY002  as Ray does

    monkeypatch.setattr(ray, "init", init)
    with pytest.raises(ClusterError, match="its raylet ended as it started; run again when"), connect(None):
        pass
    assert limits == ["90", "90"]


def test_other_errors_of_a_start_keep_their_words(monkeypatch: pytest.MonkeyPatch) -> None:
    failing(ValueError("the memory of the object store is too small"), monkeypatch)
    with pytest.raises(ClusterError, match="used: the memory of the object store is too small"), connect(None):
        pass


def test_start_that_fails_is_tried_again_with_a_longer_limit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What the first start has left behind is killed, as the raylet that came late."""
    limits, late, raylet = list[str](), list[subprocess.Popen[bytes]](), tmp_path / "raylet"

    def init(*, _temp_dir: str, **_: object) -> NoReturn:
        limits.append(os.environ["RAY_gcs_server_port_wait_time_s"])  # noqa: SIM112  as Ray spells it
        assert not late or late[0].wait(60) == -signal.SIGKILL
        raylet.write_text("#!/bin/sh\nsleep 60 & echo; wait; kill -9 $$\n")
        raylet.chmod(0o755)
        late.append(subprocess.Popen(["raylet", str(raylet), _temp_dir], executable="/bin/sh", stdout=subprocess.PIPE))
        assert late[-1].stdout
        late[-1].stdout.readline()  # as a raylet and its agent: both run
        raise Exception("The current node timed out during startup.")  # noqa: TRY002  as Ray does

    monkeypatch.setattr(ray, "init", init)
    with pytest.raises(ClusterError, match=r"a local Ray cannot be used: .*timed out.* less busy"), connect(None):
        pass
    assert limits == ["90", "300"]
    assert late[1].wait(60) == -signal.SIGKILL
    for process in late:
        with process.stdout or contextlib.nullcontext():
            assert select.select([process.stdout], [], [], 20)[0], "the agent holds the pipe until it ends"


def test_native_handler_of_sigterm_is_replaced_after_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    received = list[int]()

    def init(**_: object) -> NoReturn:
        ctypes.CDLL(None).signal(signal.SIGTERM, ctypes.c_void_p(1))  # SIG_IGN, past Python
        os.kill(os.getpid(), signal.SIGTERM)
        assert received == []
        raise KeyError("enough")

    before = signal.signal(signal.SIGTERM, lambda number, _: received.append(number))
    monkeypatch.setattr(ray, "init", init)
    try:
        with pytest.raises(KeyError), connect(None):
            pass
        os.kill(os.getpid(), signal.SIGTERM)
        assert received == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)


def test_cluster_with_another_ray_is_reported_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ray.__version__", "1.0")
    with pytest.raises(RuntimeError) as mismatch:
        ray._private.utils.check_version_info({"ray_version": "2.0", "python_version": "3.11.7"}, "here")
    monkeypatch.undo()
    failing(mismatch.value, monkeypatch)
    with pytest.raises(ClusterError) as failure, connect("10.0.0.1:6379"):
        pass
    (line,) = str(failure.value).splitlines()
    assert "Ray: 2.0 Python: 3.11.7 This process on here was started with: Ray: 1.0" in line
    assert line.endswith("use the image of the cluster here too, or its versions of Ray and Python")


def test_bug_is_not_reported_as_a_cluster_error(monkeypatch: pytest.MonkeyPatch) -> None:
    failing(KeyError("missing"), monkeypatch)
    with pytest.raises(KeyError), connect(None):
        pass


def test_sigterm_while_ray_starts_reaches_the_programs_handler(monkeypatch: pytest.MonkeyPatch) -> None:
    def init(**_: object) -> None:
        ray._private.utils.set_sigterm_handler(lambda *_: sys.exit(15))  # as Ray's `init` and its node do
        signal.raise_signal(signal.SIGTERM)

    def interrupt(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    monkeypatch.setattr(ray, "init", init)
    try:
        with pytest.raises(KeyboardInterrupt), connect(None):
            pass
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize("length", [15, 17, 18, 24, 60])
def test_paths_of_ray_sockets_are_short_enough(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    temporary, folders = Path("/tmp/".ljust(length, "x")), list[str]()

    def init(*, _temp_dir: str, **_: object) -> NoReturn:
        folders.append(_temp_dir)
        raise KeyError("enough")

    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setattr(os, "getpid", lambda: 4_194_304)  # the largest of Linux
    temporary.mkdir(exist_ok=True)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    with pytest.raises(KeyError), connect(None):
        pass
    shutil.rmtree(temporary)
    (folder,) = folders
    assert len(f"{folder}/session_2026-11-23_17-29-15_738462_4194304/sockets/plasma_store") <= 107


COUNTS = st.dictionaries(st.integers(1, 16), st.integers(1, 30), min_size=1, max_size=4)


@given(COUNTS)
def test_written_label_is_parsed_back(counts: dict[int, int]) -> None:
    text = "_".join(f"{count}x{gpus}" for gpus, count in counts.items())
    assert parse_max_nodes_label(text) == tuple(sorted((g for g, n in counts.items() for _ in range(n)), reverse=True))


@given(st.text(max_size=12))
def test_any_text_gives_valid_counts_or_an_error_with_the_syntax(text: str) -> None:
    try:
        counts = parse_max_nodes_label(text)
    except ValueError as error:
        assert "write COUNTxGPUS" in str(error)
    else:
        assert counts
        assert all(0 < gpus < 100 for gpus in counts)


@pytest.mark.parametrize("text", ["", "8", "8x", "x8", "0x8", "8x0", "8x1,4x8", "8x1_", "-1x8", "999999x1", "8x1 _4x8"])
def test_malformed_label_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=MAX_NODES_LABEL):
        parse_max_nodes_label(text)


def cluster(monkeypatch: pytest.MonkeyPatch, nodes: list[dict[str, Any]]) -> None:
    import ray

    monkeypatch.setattr(ray, "nodes", lambda: nodes)


def test_label_of_a_live_node_counts_and_without_one_a_cluster_does_not_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    dead = {"Alive": False, "Labels": {MAX_NODES_LABEL: "9x9"}}
    cluster(monkeypatch, [dead, {"Alive": True}, {"Alive": True, "Labels": {MAX_NODES_LABEL: "2x1_1x4"}}])
    assert max_gpu_nodes() == (4, 1, 1)
    cluster(monkeypatch, [{"Alive": True, "Labels": {"ray.io/node-id": "1"}}])
    assert max_gpu_nodes() == ()


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


def test_reference_dropped_while_ray_shuts_down_reaches_no_native_code(monkeypatch: pytest.MonkeyPatch) -> None:
    worker, ended = ray._private.worker.global_worker, list[str]()

    def shutdown_driver() -> None:
        ended.append("worker")
        assert not hasattr(worker, "core_worker"), "where `ObjectRef` looks for it"

    worker.core_worker = SimpleNamespace(shutdown_driver=shutdown_driver)
    monkeypatch.setattr(ray, "shutdown", lambda *, wait_for_processes: ended.append(f"rest, {wait_for_processes}"))
    shut_down()
    assert ended == ["worker", "rest, True"]


def test_ray_installs_no_handler_of_sigterm_in_this_process() -> None:
    before = signal.getsignal(signal.SIGTERM)
    take_over(None)
    ray._private.utils.set_sigterm_handler(lambda *_: None)
    assert signal.getsignal(signal.SIGTERM) is before
