"""Processes of a run, by /proc."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

__all__ = ["REPLICA", "command_of", "descendants", "ending", "named", "wait_until_gone"]

REPLICA = "MapBatches(EngineActor)"
"""In the command line of an engine replica."""


def descendants(pid: int) -> set[int]:
    """Return all descendants of a process."""
    try:
        return {child.pid for child in psutil.Process(pid).children(recursive=True)}
    except psutil.NoSuchProcess:
        return set()


def command_of(pid: int) -> str:
    """Return the command line of a process; '' after it has ended."""
    try:
        return Path("/proc", str(pid), "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def named(pid: int, text: str) -> list[int]:
    """Return the descendants of a process whose command line holds a text, oldest first."""
    return sorted(descendant for descendant in descendants(pid) if text in command_of(descendant))


@contextmanager
def ending(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Kill a process that is left when the block ends."""
    try:
        yield
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def wait_until_gone(pids: Iterable[int], seconds: float) -> None:
    """Wait until processes have ended; zombies count as ended."""
    remaining, deadline = list(pids), time.monotonic() + seconds
    while remaining := [pid for pid in remaining if command_of(pid)]:
        assert time.monotonic() < deadline, [command_of(pid) for pid in remaining]
        time.sleep(0.05)
