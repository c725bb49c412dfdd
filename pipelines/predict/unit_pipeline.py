"""The stages of a unit: load, answer, commit. Ray runs each where it belongs; who needs no isolation runs all."""

import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import cached_property, partial
from typing import Any

import pyarrow as pa

from models.engines import OnStall, build_engine
from models.engines.base import Engine, wanted_calls
from pipelines.media.recent_frames import FrameSource
from pipelines.plan.units import WorkUnit
from pipelines.predict.attempts import AttemptTracker
from pipelines.predict.loader import UNGUARDED, Loaded, MediaGuard
from pipelines.predict.metrics import count_answering, count_loading
from pipelines.predict.records import AnsweredUnit, Receipt, ReplicaSpan, TokenCounts, UnitLoader, UnitWork
from pipelines.predict.unit_runner import UnitRunner
from pipelines.schemas import PREDICTIONS, prediction_table
from pipelines.storage.errors import retry_store
from pipelines.storage.lock import check_lock
from pipelines.storage.parts import to_parquet
from pipelines.storage.store import Store

log = logging.getLogger(__name__)

LOGGED_FAILURES = 3
_TOKENS = ("input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens")
_COLUMNS = ("request_id", "task", "setting", "status", "error_type", "reserved_dollars", *_TOKENS)


class UnitPipeline:
    """Loads, answers and commits units of one job; each stage opens what it needs at its first unit."""

    def __init__(
        self,
        work: UnitWork,
        replica: str = "",
        *,
        frames: FrameSource | None = None,
        attempts: AttemptTracker | None = None,
        on_stall: OnStall | None = None,
        device: str = "",
    ) -> None:
        """Receipts carry `replica` and `device`.

        `attempts` outlives this process where an engine may end it, by `on_stall` too.
        """
        self._work, self._replica, self._device = work, replica, device
        self._frames, self._attempts, self._on_stall = frames, attempts or AttemptTracker(), on_stall
        self._timing, self._answering, self._since = threading.Lock(), 0, time.time()

    def run(self, unit: WorkUnit, exclusive_groups: Collection[str] = (), *, guard: MediaGuard = UNGUARDED) -> Receipt:
        """Run a unit through all stages, whose errors it may raise."""
        return self.commit(self.answer(self.load(unit, exclusive_groups, guard=guard)))

    def load(self, unit: WorkUnit, exclusive_groups: Collection[str] = (), *, guard: MediaGuard = UNGUARDED) -> Loaded:
        """Load a unit, as `Loader.load`, again after pauses while the store fails (StoreError)."""
        began = time.monotonic()
        loaded = retry_store(partial(self._loader.load, unit, exclusive_groups, guard=guard))
        count_loading(time.monotonic() - began)
        log.info("%d requests are loaded", unit.requests)
        return loaded

    def answer(self, loaded: Loaded, rows: list[dict[str, Any]] | None = None) -> AnsweredUnit:
        """Answer a loaded unit, as `UnitRunner.answer`: see there for errors; `rows` gets its rows one by one."""
        began = time.time()
        with self._timed():
            answered = self.runner.answer(loaded, rows)
        self._attempts.record_answered(loaded.unit.part)
        log.info("%d rows are answered in %.1f s", len(answered), time.time() - began)
        return self.answered(loaded.unit, answered, began)

    def answered(self, unit: WorkUnit, rows: Sequence[Mapping[str, Any]], began: float) -> AnsweredUnit:
        """Return what was answered of a unit since a time, in seconds since the epoch."""
        table = prediction_table([{"device": self._device or None, **row} for row in rows])
        span = ReplicaSpan(self._replica, began, time.time(), self._device)
        return AnsweredUnit(unit=unit, rows=table, span=span, warnings=self.engine.warnings)

    @contextmanager
    def _timed(self) -> Iterator[None]:
        """Count how long the engine answers, and how long it waits for a unit."""
        with self._timing:
            now = time.time()
            if not self._answering:
                count_answering(self._work.model, answered_s=0.0, waited_s=now - self._since)
                self._since = now
            self._answering += 1
        try:
            yield
        finally:
            with self._timing:
                self._answering -= 1
                now = time.time()
                if not self._answering:
                    count_answering(self._work.model, answered_s=now - self._since, waited_s=0.0)
                    self._since = now

    def commit(self, answered: AnsweredUnit, *, counted: int = 0) -> Receipt:
        """Commit an answered unit, as `Committer.commit`, again after pauses while the store fails.

        Raises:
            StoreError: the part could not be written.
            FencedError: the run has lost the lock of the output.
        """
        return retry_store(partial(self._committer.commit, answered, counted=counted))

    @property
    def wanted_calls(self) -> int:
        """How many open calls keep the engine busy: see `models.engines.base.wanted_calls`."""
        return wanted_calls(self.engine)

    @cached_property
    def engine(self) -> Engine:
        """The engine; EngineUnreachableError or MissingSecretError if it is unavailable."""
        engine = build_engine(self._work.model, self._work.spec, on_stall=self._on_stall)
        self._since = time.time()
        return engine

    @cached_property
    def runner(self) -> UnitRunner:
        """What sends the engine a unit's requests."""
        return UnitRunner(self.engine, self._attempts)

    @cached_property
    def _loader(self) -> UnitLoader:
        return self._work.loader.build(self._frames)

    @cached_property
    def _committer(self) -> "Committer":
        return Committer(self._work.out, self._work.lock_token)

    def close_engine(self) -> None:
        """End what the engine has opened, and its calls."""
        if opened := self.__dict__.get("engine"):
            opened.close()

    def close(self) -> None:
        """End the decoder's process, and what the engine has opened."""
        if loader := self.__dict__.get("_loader"):
            loader.close()
        self.close_engine()


