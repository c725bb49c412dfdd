"""End a child process with its parent, however that ends: an orphan would keep the memory of a GPU."""

import ctypes
import os
import signal
import sys
import threading
from multiprocessing import connection, parent_process

_PR_SET_PDEATHSIG = 1


def exit_with_parent() -> None:
    """End with the parent, by the kernel where possible and by a thread; do nothing in a process that has none.

    A plugin of vLLM too (`vllm.general_plugins` in pyproject.toml), which its engine and workers call at their start.
    """
    parent = parent_process()
    if parent is None:
        return
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)

    def watch() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, name="parent-watch", daemon=True).start()
