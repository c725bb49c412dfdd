"""TODO doc."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue

from cluster.scheduling.gpu_scheduler import (
    GpuScheduler,
    log,
)

GIVE_UP_S = 30.0
"""How long models that run are waited for when the sweep ends early: they end with their next commit."""


def run_concurrently(book: GpuScheduler, run: Callable[[str, int, threading.Event], None]) -> None:
    """Run all models of a book, each in a thread, and return when all have ended.

    Args:
        book: who begins when.
        run: runs one model, given its name, its replicas and an event; once that is set it shall end soon.

    Raises:
        Exception: the first that a `run` raised; no model begins after it, and those that run are told to end.
    """
    stop, ended = threading.Event(), SimpleQueue[tuple[str, BaseException | None]]()

    def one(name: str, replicas: int) -> None:
        error: BaseException | None = None
        try:
            run(name, replicas, stop)
        except BaseException as raised:  # noqa: BLE001  is raised again in the thread that waits
            error = raised
        ended.put((name, error))

    running = 0
    try:
        while True:
            for name, replicas in book.begin():
                log.info("model %r begins with %d replicas", name, replicas)
                threading.Thread(target=one, args=(name, replicas), name=f"vlmsweep-{name}", daemon=True).start()
                running += 1
            if not running:
                return
            name, error = ended.get()
            running -= 1
            book.end(name)
            if error is not None:
                raise error
    finally:
        stop.set()
        _wait(ended, running)


def _wait(ended: SimpleQueue[tuple[str, BaseException | None]], running: int) -> None:
    until = time.monotonic() + GIVE_UP_S
    try:
        for _ in range(running):
            ended.get(timeout=max(0.0, until - time.monotonic()))
    except Empty:
        log.warning("models that run beside each other did not end within %.0f s; their processes are ended", GIVE_UP_S)
