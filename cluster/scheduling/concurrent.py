"""Run the models of a schedule concurrently, each in a thread."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, wait

from cluster.errors import PostponedError
from cluster.scheduling.gpu_scheduler import GpuScheduler
from cluster.threads import run_in_thread

log = logging.getLogger(__name__)

SHUTDOWN_S = 30.0
"""Longest wait for running models when the sweep ends early: they end with their next commit."""


def run_concurrently(scheduler: GpuScheduler, run: Callable[[str, int, threading.Event], None]) -> None:
    """Run all models of a scheduler, each in a thread, and return when all have ended.

    `run` gets a model's name, its replicas and an event, and must end soon after the event is set. A model whose `run`
    raises PostponedError is run again, after those that wait. Any other first exception is raised; no model starts
    after it, and running ones are stopped.
    """
    stop, running = threading.Event(), dict[Future[None], str]()
    try:
        while True:
            for name, replicas in scheduler.begin():
                log.info("model %r starts with %d replicas", name, replicas)
                running[run_in_thread(name, run, name, replicas, stop)] = name
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                name = running.pop(future)
                scheduler.end(name)
                try:
                    future.result()
                except PostponedError as error:
                    log.warning("model %r is tried again after the others: %s", name, error)
                    scheduler.postpone(name)
    finally:
        stop.set()
        if wait(running, timeout=SHUTDOWN_S).not_done:
            log.warning("concurrent models did not end within %.0f s; their processes are killed", SHUTDOWN_S)
