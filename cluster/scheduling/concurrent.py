"""Run the models of a schedule concurrently, each in a thread."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue

from cluster.scheduling.gpu_scheduler import GpuScheduler

log = logging.getLogger(__name__)

SHUTDOWN_S = 30.0
"""Longest wait for running models when the sweep ends early: they end with their next commit."""


def run_concurrently(scheduler: GpuScheduler, run: Callable[[str, int, threading.Event], None]) -> None:
    """Run all models of a scheduler, each in a thread, and return when all have ended.

    `run` gets a model's name, its replicas and an event, and must end soon after the event is set. The first
    exception of a `run` is raised; no model starts after it, and running ones are stopped.
    """
    stop, ended = threading.Event(), SimpleQueue[tuple[str, BaseException | None]]()

    def run_model(name: str, replicas: int) -> None:
        error: BaseException | None = None
        try:
            run(name, replicas, stop)
        except BaseException as raised:  # noqa: BLE001  raised again in the waiting thread
            error = raised
        ended.put((name, error))

    running = 0
    try:
        while True:
            for name, replicas in scheduler.begin():
                log.info("model %r starts with %d replicas", name, replicas)
                threading.Thread(target=run_model, args=(name, replicas), name=f"vlmsweep-{name}", daemon=True).start()
                running += 1
            if not running:
                return
            name, error = ended.get()
            running -= 1
            scheduler.end(name)
            if error is not None:
                raise error
    finally:
        stop.set()
        _wait(ended, running)


def _wait(ended: SimpleQueue[tuple[str, BaseException | None]], running: int) -> None:
    deadline = time.monotonic() + SHUTDOWN_S
    try:
        for _ in range(running):
            ended.get(timeout=max(0.0, deadline - time.monotonic()))
    except Empty:
        log.warning("concurrent models did not end within %.0f s; their processes are killed", SHUTDOWN_S)
