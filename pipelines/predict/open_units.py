"""Units that one engine answers at the same time: what is answered of them is committed every 30 s, and at the end."""

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from time import monotonic, time
from types import TracebackType
from typing import Any, Self, TypeVar

from cluster.errors import RunCancelledError
from cluster.threads import run_in_thread
from pipelines.errors import PipelineError
from pipelines.logging_context import log_context
from pipelines.predict.loader import Loaded
from pipelines.predict.records import Receipt
from pipelines.predict.unit_pipeline import UnitPipeline

log = logging.getLogger(__name__)

SAVE_AFTER_S = 30.0  # an answer waits no longer for the rest of its unit before it is committed
MAX_OPEN_BYTES = 1 << 30  # decoded pixels of units that are answered at the same time, if there are several
LOOK_S = 0.2
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
    """Answers units of a pipeline, each in a thread, as many at once as its engine wants calls.

    At the end of the block all units are answered. If it ends by an exception, what is answered is committed first.
    """

    def __init__(
        self, pipeline: UnitPipeline, on_receipt: Callable[[Receipt], None], is_stopped: Callable[[], bool]
    ) -> None:
        self._pipeline, self._on_receipt, self._is_stopped = pipeline, on_receipt, is_stopped
        self._open: dict[Future[None], _OpenUnit] = {}
        self._changed = threading.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self._wait_until(lambda: not self._open)
        except BaseException:
            self._give_up()
            raise
        if error is not None:
            self._give_up()

    def add(self, loaded: Loaded) -> None:
        """Answer a unit, and wait until there is room for another; raise what the answering of any unit raised."""
        unit = _OpenUnit(loaded)
        _ = self._pipeline.runner  # with the engine, before several threads ask for it
        with log_context(part=loaded.unit.part):
            future = run_in_thread("answer", self._answer, unit)
        self._open[future] = unit
        future.add_done_callback(lambda _: self._changed.set())
        self._wait_until(self._has_room)

    def result(self, future: Future[T]) -> T:
        """Return the result of a future, while answers are committed in time."""
        future.add_done_callback(lambda _: self._changed.set())
        self._wait_until(future.done)
        return future.result()

    def _has_room(self) -> bool:
        units = self._open.values()
        calls = sum(len(unit.loaded.requests) - max(0, len(unit.rows) - len(unit.loaded.ready)) for unit in units)
        has_memory = not units or sum(unit.media_bytes for unit in units) < MAX_OPEN_BYTES
        return not units or (calls < self._pipeline.wanted_calls and has_memory)

    def _wait_until(self, condition: Callable[[], bool]) -> None:
        while True:
            self._changed.clear()
            for future in [future for future in self._open if future.done()]:
                future.result()
                del self._open[future]
            if condition():
                return
            if self._is_stopped():
                raise RunCancelledError("another replica has ended the run")
            self._save([unit for unit in self._open.values() if monotonic() - unit.saved_at >= SAVE_AFTER_S])
            self._changed.wait(LOOK_S)

    def _answer(self, unit: _OpenUnit) -> None:
        answered = self._pipeline.answer(unit.loaded, unit.rows)
        with unit.lock:
            unit.is_ended = True
            self._on_receipt(self._pipeline.commit(answered, counted=unit.saved))

    def _save(self, units: Sequence[_OpenUnit]) -> None:
        """Commit the answers of unfinished units that are not committed yet."""
        for unit in units:
            with unit.lock:
                unit.saved_at = monotonic()
                rows = list(unit.rows)
                if unit.is_ended or len(rows) <= max(unit.saved, len(unit.loaded.ready)):
                    continue
                answered = self._pipeline.answered(unit.loaded.unit, rows, unit.began)
                receipt = self._pipeline.commit(answered, counted=unit.saved)
                unit.saved = len(rows)
                self._on_receipt(receipt)

    def _give_up(self) -> None:
        """End the engine's calls, and commit what is answered: each answer of an endpoint was paid for."""
        self._pipeline.close_engine()
        deadline = monotonic() + END_S
        for future in self._open:
            self._changed.clear()
            while not future.done() and monotonic() < deadline:
                self._changed.wait(LOOK_S)
        for unit in self._open.values():
            try:
                self._save([unit])
            except (RunCancelledError, PipelineError):  # the run ends by what happened first
                log.exception("what was answered of a unit last is not stored")