class Committer:
    """Commits the rows of units."""

    def __init__(self, out: str, lock: str = "") -> None:
        self._out, self._lock = Store(out), lock

    def commit(self, answered: AnsweredUnit, *, counted: int = 0) -> Receipt:
        """Write the part of a unit, unless an earlier attempt has; FencedError if another run took over.

        A part of an unfinished unit has the same path: it is replaced when more is answered, and a run that is resumed
        keeps it and asks for the rest. An earlier receipt counts the first `counted` rows.
        """
        unit, rows = answered.unit, answered.rows
        if answered.fatal:
            return Receipt(part="", counts={}, fatal=answered.fatal)
        if not answered.is_committed:
            content = to_parquet(rows.sort_by("request_id"), PREDICTIONS)
            check_lock(self._out, self._lock)
            self._out.put(unit.part, content)
        new = _new_columns(unit, rows.slice(counted))
        endings = zip(new["request_id"], new["error_type"], new["status"], strict=True)
        failed = [(request_id, error_type or "") for request_id, error_type, status in endings if status == "error"]
        return Receipt(
            part=unit.part,
            counts=Counter(zip(new["task"], new["setting"], new["status"], strict=True)),
            tokens=TokenCounts(*(sum(filter(None, new[name])) for name in _TOKENS)),
            reserved_dollars=math.fsum(filter(None, new["reserved_dollars"])),
            failed=tuple(failed[:LOGGED_FAILURES]),
            warnings=answered.warnings,
            cost_limit_reached="cost_limit" in new["error_type"],
            **asdict(answered.span),
        )


def _new_columns(unit: WorkUnit, rows: pa.Table) -> dict[str, list[Any]]:
    """Return columns of the rows that are not kept from an earlier part."""
    rows = rows.select(_COLUMNS)
    if unit.retried:
        retried = set(unit.retried)
        rows = rows.filter(pa.array([request_id in retried for request_id in rows["request_id"].to_pylist()]))
    columns: dict[str, list[Any]] = rows.to_pydict()
    return columns
