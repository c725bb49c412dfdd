"""Threads with futures; jobs in the background end with their block, and it with them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import ContextVar

import pytest

from cluster.errors import RunCancelledError
from cluster.threads import in_background, run_in_thread

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
