"""The run lock on a disk; `tests/integration/test_lock_on_s3.py` tests that of an object store."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO

import pytest

from pipelines.errors import FencedError, LockedError, StoreError
from pipelines.storage.lock import run_lock
from pipelines.storage.lock_owner import LOCK, check_lock
from pipelines.storage.store import Store

HOLD = """
import sys, time
from pipelines.storage.lock import run_lock
from pipelines.storage.store import Store
with run_lock(Store(sys.argv[1])) as run:
    print(run, flush=True)
    time.sleep(60)
"""


def start_lock_owner(out: Path) -> tuple[subprocess.Popen[str], str]:
    """Start another process that locks the output; return it and its token."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(out)], stdout=subprocess.PIPE, text=True)
    return process, process.stdout.readline().strip()


def test_second_run_is_refused_and_names_the_owner(tmp_path: Path) -> None:
    process, run = start_lock_owner(tmp_path)
    try:
        message = rf"run {run[:8]} \(process {process.pid} on .*another --out"
        with pytest.raises(LockedError, match=message), run_lock(Store(str(tmp_path))):
            pytest.fail("two runs hold the lock")
        check_lock(Store(str(tmp_path)), run)
    finally:
        process.kill()
        process.communicate()


def test_lock_of_a_killed_run_is_taken_over_and_fences_its_workers(tmp_path: Path) -> None:
    process, dead = start_lock_owner(tmp_path)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert (tmp_path / LOCK).exists()
    with run_lock(Store(str(tmp_path))) as run:
        check_lock(Store(str(tmp_path)), run)
        with pytest.raises(FencedError, match=f"run {dead[:8]} no longer owns"):
            check_lock(Store(str(tmp_path)), dead)
    with pytest.raises(FencedError, match="is unlocked"):
        check_lock(Store(str(tmp_path)), run)
    assert not (tmp_path / LOCK).exists()


OPENED = Path.open


def open_as_another(path: Path, mode: str, *more: object, **named: object) -> IO[bytes]:
    """Open a file as a user who may read but not write there."""
    if "+" in mode:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))
    return OPENED(path, mode, *more, **named)  # type: ignore[call-overload,no-any-return]


def test_folder_of_another_user_without_a_lock_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "open", open_as_another)
    message = rf"{LOCK}: no permission .*grant this user the right"
    with pytest.raises(StoreError, match=message), run_lock(Store(str(tmp_path))):
        pytest.fail("a folder of another user was locked")


def test_lock_of_another_user_names_its_run_while_it_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    process, run = start_lock_owner(tmp_path)
    content = (tmp_path / LOCK).read_bytes()
    monkeypatch.setattr(Path, "open", open_as_another)
    with pytest.raises(LockedError, match=f"run {run[:8]}"), run_lock(Store(str(tmp_path))):
        pytest.fail("two runs hold the lock")
    process.kill()
    process.communicate()
    message = rf"{LOCK}: no permission .*grant this user the right to read and write there"
    with pytest.raises(StoreError, match=message), run_lock(Store(str(tmp_path))):
        pytest.fail("another user's lock was taken")
    monkeypatch.undo()
    assert (tmp_path / LOCK).read_bytes() == content


def test_lock_is_released_when_the_run_fails(tmp_path: Path) -> None:
    with pytest.raises(KeyError), run_lock(Store(str(tmp_path / "new"))):
        raise KeyError
    with run_lock(Store(str(tmp_path / "new"))):
        pass
    assert list((tmp_path / "new").iterdir()) == []


def test_damaged_lock_file_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / LOCK).write_text('{\n  "run": "0123')
    with run_lock(Store(str(tmp_path))) as run:
        assert json.loads((tmp_path / LOCK).read_text())["run"] == run


def test_concurrent_runs_hold_the_lock_one_after_another(tmp_path: Path) -> None:
    script = """
import sys
from pathlib import Path
from pipelines.storage.lock import run_lock
from pipelines.storage.lock_owner import LockedError
from pipelines.storage.store import Store
out, count = Path(sys.argv[1]), 0
while count < 20:
    try:
        with run_lock(Store(str(out))):
            flag = out / "inside"
            flag.touch(exist_ok=False)
            flag.unlink()
            count += 1
    except LockedError:
        pass
"""
    processes = [subprocess.Popen([sys.executable, "-c", script, str(tmp_path)]) for _ in range(4)]
    assert [process.wait(timeout=240) for process in processes] == [0, 0, 0, 0]


def test_suspended_run_keeps_its_lock(tmp_path: Path) -> None:
    process, _ = start_lock_owner(tmp_path)
    try:
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.2)
        with pytest.raises(LockedError), run_lock(Store(str(tmp_path))):
            pass
        process.send_signal(signal.SIGCONT)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
