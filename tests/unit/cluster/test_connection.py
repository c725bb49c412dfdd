"""Errors of a Ray that cannot be started."""

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
from typing import NoReturn

import pytest
import ray

from cluster.connection import connect
from cluster.errors import ClusterError


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
