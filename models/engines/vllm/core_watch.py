"""A watch over vLLM's engine process, whose death vLLM 0.32 notes without ending the wait for its answers.

It looks at two attributes of vLLM's client for an engine in a process of its own. Where a version has others, nothing
is watched, and the wait ends with the `stall_timeout_s` of the model's entry.
"""

import threading
from typing import Any

from models.errors import EngineDiedError

INTERVAL_S = 1.0


class CoreWatch:
    """Ends the wait for an engine process that is gone, from a thread of its own."""

    def __init__(self, llm: Any, interval_s: float = INTERVAL_S) -> None:
        """Watch the engine of a `vllm.LLM`; one that runs in this process needs no watch."""
        core = getattr(getattr(llm, "llm_engine", None), "engine_core", None)
        self._resources: Any = getattr(core, "resources", None)
        self._outputs: Any = getattr(core, "outputs_queue", None)
        self._interval_s = interval_s
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="vllm-core-watch", daemon=True)
        if hasattr(self._resources, "engine_dead") and self._outputs is not None:
            self._thread.start()

    def close(self) -> None:
        """Stop watching, before vLLM is shut down."""
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join()

    def _watch(self) -> None:
        while not self._closed.wait(self._interval_s):
            if self._resources.engine_dead:
                self._outputs.put(EngineDiedError("its process ended"))
                return
