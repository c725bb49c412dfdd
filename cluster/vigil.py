"""The processes of an embedded Ray on which all others hang, watched while it runs.

Without it a driver whose raylet or head is gone is ended by Ray's native code: after a minute, with 1 and in silence.
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

__all__ = ["watched"]

log = logging.getLogger(__name__)

LOOK_S = 0.5
VITAL = {"raylet": "raylet", "gcs_server": "head"}
"""Ray's own names of its processes, and what they are called here."""
ORDERLY, ORDERLY_S = (0, -signal.SIGTERM, -signal.SIGINT), 60.0
"""How Ray ends where the signal that ends this process went to all of its group: then this one is on its way too."""
_UNREACHABLE = 3


@contextmanager
def watched(folder: str) -> Iterator[None]:
    """For the length of a block, end this process with 3 when its embedded Ray is gone; the log says why.

    It ends where it stands: what is in flight hangs on the same Ray. What was committed is kept, as after a kill.

    Args:
        folder: of Ray's files, which is removed then.
    """
    import ray

    node = ray._private.worker._global_node  # noqa: SLF001  Ray tells of its processes nowhere else
    over = threading.Event()
    watch = threading.Thread(target=_watch, args=(node, folder, over), name="ray-vigil", daemon=True)
    watch.start()
    try:
        yield
    finally:
        over.set()
        watch.join()


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
