"""Run jobs in background threads, for models that mostly wait for their provider."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

SHUTDOWN_S = 28.0
"""Longest wait for jobs that were stopped."""
_LOOK_S = 0.2


@contextmanager
def in_background(jobs: Mapping[str, Callable[[Callable[[], bool]], None]]) -> Iterator[None]:
    """Run jobs during a block, each in a thread, and wait for them at its end; raise the first exception of a job.

    A job gets a function that says whether to end, as soon as the block or another job has raised.
    """
    stop, errors = threading.Event(), list[BaseException]()

    def work(job: Callable[[Callable[[], bool]], None]) -> None:
        try:
            job(stop.is_set)
        except BaseException as error:  # noqa: BLE001  raised again in the waiting thread
            errors.append(error)
            stop.set()

    threads = [
        threading.Thread(target=work, args=(job,), name=f"vlmsweep-{name}", daemon=True) for name, job in jobs.items()
    ]
    for thread in threads:
        thread.start()
    try:
        yield
        while any(thread.is_alive() for thread in threads):
            stop.wait(_LOOK_S)
            if errors:
                break
    finally:
        stop.set()
        deadline = time.monotonic() + SHUTDOWN_S
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
    if errors:
        raise errors[0]
