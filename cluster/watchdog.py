"""Watch what a driver depends on: the processes of an embedded Ray, or the head of a cluster.

Without it Ray's native code ends a driver whose raylet or head is gone: after a minute, with 1 and without a message.
"""

import contextlib
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from time import monotonic
from typing import Any

import psutil

from cluster.errors import ClusterError
from models.scratch import remove_locked

log = logging.getLogger(__name__)

POLL_S = 0.5
VITAL = {"raylet": "raylet", "gcs_server": "head"}  # Ray's names of its vital processes, and their names in messages
SHUTDOWN_CODES, SHUTDOWN_S = (0, -signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP), 60.0
"""Return codes of Ray where a signal went to the whole process group: then this process is ending as well."""
PING_EVERY_S = 5.0
MAX_ABSENCE_S = 45.0  # longest absence of a head; Ray ends its drivers after 60 s
_UNREACHABLE = 3


@contextmanager
def watch_embedded_ray() -> Iterator[None]:
    """End this process with 3 if its embedded Ray dies within the block; log why, and remove temporary folders.

    It ends at once: requests in flight depend on the same Ray. Committed rows are kept.
    """
    children = psutil.Process().children()
    with _in_thread(_watch, {VITAL[name]: child for child in children if (name := child.name()) in VITAL}):
        yield


@contextmanager
def watch_head(address: str, ping: Callable[[str], None]) -> Iterator[None]:
    """End this process with 3 if the head at `host:port` stays unreachable (`ping` raises) within the block; log it."""
    with _in_thread(_watch_head, address, ping):
        yield


@contextmanager
def _in_thread(watch: Callable[..., None], *arguments: Any) -> Iterator[None]:
    stop = threading.Event()
    thread = threading.Thread(target=watch, args=(*arguments, stop), name="ray-watchdog", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def kill_descendants(pid: int, argument: str = "") -> None:
    """Kill the descendants of a process; with an argument, those started with it and theirs."""
    with contextlib.suppress(psutil.NoSuchProcess):
        for descendant in psutil.Process(pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                if not argument:
                    descendant.kill()
                elif any(argument in text for text in descendant.cmdline()):
                    kill_descendants(descendant.pid)
                    descendant.kill()


def has_descendant(name: str, argument: str) -> bool:
    """Return whether this process has a living descendant with a program's name and an argument."""
    with contextlib.suppress(psutil.NoSuchProcess):
        for descendant in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                program, *arguments = descendant.cmdline() or [""]
                if program.endswith(name) and any(argument in text for text in arguments):
                    return True
    return False


def _watch(processes: Mapping[str, psutil.Process], stop: threading.Event) -> None:
    while not stop.wait(POLL_S):
        for name, process in processes.items():
            try:
                code = process.wait(0)
            except psutil.TimeoutExpired:
                continue
            if code in SHUTDOWN_CODES and stop.wait(SHUTDOWN_S):
                return
            end = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
            hint = ", possibly out of memory" if code == -signal.SIGKILL else ""
            log.error("Ray's %s %s%s. Run the same command again to resume.", name, end, hint)
            kill_descendants(os.getpid())
            remove_locked()
            _exit()


def _watch_head(address: str, ping: Callable[[str], None], stop: threading.Event) -> None:
    if not _answers(ping, address):
        return  # the cluster was joined another way, and this address says nothing about it
    last_answer = monotonic()
    is_reported = False
    while not stop.wait(PING_EVERY_S):
        if _answers(ping, address):
            last_answer, is_reported = monotonic(), False
        elif not is_reported:
            log.warning(
                "the cluster's head at %s does not answer; if it stays unreachable this run ends within a minute",
                address,
            )
            is_reported = True
        elif monotonic() - last_answer > MAX_ABSENCE_S:
            log.error("the cluster's head stays unreachable. Run the same command again once it is up to resume.")
            _exit()


def _answers(ping: Callable[[str], None], address: str) -> bool:
    try:
        ping(address)
    except ClusterError:
        return False
    return True


def _exit() -> None:
    logging.shutdown()
    sys.stdout.flush()
    os._exit(_UNREACHABLE)
