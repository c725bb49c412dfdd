"""The remote parts of a run: load, answer and commit one row of Ray Data each."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from typing import Any, TypeVar

from models.spec import ModelSpec
from pipelines.logging_context import worker_log_context
from pipelines.media.frame_cache import SharedFrameCache
from pipelines.plan.units import MAX_UNIT_REQUESTS, WorkUnit
from pipelines.predict.in_process import LocalRunner, LocalWork
from pipelines.predict.job_actor import RemoteObject
from pipelines.predict.loader import Loaded
from pipelines.predict.media_guard import MediaGuard
from pipelines.predict.metrics import count_answering, count_loading
from pipelines.predict.records import LoaderSpec
from pipelines.predict.replica_board import ReplicaBoard
from pipelines.predict.serialization import (
    pack_answers,
    pack_receipts,
    pack_units,
    unpack_answers,
    unpack_batch,
    unpack_units,
)
from pipelines.ray_data import carry_errors
from pipelines.storage.retry import retry_store
from pipelines.storage.store import Store

T = TypeVar("T")

log = logging.getLogger(__name__)

MAX_ENGINE_DEATHS = 6
"""Consecutive deaths of engines, with nothing answered between them, after which a model is given up."""
MAX_LOADER_DEATHS = 9
"""Consecutive deaths of processes while they loaded a unit, after which all its media are called unreadable: one death
of all units of a batch together, and two at each of four media."""
ENGINE_DIED = 13
"""Exit code of a replica whose engine died."""

LogFields = Mapping[str, str] | None
"""Fields of log lines (`logging_context.fields_for_workers`); None leaves Ray's own form."""


@lru_cache(maxsize=2)
def _loader(spec: LoaderSpec, job_actor: Any) -> Any:
    """Build one loader a worker process: its decoder and last plan parts are reused between units."""
    return spec.build(SharedFrameCache(RemoteObject(job_actor, "frame_cache")))


@lru_cache(maxsize=2)
def _local_runner(work: LocalWork, job_actor: Any) -> LocalRunner:
    """Build one runner a worker process, as `_loader`."""
    import ray

    frames = SharedFrameCache(RemoteObject(job_actor, "frame_cache"))
    return LocalRunner(work, str(ray.get_runtime_context().get_worker_id()), frames)


@carry_errors
def load_units(batch: Any, spec: LoaderSpec, job_actor: Any, log_fields: LogFields = None) -> Any:
    """Load a batch of units; Ray calls this again elsewhere when its process dies."""
    began = time.monotonic()
    loader = _loader(spec, job_actor)

    def load(unit: WorkUnit, exclusive_groups: frozenset[str], *, guard: MediaGuard) -> Loaded:
        loaded: Loaded = retry_store(partial(loader.load, unit, exclusive_groups, guard=guard))
        log.info("%d requests are loaded", unit.requests)
        return loaded

    packed = pack_units(_for_each(batch, load, job_actor, log_fields))
    count_loading(time.monotonic() - began)
    return packed


@carry_errors
def answer_units(batch: Any, work: LocalWork, job_actor: Any, log_fields: LogFields = None) -> Any:
    """Load, answer and commit a batch of units in one task; return receipts as `commit_units`, which see for errors.

    When its process dies, Ray calls this again elsewhere: parts that were written are written again.
    """
    return pack_receipts(_for_each(batch, _local_runner(work, job_actor).run, job_actor, log_fields))


def _for_each(batch: Any, function: Callable[..., T], job_actor: Any, log_fields: LogFields) -> list[T]:
    """Call a function that loads with each unit of a batch, its exclusive media groups and its guard of media.

    After a death units are loaded one by one, and media of those that may be its cause are recorded before they are
    decoded, so that one that kills, as from a lack of memory, costs its own rows.
    """
    units, exclusive_groups = unpack_batch(batch)
    attempts, parts, results = RemoteObject(job_actor, "attempts"), [unit.part for unit in units], []
    are_together, fatal_media = attempts.begin_loading_all(parts)
    try:
        for unit in units:
            with worker_log_context(log_fields, part=unit.part):
                deaths, fatal_media = (0, fatal_media) if are_together else attempts.begin_loading(unit.part)
                if deaths:
                    log.warning("%d processes died while they loaded this unit", deaths)
                guard = MediaGuard(
                    unit=unit.part,
                    attempts=attempts if deaths else None,
                    fatal_media=fatal_media,
                    skips_all=deaths >= MAX_LOADER_DEATHS,
                )
                results.append(function(unit, exclusive_groups, guard=guard))
            if not are_together:
                attempts.end_loading(unit.part)
    finally:
        attempts.end_loading(*parts)
    return results


