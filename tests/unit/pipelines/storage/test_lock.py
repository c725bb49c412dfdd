"""The run lock on a disk; `tests/integration/test_lock_on_s3.py` tests that of an object store."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import IO

import pytest

from pipelines.errors import FencedError, LockedError, StoreError
from pipelines.storage.lock import LOCK, LockOwner, check_lock, exclusive, run_lock
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


OPENED, OPENED_BY_NUMBER = Path.open, os.open


def refuse_writing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process be a user who may read but not write there."""

    def open_file(path: Path, mode: str, *more: object, **named: object) -> IO[bytes]:
        if mode != "rb":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return OPENED(path, mode, *more, **named)  # type: ignore[call-overload,no-any-return]

    def open_number(path: Path, flags: int, *more: int) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return OPENED_BY_NUMBER(path, flags, *more)

    monkeypatch.setattr(Path, "open", open_file)
    monkeypatch.setattr(os, "open", open_number)


def test_folder_of_another_user_without_a_lock_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_writing(monkeypatch)
    message = rf"{LOCK}: no permission .*grant this user the right"
    with pytest.raises(StoreError, match=message), run_lock(Store(str(tmp_path))):
        pytest.fail("a folder of another user was locked")


def test_lock_of_another_user_names_its_run_while_it_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    process, run = start_lock_owner(tmp_path)
    content = (tmp_path / LOCK).read_bytes()
    refuse_writing(monkeypatch)
    with pytest.raises(LockedError, match=f"run {run[:8]}"), run_lock(Store(str(tmp_path))):
        pytest.fail("two runs hold the lock")
    process.kill()
    process.communicate()
    message = rf"{LOCK}: no permission .*grant this user the right to read and write there"
    with pytest.raises(StoreError, match=message), run_lock(Store(str(tmp_path))):
        pytest.fail("another user's lock was taken")
    monkeypatch.undo()
    assert (tmp_path / LOCK).read_bytes() == content


def test_lock_is_released_when_the_run_fails_and_a_damaged_one_overwritten(tmp_path: Path) -> None:
    with pytest.raises(KeyError), run_lock(Store(str(tmp_path / "new"))):
        raise KeyError
    with run_lock(Store(str(tmp_path / "new"))):
        pass
    assert list((tmp_path / "new").iterdir()) == []
    (tmp_path / LOCK).write_text('{\n  "run": "0123')
    with run_lock(Store(str(tmp_path))) as run:
        assert json.loads((tmp_path / LOCK).read_text())["run"] == run


@pytest.mark.parametrize("content", ["", "notes", '{\n  "run": "mine"\n}', '{"run": "mine"}'])
def test_file_of_the_user_under_the_name_of_a_lock_stays(tmp_path: Path, content: str) -> None:
    (tmp_path / LOCK).write_text(content)
    message = r"is not a lock of vlmsweep; move it away, or choose another --to"
    with pytest.raises(LockedError, match=message), run_lock(Store(str(tmp_path)), flag="--to"):
        pytest.fail("a user's file was taken")
    assert (tmp_path / LOCK).read_text() == content


@pytest.mark.parametrize("kind", ["link", "dangling link", "link to a lock", "folder", "pipe"])
def test_what_is_no_file_under_the_name_of_a_lock_is_refused(tmp_path: Path, kind: str) -> None:
    lock, target = tmp_path / "out" / LOCK, tmp_path / "target"
    lock.parent.mkdir()
    if kind in ("link", "link to a lock"):
        target.write_bytes(LockOwner.new().to_json() if kind == "link to a lock" else b"")
    content = target.read_bytes() if target.exists() else None
    if kind == "folder":
        lock.mkdir()
    elif kind == "pipe":
        os.mkfifo(lock)
    else:
        lock.symlink_to(target)
    with pytest.raises(LockedError, match="is not a lock of vlmsweep"), run_lock(Store(str(lock.parent))):
        pytest.fail("what is no file was taken as a lock")
    assert os.path.lexists(lock)
    assert (target.read_bytes() if target.exists() else None) == content


def test_disk_without_hard_links_is_locked_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def link(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", link)
    with run_lock(Store(str(tmp_path))) as run:
        check_lock(Store(str(tmp_path)), run)
        with pytest.raises(LockedError, match=run[:8]), run_lock(Store(str(tmp_path))):
            pytest.fail("two runs hold the lock")
    assert [*tmp_path.iterdir()] == []


def test_place_of_one_command_is_locked_and_rid_of_unfinished_files(tmp_path: Path) -> None:
    unfinished = [tmp_path / place / f".vlmsweep-{'0' * 32}.tmp" for place in ("", "below")]
    (tmp_path / "below").mkdir()
    for path in unfinished:
        path.write_text("x")
    with exclusive(Store(str(tmp_path)), "--to", below=False):
        assert [path.exists() for path in unfinished] == [False, True]
        message = "is being written by run .*; wait for it, stop it, or choose another --data"
        with pytest.raises(LockedError, match=message), exclusive(Store(str(tmp_path)), "--data"):
            pytest.fail("two commands write one place")
    with exclusive(Store(str(tmp_path)), "--to"):
        assert not unfinished[1].exists()
    with exclusive(Store(str(tmp_path / "new")), "--to"):
        pass
    assert not (tmp_path / "new").exists()


def test_concurrent_runs_hold_the_lock_one_after_another(tmp_path: Path) -> None:
    script = """
import sys
from pathlib import Path
from pipelines.storage.lock import run_lock
from pipelines.storage.lock import LockedError
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


def test_only_a_process_of_this_boot_and_namespace_counts_as_dead() -> None:
    owner = LockOwner.new()
    dead = replace(owner, process_start=owner.process_start.partition(":")[0] + ":1")
    assert not owner.is_dead_local_process()
    assert dead.is_dead_local_process()
    for unknown in (
        replace(dead, host="another"),
        replace(dead, process_start="another-boot:1"),  # another machine of the same name, or an earlier boot
        replace(dead, pids="pid:[1]"),  # another container on this machine
        replace(dead, process_start=""),
    ):
        assert not unknown.is_dead_local_process()


def test_lock_file_of_an_earlier_version_is_read_and_one_that_is_none_has_no_owner() -> None:
    old = {name: value for name, value in json.loads(LockOwner.new().to_json()).items() if name != "pids"}
    owner = LockOwner.from_json(json.dumps(old).encode())
    assert not owner.is_dead_local_process()
    assert LockOwner.from_json(b"half of a lo") is None
    assert LockOwner.from_json(b'{"run": "x"}') is None
