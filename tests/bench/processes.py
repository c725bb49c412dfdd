"""Processor time and memory of this process and all below it, Ray's included, while something runs."""

from __future__ import annotations

import os
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import psutil

EVERY_S = 0.25


@dataclass(slots=True)
class Usage:
    """What was used."""

    cpu_s: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Seconds by phase and kind of process."""
    driver_mb: list[float] = field(default_factory=list)
    """Resident size of this process at each look."""

    @property
    def total_s(self) -> float:
        """All seconds."""
        return sum(self.cpu_s.values())

    def by_phase(self) -> dict[str, dict[str, float]]:
        """Return the seconds of each kind of process in each phase, the largest first."""
        table: dict[str, dict[str, float]] = {}
        for (phase, kind), seconds in self.cpu_s.most_common():
            if seconds >= 0.05:
                table.setdefault(phase, {})[kind] = round(seconds, 2)
        return table


def kind_of(process: psutil.Process) -> str:
    """Return what a process is for: the driver, a task or part of Ray, a decoder."""
    if process.pid == os.getpid():
        return "driver"
    command = process.cmdline()
    if not command:
        return "ended"
    if command[0].startswith("ray::"):
        return re.sub(r"\(MapWorker\(", "(", command[0].partition(" ")[0].removeprefix("ray::"))
    command_line = " ".join(command)
    if "decode_worker" in command_line:
        return "decoder"
    return next(
        (name for name in ("gcs_server", "raylet", "log_monitor", "runtime_env", "dashboard", "default_worker")
         if name in command_line.partition(" --")[0]),
        "other",
    )  # fmt: skip


@contextmanager
def used(phase: Callable[[], str] = lambda: "") -> Iterator[Usage]:
    """Yield what is used within the block; `phase` names what runs at the moment.

    A process that begins and ends between two looks is missed, and the last quarter of a second of any other.
    """
    driver, usage, seen = psutil.Process(), Usage(), dict[tuple[int, float], float]()
    done = threading.Event()

    def look(*, first: bool = False) -> None:
        usage.driver_mb.append(driver.memory_info().rss / 2**20)
        for process in (driver, *driver.children(recursive=True)):
            try:
                times, key = process.cpu_times(), (process.pid, process.create_time())
                kind = kind_of(process)
            except psutil.NoSuchProcess:
                continue
            seconds = times.user + times.system
            if not first:
                usage.cpu_s[phase(), kind] += seconds - seen.get(key, 0.0)
            seen[key] = seconds

    def loop() -> None:
        while not done.wait(EVERY_S):
            look()

    look(first=True)
    thread = threading.Thread(target=loop, daemon=True)
    thread.start()
    try:
        yield usage
    finally:
        done.set()
        thread.join()
        look()
