"""The replicas of a model while they start; runs as an actor for the length of a job."""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from time import monotonic
from types import TracebackType
from typing import Any, Self

from models.gpu_memory import format_bytes

LoadProgress = tuple[str, float, float]
"""What is loaded, bytes loaded and bytes in all: see `models.engines.load_progress.Listener`."""


MAX_LOADS = 3  # failures of one replica to load, after which it is certain that no other is about to start
MAX_NODES = 3  # nodes on which loading fails for one reason before that is the model's fault


class ReplicaBoard:
    """Starts and load progress of replicas, and why none is to be started any more."""

    def __init__(self, replicas: int = 1) -> None:
        self._replicas = replicas
        self.started = 0
        self._running: set[str] = set()
        self._loads: set[str] = set()
        self._failed_loads: Counter[str] = Counter()
        self._failed_nodes: dict[str, set[str]] = {}
        self._progress: dict[str, LoadProgress] = {}
        self._given_up = ""
        self._max_rows: int | None = None

    def record_max_rows(self, rows: int) -> None:
        """Record the largest batch that may fit into memory, where one did not."""
        self._max_rows = min(rows, self._max_rows or rows)

    def max_rows(self) -> int | None:
        """Return the largest batch that may fit; None where all did."""
        return self._max_rows

    def begin_load(self, replica: str) -> str:
        """Record that a replica loads the model, again after its process died; return why it must not, else ''."""
        self._running.discard(replica)
        if not self._given_up:
            self._loads.add(replica)
        return self._given_up

    def record_failed_load(self, replica: str, node: str, reason: str) -> str:
        """Record that a replica could not load; return why the model is given up, '' where it is to try again.

        A model is given up if no replica runs and none is left to hope for, or if three nodes fail alike.
        """
        self._loads.discard(replica)
        self._failed_loads[replica] += 1
        nodes = self._failed_nodes.setdefault(reason, set())
        nodes.add(node)
        have_all_failed = len(self._failed_loads) >= self._replicas or self._failed_loads[replica] >= MAX_LOADS
        if not self._running and ((have_all_failed and not self._loads) or len(nodes) >= MAX_NODES):
            self.give_up(reason)
        return self._given_up

    def record_progress(self, replica: str, name: str, loaded: float, total: float) -> None:
        """Record how far the weights of a replica are loaded."""
        self._progress[replica] = (name, loaded, total)

    def record_start(self, replica: str) -> None:
        """Record that a replica has its engine."""
        self.started += 1
        self._running.add(replica)
        self._loads.discard(replica)
        self._failed_loads.pop(replica, None)

    def give_up(self, reason: str) -> None:
        """Record why no replica is to be started again."""
        self._given_up = reason

    @property
    def loading(self) -> int:
        """How many replicas load the model."""
        return len(self._loads)

    def progress(self) -> list[LoadProgress]:
        """Return the last progress of each replica that has loaded something."""
        return list(self._progress.values())


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
