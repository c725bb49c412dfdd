"""The remote parts of a run: thin shells over `work` that load, answer and commit one row of Ray Data each."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from typing import Any

from models.spec import ModelSpec
from pipelines.errors import StoreError
from pipelines.logging_context import worker_log_context
from pipelines.media.frame_cache import SharedFrameCache
from pipelines.plan.units import MAX_UNIT_REQUESTS, WorkUnit
from pipelines.predict.attempts import RemoteAttempts
from pipelines.predict.metrics import count_answering, count_loading
from pipelines.predict.records import LoaderSpec
from pipelines.ray_data import carry_errors
from pipelines.storage.store import Store

log = logging.getLogger(__name__)

PAUSES_S = (1.0, 2.0, 4.0)
AWAY_S = (8.0, 16.0, 32.0, 60.0, 60.0)
"""Pauses before a store is asked again; the later ones only where it is away or overloaded, not where it refuses."""
MOST_DEATHS = 6
"""Deaths of engines in a row, with nothing answered between them, after which a model is given up."""
LOAD_DEATHS = 3
"""Deaths of processes in a row at one unit while they loaded it, after which its media are called unreadable."""
DIED = 13
"""Exit code of a replica whose engine died under it."""

Lines = Mapping[str, str] | None
"""What log lines carry (`lines.fields_for_workers`); None: they stay as Ray has them."""


@lru_cache(maxsize=2)
def _loader(spec: LoaderSpec, keeper: Any) -> Any:
    """One loader a worker process: its decoder and its last shards stay warm between units."""
    return spec.build(SharedFrameCache(keeper))


@carry_errors
def load_units(batch: Any, spec: LoaderSpec, keeper: Any, ledger: Any, lines: Lines = None) -> Any:
    """Load the units that go to one replica together; Ray calls this again, elsewhere, when its process dies.

    Raises:
        StoreError: data could not be fetched, after pauses and further tries.
    """
    from pipelines.predict.serialization import pack_units

    began = time.monotonic()
    units = [WorkUnit.from_dict(raw) for raw in json.loads(batch["units"][0].as_py())]
    alone = frozenset(json.loads(batch["alone"][0].as_py()))
    loader = _loader(spec, keeper)
    convoy = []
    for unit in units:
        with worker_log_context(lines, part=unit.part):
            convoy.append(_load(unit, loader, alone, ledger))
    packed = pack_units(convoy)
    count_loading(time.monotonic() - began)
    return packed


def _load(unit: WorkUnit, loader: Any, alone: frozenset[str], ledger: Any) -> Any:
    """One unit; without its media where they have cost several processes their lives, as for want of memory."""
    import ray

    deaths = ray.get(ledger.begin_loading.remote(unit.part))
    if deaths:
        log.warning("processes died %d times while they loaded this", deaths)
    try:
        loaded = _retry_store(partial(loader.load, unit, alone, skip_media=deaths >= LOAD_DEATHS))
        log.info("%d requests are loaded", unit.requests)
        return loaded
    finally:
        ledger.loaded.remote(unit.part)


@carry_errors
def commit_units(batch: Any, out: str, lock: str, lines: Lines = None) -> Any:
    """Write each unit's rows as a part of its own; what is handed on are their receipts, as JSON in one row.

    Raises:
        StoreError: one could not be written, after pauses and further tries.
        FencedError: the run does not hold the output any more.
    """
    import pyarrow as pa

    from pipelines.predict.commit import Committer, first_failures, new_tokens
    from pipelines.predict.serialization import unpack_answers

    receipts = []
    committer = Committer(out, lock)
    for one in unpack_answers(batch):
        receipt: dict[str, Any] = {"part": "", "fatal": one.fatal, "counts": [], "tokens": [0, 0, 0], "broke": False}
        receipt["failed"] = []
        if not one.fatal:
            receipt["part"] = one.unit.part
            receipt["span"] = [one.span.replica, one.span.began, one.span.ended]
            if not one.is_committed:
                with worker_log_context(lines, part=one.unit.part):
                    receipt["counts"] = _retry_store(partial(committer.commit, one.unit, one.rows))
                receipt["tokens"] = new_tokens(one.unit, one.rows)
                receipt["failed"] = first_failures(one.rows)
                receipt["broke"] = "cost_limit" in one.rows["error_type"].to_pylist()
        receipts.append(receipt)
    return pa.table({"receipts": [json.dumps(receipts)]})


def _retry_store(action: Callable[[], Any]) -> Any:
    """Do it, again after a pause when the store fails: slow and throttled stores pass, a missing one is told."""
    for pause in (*PAUSES_S, *AWAY_S):
        try:
            return action()
        except StoreError as error:
            if pause in AWAY_S and not error.is_transient:
                raise
            log.info("asked again in %g s: %s", pause, error)
            time.sleep(pause)
    return action()


class EngineActor:
    """One engine in one actor. A model that cannot be had is reported as a row, so that the reason reaches the user."""

    def __init__(self, model: str, spec: ModelSpec, ledger: Any, out: str, lines: Lines = None) -> None:
        import ray

        from models.engines import build_engine
        from models.engines.load_progress import progress_listener
        from models.engines.watchdog import WatchdogEngine
        from models.errors import EngineUnreachableError, MissingSecretError
        from pipelines.predict.unit_runner import UnitRunner

        self._bug: Exception | None = None
        self._fatal, self._model, self._lines = "", model, lines
        self._ledger, self._out = ledger, Store(out)
        self._name = str(ray.get_runtime_context().get_actor_id())
        self._fatal = ray.get(ledger.given_up.remote())
        if self._fatal:
            return
        try:
            with progress_listener(partial(ledger.loading.remote, self._name)), worker_log_context(lines):
                engine = build_engine(model, spec)
                log.info("the engine is loaded")
            ledger.started.remote(engine.warnings)
            if not engine.has_own_timeout:
                engine = WatchdogEngine(engine, spec.stall_timeout_s, self._end_from_aside)
            self._answerer = UnitRunner(engine, RemoteAttempts(ledger))
            self._free_since = time.time()
        except (EngineUnreachableError, MissingSecretError) as error:
            self._fatal = str(error)
        except Exception as error:  # noqa: BLE001  raised by the first call: Ray would start the replica again
            self._bug = error

    @carry_errors
    def __call__(self, batch: Any) -> Iterator[Any]:
        """Answer the units of a convoy one after the other.

        Small ones go on to their commit together. Which ones must hang on nothing but their sizes: when a replica dies,
        Ray calls another with the same convoy and drops as many rows from the front as have come already.
        """
        from pipelines.predict.serialization import AnsweredUnit, pack_answers, unpack_units

        if self._bug:
            raise self._bug
        many = len(batch["units"].chunk(0)[0].values) > 1
        held: list[AnsweredUnit] = []
        for loaded in unpack_units(batch):
            if held and sum(one.unit.requests for one in held) + loaded.unit.requests > MAX_UNIT_REQUESTS:
                yield pack_answers(held)
                held = []
            with worker_log_context(self._lines, part=loaded.unit.part):
                held.append(self._answered(loaded, many=many))
        yield pack_answers(held)

    def _answered(self, loaded: Any, *, many: bool) -> Any:
        from models.errors import EngineDiedError, EngineUnreachableError
        from pipelines.predict.serialization import AnsweredUnit, ReplicaSpan, to_table

        began = time.time()
        unit = loaded.unit
        if many and not unit.retried and self._committed(unit.part):
            return AnsweredUnit(unit=unit, is_committed=True)
        if not self._fatal:
            try:
                rows = self._answerer.answer(loaded)
            except EngineUnreachableError as error:
                self._fatal = str(error)
            except EngineDiedError as error:
                self._fatal = self._end(error)
            else:
                self._ledger.answered.remote(unit.part)
                ended = time.time()
                count_answering(self._model, answered_s=ended - began, waited_s=began - self._free_since)
                self._free_since = ended
                log.info("%d rows are answered in %.1f s", len(rows), ended - began)
                return AnsweredUnit(unit=unit, rows=to_table(rows), span=ReplicaSpan(self._name, began, ended))
        return AnsweredUnit(unit=unit, fatal=self._fatal)

    def _committed(self, part: str) -> bool:
        """Whether this unit was answered and stored before a replica died at a later one of its convoy."""
        import ray

        return ray.get(self._ledger.was_answered.remote(part)) and bool(_retry_store(partial(self._out.exists, part)))

    def _end_from_aside(self, error: Exception) -> None:
        """End this process from another thread than the one that is stuck in the engine."""
        import ray

        self._answerer.stalled()
        ray.get(self._ledger.give_up.remote(self._end(error)))
        os._exit(DIED)

    def _end(self, error: Exception) -> str:
        """End this process, so that Ray makes the replica anew and begins its unit again; or why that is no use."""
        import ray

        deaths = ray.get(self._ledger.died.remote())
        if deaths >= MOST_DEATHS:
            return f"its processes died {deaths} times in a row with nothing answered; the last time: {error}"
        part, request_id = self._answerer.in_hand
        with worker_log_context(self._lines, part=part, request_id=request_id):
            log.warning("%s; the replica is started again", error)
        os._exit(DIED)