@carry_errors
def commit_units(batch: Any, out: str, lock_token: str, log_fields: LogFields = None) -> Any:
    """Write each unit's rows as a part; return their receipts, in one row.

    Raises:
        StoreError: a part could not be written, after pauses and retries.
        FencedError: the run has lost the lock of the output.
    """
    from pipelines.predict.commit import Committer

    committer = Committer(out, lock_token)
    receipts = []
    for answered in unpack_answers(batch):
        with worker_log_context(log_fields, part=answered.unit.part):
            receipts.append(retry_store(partial(committer.commit, answered)))
    return pack_receipts(receipts)


class EngineActor:
    """One engine in one actor. An unavailable model is reported as a row, so that the reason reaches the user."""

    def __init__(
        self,
        model: str,
        spec: ModelSpec,
        *,
        job_actor: Any,
        out: str,
        log_fields: LogFields = None,
    ) -> None:
        import ray

        from models.engines import build_engine
        from models.engines.load_progress import progress_listener
        from models.engines.watchdog import WatchdogEngine
        from models.errors import EngineUnreachableError, MissingSecretError
        from pipelines.predict.unit_runner import UnitRunner

        self._model, self._log_fields, self._out = model, log_fields, Store(out)
        self._attempts, self._board = (RemoteObject(job_actor, name) for name in ("attempts", "board"))
        self._name = str(ray.get_runtime_context().get_actor_id())
        self._bug: Exception | None = None
        self._fatal = self._board.given_up()
        if self._fatal:
            return
        try:
            with (
                progress_listener(partial(self._board.send, ReplicaBoard.record_progress, self._name)),
                worker_log_context(log_fields),
            ):
                engine = build_engine(model, spec)
                log.info("the engine is loaded")
            self._board.record_start(engine.warnings)
            if not engine.has_own_timeout:
                engine = WatchdogEngine(engine, spec.stall_timeout_s, self._end_stalled)
            self._runner = UnitRunner(engine, self._attempts)  # type: ignore[arg-type]  # its methods, called remotely
            self._free_since = time.time()
        except (EngineUnreachableError, MissingSecretError) as error:
            self._fatal = str(error)
        except Exception as error:  # noqa: BLE001  raised by the first call: Ray would start the replica again
            self._bug = error

    @carry_errors
    def __call__(self, batch: Any) -> Iterator[Any]:
        """Answer the units of a batch in turn; sizes alone decide which small ones are committed together.

        When a replica dies, Ray calls another with the same batch and drops as many rows as have arrived.
        """
        if self._bug:
            raise self._bug
        has_many = len(batch["units"].chunk(0)[0].values) > 1
        pending: list[Any] = []
        for loaded in unpack_units(batch):
            if pending and sum(a.unit.requests for a in pending) + loaded.unit.requests > MAX_UNIT_REQUESTS:
                yield pack_answers(pending)
                pending = []
            with worker_log_context(self._log_fields, part=loaded.unit.part):
                pending.append(self._answer(loaded, may_be_committed=has_many and not loaded.unit.retried))
        yield pack_answers(pending)

    def _answer(self, loaded: Any, *, may_be_committed: bool) -> Any:
        from models.errors import EngineDiedError, EngineUnreachableError
        from pipelines.predict.records import AnsweredUnit, ReplicaSpan
        from pipelines.schemas import prediction_table

        began = time.time()
        unit = loaded.unit
        if may_be_committed and self._is_committed(unit.part):
            return AnsweredUnit(unit=unit, is_committed=True)
        if not self._fatal:
            try:
                rows = self._runner.answer(loaded)
            except EngineUnreachableError as error:
                self._fatal = str(error)
            except EngineDiedError as error:
                self._fatal = self._end(error)
            else:
                self._attempts.record_answered(unit.part)
                ended = time.time()
                count_answering(self._model, answered_s=ended - began, waited_s=began - self._free_since)
                self._free_since = ended
                log.info("%d rows are answered in %.1f s", len(rows), ended - began)
                return AnsweredUnit(unit=unit, rows=prediction_table(rows), span=ReplicaSpan(self._name, began, ended))
        return AnsweredUnit(unit=unit, fatal=self._fatal)

    def _is_committed(self, part: str) -> bool:
        """Return whether this unit was stored before a replica died at a later one of its batch."""
        return self._attempts.was_answered(part) and bool(retry_store(partial(self._out.exists, part)))

    def _end_stalled(self, error: Exception) -> None:
        """End this process from another thread than the one stuck in the engine."""
        self._runner.record_stall()
        self._board.give_up(self._end(error))
        os._exit(ENGINE_DIED)

    def _end(self, error: Exception) -> str:
        """End this process, so that Ray restarts the replica and its batch; or return why that would not help."""
        deaths = self._attempts.record_death()
        if deaths >= MAX_ENGINE_DEATHS:
            return f"its processes died {deaths} times in a row with nothing answered; the last time: {error}"
        part, request_id = self._runner.current_request
        with worker_log_context(self._log_fields, part=part, request_id=request_id):
            log.warning("%s; the replica is started again", error)
        os._exit(ENGINE_DIED)
