"""A lazy cluster: nothing starts before it is needed, and what was started ends with its block."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import pytest

import cluster.lazy
from cluster.connection import ClusterInfo
from cluster.errors import RunCancelledError
from cluster.lazy import open_cluster
from cluster.threads import in_background, run_in_thread


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record starts and ends of connections instead of starting Ray."""
    events: list[str] = []

    @contextmanager
    def connect(address: str | None) -> Iterator[ClusterInfo]:
        events.append(f"start {address}")
        yield ClusterInfo(address or "", 2.0, 0.0)
        events.append(f"end {address}")

    monkeypatch.setattr(cluster.lazy, "connect", connect)
    return events


def test_embedded_cluster_starts_once_at_its_first_use(connections: list[str]) -> None:
    with open_cluster(None):
        pass
    assert connections == []
    with open_cluster(None) as embedded:
        assert (embedded.is_embedded, connections) == (True, [])
        assert embedded.connect() == embedded.connect() == ClusterInfo("", 2.0, 0.0)
        assert connections == ["start None"]
    assert connections == ["start None", "end None"]


def test_remote_cluster_is_joined_at_once(connections: list[str]) -> None:
    with open_cluster("head:6379") as remote:
        assert (remote.is_embedded, connections) == (False, ["start head:6379"])


def test_inner_block_shares_the_cluster_of_the_outer_block(connections: list[str]) -> None:
    with open_cluster(None) as outer:
        with open_cluster(None) as inner:
            inner.connect()
            assert inner is outer
        assert connections == ["start None"]
    assert connections == ["start None", "end None"]


NAME = ContextVar("NAME", default="")


def test_thread_has_a_future_and_the_callers_context_and_delays_no_exit() -> None:
    assert run_in_thread("sum", sum, (1, 2)).result(60) == 3
    with pytest.raises(ZeroDivisionError):
        run_in_thread("division", lambda: 1 // 0).result(60)
    NAME.set("caller")
    thread, name = run_in_thread("look", lambda: (threading.current_thread(), NAME.get())).result(60)
    assert (thread.name, thread.daemon, name) == ("vlmsweep-look", True, "caller")


def test_block_waits_for_its_jobs_which_run_at_the_same_time() -> None:
    together = threading.Barrier(3, timeout=60)
    ended: list[str] = []

    def job(name: str) -> Callable[[Callable[[], bool]], None]:
        def run(is_stopped: Callable[[], bool]) -> None:
            together.wait()
            assert not is_stopped()
            ended.append(name)

        return run

    with in_background({"a": job("a"), "b": job("b")}):
        together.wait()
    assert sorted(ended) == ["a", "b"]


def wait_until(is_stopped: Callable[[], bool]) -> None:
    pause = threading.Event()
    while not is_stopped():
        pause.wait(0.01)


def test_failing_job_stops_the_others_and_ends_its_block() -> None:
    def fail(_: Callable[[], bool]) -> None:
        raise OSError("the store is gone")

    with pytest.raises(OSError, match="the store is gone"), in_background({"a": fail, "b": wait_until}):
        pass

    def fail(_: Callable[[], bool]) -> None:
        raise OSError("the store is gone")

    with pytest.raises(OSError, match="the store is gone"):
        cancel(fail, awaits_failure=True)
    with pytest.raises(RunCancelledError):
        cancel(wait_until, awaits_failure=False)


def cancel(job: Callable[[Callable[[], bool]], None], *, awaits_failure: bool) -> None:
    with in_background({"a": job}) as has_failed:
        if awaits_failure:
            wait_until(has_failed)
        assert has_failed() == awaits_failure
        raise RunCancelledError("b")


def test_interrupted_block_stops_its_jobs() -> None:
    ended = threading.Event()

    def job(is_stopped: Callable[[], bool]) -> None:
        wait_until(is_stopped)
        ended.set()

    with pytest.raises(KeyboardInterrupt), in_background({"a": job}):
        raise KeyboardInterrupt
    assert ended.is_set()
