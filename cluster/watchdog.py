"""What a driver hangs on, watched while it runs: the processes of an embedded Ray, or the head of a cluster.

Without it a driver whose raylet or head is gone is ended by Ray's native code: after a minute, with 1 and in silence.
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic
from typing import Any

log = logging.getLogger(__name__)

LOOK_S = 0.5
VITAL = {"raylet": "raylet", "gcs_server": "head"}
"""Ray's own names of its processes, and what they are called here."""
ORDERLY, ORDERLY_S = (0, -signal.SIGTERM, -signal.SIGINT), 60.0
"""How Ray ends where the signal that ends this process went to all of its group: then this one is on its way too."""
KNOCK_EVERY_S = 5.0
AWAY_S = 45.0
"""A head may be away for so long; Ray ends its drivers after 60 s."""
_UNREACHABLE = 3


@contextmanager
def watch_embedded_ray(folder: str) -> Iterator[None]:
    """For the length of a block, end this process with 3 when its embedded Ray is gone; the log says why.

    It ends where it stands: what is in flight hangs on the same Ray. What was committed is kept, as after a kill.

    Args:
        folder: of Ray's files, which is removed then.
    """
    import ray

    node = ray._private.worker._global_node  # noqa: SLF001  Ray tells of its processes nowhere else
    with _beside(_watch, node, folder):
        yield


@contextmanager
def watch_head(address: str, knock: Callable[[str], None]) -> Iterator[None]:
    """For the length of a block, end this process with 3 when the head of its cluster stays away; the log says so.

    Args:
        address: of the head, `host:port`.
        knock: raises `RuntimeError` where nobody answers there.
    """
    with _beside(_watch_head, address, knock):
        yield


@contextmanager
def _beside(watch: Callable[..., None], *arguments: Any) -> Iterator[None]:
    over = threading.Event()
    thread = threading.Thread(target=watch, args=(*arguments, over), name="ray-vigil", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _watch(node: Any, folder: str, over: threading.Event) -> None:
    while not over.wait(LOOK_S):
        dead = [(VITAL[kind], process.returncode) for kind, process in node.dead_processes() if kind in VITAL]
        if dead:
            name, code = dead[0]
            if code in ORDERLY and over.wait(ORDERLY_S):
                return
            how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
            why = ", as for want of memory" if code == -signal.SIGKILL else ""
            log.error("Ray's %s has ended %s%s; the same command goes on from here", name, how, why)
            left = _below(os.getpid())
            node.kill_all_processes(check_alive=False)
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            shutil.rmtree(folder, ignore_errors=True)
            _end()


def _watch_head(address: str, knock: Callable[[str], None], over: threading.Event) -> None:
    if not _answers(knock, address):
        return  # the cluster was joined another way, and this address tells nothing
    last = monotonic()
    told = False
    while not over.wait(KNOCK_EVERY_S):
        if _answers(knock, address):
            last, told = monotonic(), False
        elif not told:
            log.warning("the cluster's head at %s is gone; if it stays away this run ends within a minute", address)
            told = True
        elif monotonic() - last > AWAY_S:
            log.error("the cluster's head stays away; the same command goes on from here once there is one")
            _end()


def _answers(knock: Callable[[str], None], address: str) -> bool:
    try:
        knock(address)
    except RuntimeError:
        return False
    return True


def _end() -> None:
    logging.shutdown()
    sys.stdout.flush()
    os._exit(_UNREACHABLE)


def _below(pid: int) -> set[int]:
    """Processes below one: agents would wait a minute for a head that is gone."""
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended since
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    found: set[int] = set()
    while more := {child for child, parent in parents.items() if parent in found | {pid}} - found:
        found |= more
    return found
