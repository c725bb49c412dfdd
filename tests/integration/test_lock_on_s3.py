"""One run at a time writes an output in an object store, by conditional writes and heartbeats."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
from typing import Any

import pytest

from pipelines.errors import FencedError, LockedError
from pipelines.storage.lock import LOCK, check_lock, run_lock
from pipelines.storage.store import Store
from tests.integration.conftest import S3

HOLD = """
import sys, time
from pipelines.storage.lock import run_lock
from pipelines.storage.store import Store
with run_lock(Store(sys.argv[1]), heartbeat_s=0.3) as run:
    print(run, flush=True)
    time.sleep(60)
"""


@pytest.fixture
def out(s3: S3, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Store:
    for name, value in s3.env.items():
        monkeypatch.setenv(name, value)
    return Store(f"s3://bench/lock/{request.node.name}")


def holder(out: Store) -> tuple[subprocess.Popen[str], str]:
    process = subprocess.Popen([sys.executable, "-c", HOLD, out.uri], stdout=subprocess.PIPE, text=True)
    return process, process.stdout.readline().strip()


def elsewhere(out: Store) -> None:
    """Let the lock look as if another machine had taken it."""
    content, version = out.get_version(LOCK)
    while not out.put_if(LOCK, json.dumps({**json.loads(content), "host": "another"}).encode(), version):
        content, version = out.get_version(LOCK)  # a beat that was on its way when its sender was killed


def test_live_remote_lock_owner_is_detected_by_its_heartbeat(out: Store) -> None:
    process, run = holder(out)
    try:
        with pytest.raises(LockedError, match=f"run {run[:8]}"), run_lock(out, stale_after_s=40):
            pytest.fail("two hold it")
        check_lock(out, run)
    finally:
        process.kill()
        process.communicate()


def test_lock_of_a_dead_local_process_is_taken_over_at_once(out: Store) -> None:
    process, dead = holder(out)
    process.kill()
    process.communicate()
    with run_lock(out, stale_after_s=3600) as run:
        check_lock(out, run)
        with pytest.raises(FencedError):
            check_lock(out, dead)
    assert not out.exists(LOCK)


def two_at_once(out: Store, *, stale_after_s: float) -> list[str]:
    """Start two contenders; the winner holds the lock until the other is refused; return both outcomes."""
    ends: list[str] = []
    refused = threading.Event()

    def try_it() -> None:
        try:
            with run_lock(Store(out.uri), stale_after_s=stale_after_s, heartbeat_s=0.2):
                ends.append("held")
                refused.wait(120)
        except LockedError:
            ends.append("refused")
            refused.set()

    threads = [threading.Thread(target=try_it) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(ends)


def test_silent_remote_lock_owner_is_replaced_by_one_contender(out: Store) -> None:
    process, _ = holder(out)
    process.kill()
    process.communicate()
    elsewhere(out)
    assert two_at_once(out, stale_after_s=4.0) == ["held", "refused"]


def be_replaced(out: Store, run: str) -> None:
    """Let another run take the lock, and wait until this one notices."""
    content, version = out.get_version(LOCK)
    while not out.put_if(LOCK, json.dumps({**json.loads(content), "run": "f" * 32}).encode(), version):
        content, version = out.get_version(LOCK)
    with pytest.raises(FencedError, match="locked by run ffffffff"):
        check_lock(out, run)
    threading.Event().wait(60)


def test_replaced_lock_owner_stops_and_keeps_the_new_lock(out: Store) -> None:
    with pytest.raises(LockedError, match="taken over by another run"), run_lock(out, heartbeat_s=0.5) as run:
        be_replaced(out, run)
    assert json.loads(out.get(LOCK))["run"] == "f" * 32


def heedless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the store write whatever the condition."""

    def put_if(store: Store, path: str, content: bytes, version: str | None) -> str:
        store.put(path, content)
        return store.get_version(path)[1]

    monkeypatch.setattr(Store, "put_if", put_if)


def test_live_lock_owner_is_detected_without_conditional_writes(
    out: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    heedless(monkeypatch)
    monkeypatch.setattr("pipelines.storage.lock.SETTLE_S", 0.1)
    with run_lock(out, heartbeat_s=0.2) as run:
        assert "ignores conditions" in caplog.text
        elsewhere(out)
        with pytest.raises(LockedError, match=f"run {run[:8]}"), run_lock(out, stale_after_s=5):
            pytest.fail("two hold it")
        check_lock(out, run)
    assert not out.exists(LOCK)


def test_one_of_two_simultaneous_runs_gets_the_lock_without_conditional_writes(
    out: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    heedless(monkeypatch)
    monkeypatch.setattr("pipelines.storage.lock.SETTLE_S", 3.0)
    both = threading.Barrier(2)

    def together(store: Store, *arguments: Any) -> tuple[bytes, str]:
        """Run a call only when both contenders have read."""
        with contextlib.suppress(threading.BrokenBarrierError):
            both.wait(20)
        both.abort()
        return whole(store, *arguments)

    whole = Store.get_version
    monkeypatch.setattr(Store, "get_version", together)

    assert two_at_once(out, stale_after_s=5.0) == ["held", "refused"]
