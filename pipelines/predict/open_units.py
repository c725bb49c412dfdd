"""Units that one engine answers at the same time: what is answered of them is committed every 30 s, and at the end."""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from time import monotonic, time
from typing import Any, TypeVar

from cluster.errors import RunCancelledError
from cluster.threads import run_in_thread
from pipelines.errors import PipelineError
from pipelines.logging_context import log_context
from pipelines.predict.loader import Loaded
from pipelines.predict.records import AnsweredUnit, Receipt
from pipelines.predict.unit_pipeline import UnitPipeline

log = logging.getLogger(__name__)

SAVE_AFTER_S = 30.0  # an answer waits no longer for the rest of its unit before it is committed
MAX_OPEN_BYTES = 1 << 30  # decoded pixels of units that are answered at the same time, if there are several
END_S = 10.0  # for threads whose engine was closed

T = TypeVar("T")


@dataclass(slots=True)
class _OpenUnit:
    loaded: Loaded
    rows: list[dict[str, Any]] = field(default_factory=list)  # answered so far; the thread that answers appends
    began: float = field(default_factory=time)
    saved: int = 0  # how many of them are committed and counted by a receipt
    saved_at: float = field(default_factory=monotonic)
    lock: threading.Lock = field(default_factory=threading.Lock)  # held while rows are committed
    is_ended: bool = False

    @property
    def media_bytes(self) -> int:
        return sum(frames.pixels.nbytes for frames in self.loaded.media.values())


class OpenUnits:
    """Answers units of a pipeline, each in a thread: as many at once as its engine wants calls, or one."""

    def __init__(self, pipeline: UnitPipeline, on_saved: Callable[[Receipt], None] = lambda _: None) -> None:
        """`on_saved` is called when answers of unfinished units are committed."""
        self._pipeline, self._on_saved = pipeline, on_saved
        self._open: dict[Future[Any], _OpenUnit] = {}
        self._failed: list[_OpenUnit] = []  # whose answering ended by an exception
        self._changed = threading.Condition()
        self._is_alone = False

    def start(self, loaded: Loaded, finish: Callable[[AnsweredUnit, int], T], *, is_alone: bool = False) -> Future[T]:
        """Begin to answer a unit for which there is room; then call `finish` in its thread, and return the result.

        Second comes how many rows of the unit are committed and counted. A unit that `is_alone` has room when no other
        is open, and leaves none.
        """
        unit = _OpenUnit(loaded)
        _ = self._pipeline.runner  # with the engine, before several threads ask for it
        with log_context(part=loaded.unit.part), self._changed:
            future = run_in_thread("answer", self._answer, unit, finish)
            self._open[future] = unit
            self._is_alone = is_alone
        future.add_done_callback(self._remove)
        return future

    def wait(self, condition: Callable[[], bool], timeout: float) -> bool:
        """Wait until a condition holds, which is looked at when a unit ends and at the end; return whether it does."""
        with self._changed:
            return self._changed.wait_for(condition, timeout)

    def has_room(self, *, is_alone: bool = False) -> bool:
        """Return whether another unit is to be answered beside those that are open."""
        units = [*self._open.values()]
        calls = sum(len(unit.loaded.requests) - max(0, len(unit.rows) - len(unit.loaded.ready)) for unit in units)
        fits = calls < self._pipeline.wanted_calls and sum(unit.media_bytes for unit in units) < MAX_OPEN_BYTES
        return not units or (fits and not is_alone and not self._is_alone)

    @property
    def is_empty(self) -> bool:
        """Return whether no unit is open."""
        return not self._open

    def save(self, *, after_s: float | None = None) -> None:
        """Commit the answers of unfinished units whose last commit is so long ago, if there are new ones."""
        for unit in [*self._open.values(), *self._failed]:
            if monotonic() - unit.saved_at < (SAVE_AFTER_S if after_s is None else after_s):
                continue
            with unit.lock:
                unit.saved_at = monotonic()
                rows = list(unit.rows)
                if unit.is_ended or len(rows) <= max(unit.saved, len(unit.loaded.ready)):
                    continue
                answered = self._pipeline.answered(unit.loaded.unit, rows, unit.began)
                receipt = self._pipeline.commit(answered, counted=unit.saved)
                unit.saved = len(rows)
                self._on_saved(receipt)

    def give_up(self) -> None:
        """End the engine's calls, and commit what is answered: each answer of an endpoint was paid for."""
        self._pipeline.close_engine()
        self.wait(lambda: not self._open, END_S)
        try:
            self.save(after_s=0.0)
        except (RunCancelledError, PipelineError):  # the run ends by what happened first
            log.exception("what was answered of a unit last is not stored")

    def _answer(self, unit: _OpenUnit, finish: Callable[[AnsweredUnit, int], T]) -> T:
        try:
            answered = self._pipeline.answer(unit.loaded, unit.rows)
        except BaseException:
            self._failed.append(unit)
            raise
        with unit.lock:  # no commit of fewer rows is under way now, and none comes later
            unit.is_ended = True
            return finish(answered, unit.saved)

    def _remove(self, future: Future[Any]) -> None:
        with self._changed:
            self._open.pop(future, None)
            self._is_alone &= bool(self._open)
            self._changed.notify_all()
