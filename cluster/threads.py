"""Threads whose result or exception is a future."""

import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from contextlib import contextmanager
from contextvars import copy_context
from typing import ParamSpec, TypeVar

from cluster.errors import RunCancelledError

SHUTDOWN_S = 28.0  # longest wait for jobs that were stopped

P = ParamSpec("P")
T = TypeVar("T")


def run_in_thread(name: str, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
    """Run a function in a daemon thread with the caller's context: unlike those of executors, it delays no exit."""
    future = Future[T]()

    def run() -> None:
        try:
            future.set_result(function(*args, **kwargs))
        except BaseException as error:  # noqa: BLE001  raised again by `Future.result`
            future.set_exception(error)

    threading.Thread(target=copy_context().run, args=(run,), name=f"vlmsweep-{name}", daemon=True).start()
    return future


@contextmanager
def in_background(jobs: Mapping[str, Callable[[Callable[[], bool]], None]]) -> Iterator[Callable[[], bool]]:
    """Run jobs during a block, each in a thread, and wait for them at its end; raise the first exception of a job.

    Jobs and block get a function that says whether to end, as soon as one has raised: the block by RunCancelledError.
    """
    stop, failed = threading.Event(), list[Future[None]]()

    def on_end(future: Future[None]) -> None:
        if future.exception():
            failed.append(future)
            stop.set()

    futures = [run_in_thread(name, job, stop.is_set) for name, job in jobs.items()]
    for future in futures:
        future.add_done_callback(on_end)
    try:
        yield stop.is_set
        wait(futures, return_when=FIRST_EXCEPTION)
    except RunCancelledError:
        if not failed:
            raise
    finally:
        stop.set()
        wait(futures, timeout=SHUTDOWN_S)
    for future in filter(Future.done, (*failed, *futures)):  # the first to fail first; it may not be listed yet
        future.result()
