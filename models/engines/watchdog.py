"""An engine that computes in this process, watched: one that falls silent is given up, whatever it is stuck in."""

from __future__ import annotations

import faulthandler
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from time import monotonic

from models.engines.base import Engine
from models.errors import EngineStalledError
from models.messages import Call, CallReply, Frames, Media

TOKEN_S = 2.0
LOOKS_A_PATIENCE = 10
LONGEST_PACE_S = 5.0
_STDERR = 2
STUCK_S = 60.0
"""Seconds after which the process ends without this thread: code that keeps Python's lock lets nobody else act."""


def response_timeout(patience_s: float, calls: Sequence[Call]) -> float:
    """Seconds that an engine may take to its next reply."""
    return patience_s + TOKEN_S * max((call.generation.max_new_tokens for call in calls), default=0)


class WatchdogEngine:
    """Hands calls on to an engine, and says when it has been silent for too long; see `models.engines.base.Engine`.

    Code that hangs in a library cannot be stopped from within its process: whoever is told ends the process.
    """

    def __init__(self, engine: Engine, patience_s: float, stalled: Callable[[EngineStalledError], object]) -> None:
        """Begin to watch.

        Args:
            engine: who answers.
            patience_s: of the model; see `models.spec.ModelSpec`.
            stalled: called once, in a thread of its own; it is expected not to return.
        """
        self._engine, self._patience_s, self._stalled = engine, patience_s, stalled
        self._deadline: float | None = None
        self._limit = 0.0
        self._closed = threading.Event()
        self._watch = threading.Thread(target=self._look, name="patience", daemon=True)
        self._watch.start()

    def generate(self, calls: Sequence[Call], media: Mapping[Media, Frames]) -> Iterator[CallReply]:
        """Yield the engine's replies; the time that the caller takes between two does not count."""
        self._limit = response_timeout(self._patience_s, calls)
        replies = self._engine.generate(calls, media)
        while True:
            self._deadline = monotonic() + self._limit
            try:
                reply = next(replies, None)
            finally:
                self._deadline = None
            if reply is None:
                return
            yield reply

    def close(self) -> None:
        """Watch no more, and close the engine."""
        self._closed.set()
        self._watch.join()
        faulthandler.cancel_dump_traceback_later()
        self._engine.close()

    def _look(self) -> None:
        pace = min(LONGEST_PACE_S, self._patience_s / LOOKS_A_PATIENCE)
        while not self._closed.wait(pace):
            # Put off at every look: it goes off where no Python can run at all, or where whoever was told fails.
            faulthandler.dump_traceback_later(max(self._limit, self._patience_s) + STUCK_S, exit=True, file=_STDERR)
            deadline = self._deadline
            if deadline is not None and monotonic() > deadline:
                self._stalled(EngineStalledError(f"no answer within {self._limit:g} s"))
                return
