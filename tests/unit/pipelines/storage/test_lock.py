"""One run at a time writes an output on a disk; `tests/integration/test_lock_on_s3.py` asks the same of a store."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from pipelines.storage.lock import run_lock
from pipelines.storage.lock_owner import LOCK, FencedError, LockedError, LockOwner, check_lock
from pipelines.storage.store import Store

HOLD = """
import sys, time
from pipelines.storage.lock import run_lock
from pipelines.storage.store import Store
with run_lock(Store(sys.argv[1])) as run:
    print(run, flush=True)
    time.sleep(60)
"""


def holder(out: Path) -> tuple[subprocess.Popen[str], str]:
    """Another process that holds the output."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(out)], stdout=subprocess.PIPE, text=True)
    return process, process.stdout.readline().strip()


def test_the_second_is_refused_and_told_who_holds_it(tmp_path: Path) -> None:
    process, run = holder(tmp_path)
    try:
        message = rf"run {run[:8]} \(process {process.pid} on .*another --out"
        with pytest.raises(LockedError, match=message), run_lock(Store(str(tmp_path))):
            pytest.fail("two hold it")
        check_lock(Store(str(tmp_path)), run)
    finally:
        process.kill()
        process.communicate()


def test_a_killed_holder_keeps_nothing_and_its_late_workers_are_refused(tmp_path: Path) -> None:
    process, dead = holder(tmp_path)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert (tmp_path / LOCK).exists()
    with run_lock(Store(str(tmp_path))) as run:
        check_lock(Store(str(tmp_path)), run)
        with pytest.raises(FencedError, match=f"not by run {dead[:8]}"):
            check_lock(Store(str(tmp_path)), dead)
    with pytest.raises(FencedError, match="held by nobody"):
        check_lock(Store(str(tmp_path)), run)
    assert not (tmp_path / LOCK).exists()


def test_it_is_given_back_when_the_work_fails(tmp_path: Path) -> None:
    with pytest.raises(KeyError), run_lock(Store(str(tmp_path / "new"))):
        raise KeyError
    with run_lock(Store(str(tmp_path / "new"))):
        pass
    assert list((tmp_path / "new").iterdir()) == []


def test_a_file_that_is_no_lock_is_written_over(tmp_path: Path) -> None:
    (tmp_path / LOCK).write_text("half of a lo")
    with run_lock(Store(str(tmp_path))) as run:
        assert json.loads((tmp_path / LOCK).read_text())["run"] == run


def test_many_at_once_hold_it_one_after_the_other(tmp_path: Path) -> None:
    script = """
import sys
from pathlib import Path
from pipelines.storage.lock import run_lock
from pipelines.storage.lock_owner import LockedError
from pipelines.storage.store import Store
out, won = Path(sys.argv[1]), 0
while won < 20:
    try:
        with run_lock(Store(str(out))):
            flag = out / "inside"
            flag.touch(exist_ok=False)
            flag.unlink()
            won += 1
    except LockedError:
        pass
"""
    others = [subprocess.Popen([sys.executable, "-c", script, str(tmp_path)]) for _ in range(4)]
    assert [process.wait(timeout=240) for process in others] == [0, 0, 0, 0]


def test_a_run_that_goes_on_after_a_pause_keeps_its_lock(tmp_path: Path) -> None:
    process, _ = holder(tmp_path)
    try:
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.2)
        with pytest.raises(LockedError), run_lock(Store(str(tmp_path))):
            pass
        process.send_signal(signal.SIGCONT)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()


def test_only_a_process_of_this_boot_and_this_namespace_is_known_to_be_dead() -> None:
    me = LockOwner.here()
    gone = replace(me, process_start=me.process_start.partition(":")[0] + ":1")
    assert not me.dead_here()
    assert gone.dead_here()
    for other in (
        replace(gone, host="another"),
        replace(gone, process_start="another-boot:1"),  # another machine of the same name, or this one before
        replace(gone, pids="pid:[1]"),  # a container beside this one
        replace(gone, process_start=""),
    ):
        assert not other.dead_here(), "it is watched instead"


def test_what_an_earlier_version_wrote_is_read(tmp_path: Path) -> None:
    old = {name: value for name, value in json.loads(LockOwner.here().to_json()).items() if name != "pids"}
    holder = LockOwner.from_json(json.dumps(old).encode())
    assert holder is not None
    assert not holder.dead_here()
