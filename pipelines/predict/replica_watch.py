"""Sentences on replicas before a unit is committed: how far weights are loaded, and how many rows are answered."""

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from time import monotonic
from types import TracebackType
from typing import Any, Self

from models.gpu_memory import format_bytes
from pipelines.predict.replica_board import LoadProgress

log = logging.getLogger(__name__)

CHECK_S = 2.0  # seconds between looks at the board
WAIT_S = 60.0  # seconds without any progress after which a line says what a replica needs
BOARD_TIMEOUT_S = 10
MIN_BYTES = 0.1e9  # smaller weights are loaded at once
_GB = 1e9
STARTING = "the model's process starts"
LOADING = "the model's process imports its engine and loads the weights"
FIRST_REQUESTS = "the first requests are being answered"


@dataclass
class ReplicaWatch:
    """A thread that notes how the replicas of a model start and answer, for the length of a block."""

    model: str
    demand: Mapping[str, float]  # Ray's resources for one replica
    job_actor: Any  # holds the job's `JobState`
    note: Callable[[str], None]
    _ended: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._watch, name="vlmsweep-replicas", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._thread:  # Ray's native code ends a process where a thread asks it while it shuts down
            self._thread.join(BOARD_TIMEOUT_S)

    def _watch(self) -> None:
        import ray

        began = monotonic()
        first_seen: dict[str, tuple[float, float]] = {}  # weights -> when, and bytes loaded by then
        has_logged_wait, has_answered = False, False
        text = ""
        while not self._ended.wait(CHECK_S):
            try:
                loading, started, rows, loads = ray.get(self.job_actor.board.remote(), timeout=BOARD_TIMEOUT_S)
            except (ray.exceptions.RayError, SystemExit):  # the latter where Ray ends while it is asked
                continue  # the board is as busy as its machine; when it is gone, so is this block
            if started:
                has_answered = has_answered or rows > 0
                text = self._note(rows_note(rows) if has_answered else FIRST_REQUESTS, text)
                continue
            now = monotonic()
            slowest = min((load for load in loads if load[2] >= MIN_BYTES), key=lambda load: load[1], default=None)
            if slowest:
                since = first_seen.setdefault(slowest[0], (now, slowest[1]))
                text = self._note(format_load_progress(slowest, since=since, now=now, count=len(loads)), text)
            else:
                text = self._note(LOADING if loading else STARTING, text)
            if not loading and not has_logged_wait and now - began > WAIT_S:
                has_logged_wait = True
                self._log_demand()

    def _note(self, text: str, previous: str) -> str:
        if text != previous and not self._ended.is_set():
            self.note(text)
        return text

    def _log_demand(self) -> None:
        import ray

        free = ray.available_resources()
        log.warning(
            "model %r: no process has started yet: it needs %s, and %s are free; it waits for others to finish",
            self.model,
            ", ".join(f"{amount:g} {name}" for name, amount in self.demand.items()),
            ", ".join(f"{free.get(name, 0):g} {name}" for name in self.demand),
        )


def rows_note(rows: int) -> str:
    """Return how many rows are answered of units that are not committed; '' for none."""
    return f"{rows} rows answered of units that are not stored yet" if rows else ""


def format_load_progress(load: LoadProgress, *, since: tuple[float, float], now: float, count: int = 1) -> str:
    """Format a line about loading weights: how much is loaded, how fast, and how long the rest takes.

    `since` is an earlier time in seconds and the bytes loaded by then; the line is about the slowest of `count`
    replicas.
    """
    name, loaded, total = load
    seconds, new_bytes = now - since[0], loaded - since[1]
    rate = f", {format_bytes(new_bytes / seconds)}/s" if seconds > 0 and new_bytes > 0 else ""
    remaining = f", {(total - loaded) * seconds / new_bytes:.0f} s left" if rate and loaded < total else ""
    concurrent = f" ({count} replicas load)" if count > 1 else ""
    return f"{name} weights, {loaded / _GB:.2f} of {total / _GB:.2f} GB{rate}{remaining}{concurrent}"
