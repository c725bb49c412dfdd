"""A watchdog around an engine that computes in this process: one that stalls is abandoned, wherever it hangs."""

import faulthandler
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from time import monotonic

from models.engines.base import Engine, EngineWrapper
from models.errors import EngineStalledError
from models.messages import Call, CallReply, Frames, Media

TOKEN_S = 2.0  # seconds added for each token that an answer may have
CHECKS_PER_TIMEOUT = 10
LONGEST_CHECK_INTERVAL_S = 5.0
STUCK_S = 60.0  # after these the process ends without this thread, which cannot run while code keeps Python's lock
_STDERR = 2


def response_timeout(stall_timeout_s: float, calls: Sequence[Call]) -> float:
    """Return the seconds that an engine may take to its next reply."""
    return stall_timeout_s + TOKEN_S * max((call.generation.max_new_tokens for call in calls), default=0)


class WatchdogEngine(EngineWrapper):
    """Forwards calls to an engine; on a stall, `on_stall`, called once in its own thread, ends the process."""

    has_own_timeout = True

    def __init__(
        self, engine: Engine, stall_timeout_s: float, on_stall: Callable[[EngineStalledError], object]
    ) -> None:
        super().__init__(engine)
        self._stall_timeout_s, self._on_stall = stall_timeout_s, on_stall
        self._limits: dict[int, float] = {}  # seconds to the next reply, by thread that waits for one
        self._deadline = 0.0
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="engine-watchdog", daemon=True)
        self._thread.start()

    def generate(self, calls: Sequence[Call], media: Mapping[Media, Frames]) -> Iterator[CallReply]:
        """Yield the engine's replies; the time that the caller takes between two does not count.

        Several threads may wait: the engine has stalled if none of them gets a reply.
        """
        limit, thread = response_timeout(self._stall_timeout_s, calls), threading.get_ident()
        replies = self.engine.generate(calls, media)
        while True:
            self._limits[thread] = limit
            self._deadline = monotonic() + max(self._limits.values())
            try:
                reply = next(replies, None)
            finally:
                del self._limits[thread]
            if reply is None:
                return
            yield reply

    def close(self) -> None:
        """Stop watching, and close the engine."""
        self._closed.set()
        self._thread.join()
        faulthandler.cancel_dump_traceback_later()
        super().close()

    def _watch(self) -> None:
        interval = min(LONGEST_CHECK_INTERVAL_S, self._stall_timeout_s / CHECKS_PER_TIMEOUT)
        while not self._closed.wait(interval):
            limits = [*self._limits.values()]
            limit = max(limits, default=self._stall_timeout_s)
            # Renewed at every check: it fires where no Python can run at all, or where the callback fails.
            faulthandler.dump_traceback_later(limit + STUCK_S, exit=True, file=_STDERR)
            if limits and monotonic() > self._deadline:
                self._on_stall(EngineStalledError(f"no answer within {limit:g} s"))
                return
