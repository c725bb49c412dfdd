"""The stages of `UnitPipeline` where Ray runs them: each handles one row of Ray Data, a batch of units."""

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import lru_cache, partial
from itertools import chain, repeat
from typing import Any, TypeVar

import pyarrow as pa

from cluster.threads import run_in_thread
from models.engines.gpu_check import check_gpus
from models.errors import (
    DeviceFailedError,
    EngineDiedError,
    EngineUnreachableError,
    MissingSecretError,
    ShellSettingError,
)
from pipelines.logging_context import worker_log_context
from pipelines.plan.cost_model import describe_load
from pipelines.plan.units import MAX_UNIT_REQUESTS
from pipelines.predict.job_state import remote_state, replica_device, replica_gpus
from pipelines.predict.loader import Loaded, MediaGuard
from pipelines.predict.open_units import OpenUnits
from pipelines.predict.records import AnsweredUnit, UnitWork
from pipelines.predict.serialization import (
    count_units,
    pack_answers,
    pack_receipts,
    pack_units,
    unpack_answers,
    unpack_batch,
    unpack_units,
)
from pipelines.predict.unit_pipeline import UnitPipeline
from pipelines.ray_data import carry_errors
from pipelines.storage.errors import retry_store
from pipelines.storage.store import Store

T = TypeVar("T")

log = logging.getLogger(__name__)

MAX_ENGINE_DEATHS = 6
"""Consecutive deaths of engines, with nothing answered between them, after which a model is given up."""
MAX_LOADER_DEATHS = 9
"""Consecutive deaths of processes while they loaded a unit, after which all its media are called unreadable: one death
of all units of a batch together, and two at each of four media."""
ENGINE_DIED = 13  # exit code of a replica whose engine died

SAVE_LOOK_S = 5.0  # between looks whether answers of endpoints wait to be committed
ROOM_LOOK_S = 0.1  # between looks whether so many rows are answered that there is room for another unit
FEED_S = 0.1  # between looks whether another job has begun
LOAD_PAUSES_S = (10.0, 20.0, 40.0, 60.0)  # before a replica that could not load tries again; the last one is repeated

LogFields = Mapping[str, str] | None
"""Fields of log lines (`logging_context.fields_for_workers`); None leaves Ray's own form."""


@lru_cache(maxsize=2)
def _pipeline(work: UnitWork) -> UnitPipeline:
    """Return one pipeline a worker process: its decoder and last plan parts are reused between units."""
    import ray

    return UnitPipeline(work, str(ray.get_runtime_context().get_worker_id()))


@carry_errors
def read_feed(_: Any, job_actor: Any, call: int) -> Iterator[Any]:
    """Yield what a `JobState` is fed from a call on, until its process dies: open units are sent again."""
    while (batches := remote_state(job_actor).fed(call)) != ():
        if batches is None:
            time.sleep(FEED_S)
            continue
        yield from (pa.table({"batch": [packed]}) for packed in batches)
        call += 1


@carry_errors
def load_units(batch: Any, work: UnitWork, job_actor: Any, log_fields: LogFields = None) -> Any:
    """Load a batch of units; Ray calls this again elsewhere when its process dies."""
    return pack_units(_for_each(batch, _pipeline(work).load, job_actor, log_fields))


def _for_each(batch: Any, function: Callable[..., T], job_actor: Any, log_fields: LogFields) -> list[T]:
    """Call a function that loads with each unit of a batch, its exclusive media groups and its guard of media.

    After a death units are loaded one by one, and media of those that may be its cause are recorded before they are
    decoded, so that one that kills, as from a lack of memory, costs its own rows.
    """
    units, exclusive_groups = unpack_batch(batch)
    attempts, parts, results = remote_state(job_actor), [unit.part for unit in units], []
    are_together, fatal_media = attempts.begin_loading_all(parts)
    try:
        for unit in units:
            with worker_log_context(log_fields, part=unit.part):
                deaths, fatal_media = (0, fatal_media) if are_together else attempts.begin_loading(unit.part)
                if deaths:
                    log.warning("%d processes died while they loaded this unit", deaths)
                guard = MediaGuard(
                    unit=unit.part,
                    record=attempts.begin_medium if deaths else None,
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
def commit_units(batch: Any, work: UnitWork, log_fields: LogFields = None) -> Any:
    """Commit each unit, as `UnitPipeline.commit`; return their receipts, in one row."""
    receipts = []
    for answered in unpack_answers(batch):
        with worker_log_context(log_fields, part=answered.unit.part):
            receipts.append(_pipeline(work).commit(answered))
    return pack_receipts(receipts)


class EngineActor:
    """One engine in one actor. An unavailable model is reported as a row, so that the reason reaches the user.

    With `prepares` two threads call it, of which one prepares the first unit of a batch while the other answers.
    """

    def __init__(self, work: UnitWork, job_actor: Any, log_fields: LogFields = None, *, prepares: bool = False) -> None:
        import ray

        from models.engines.load_progress import progress_listener

        name = str(ray.get_runtime_context().get_actor_id())
        self._log_fields, self._out, self._state = log_fields, Store(work.out), remote_state(job_actor)
        self._node, self._gpus = replica_gpus()
        if self._gpus and self._state.avoid(self._node, self._gpus):
            os._exit(ENGINE_DIED)  # Ray was faster than what is to hold these GPUs
        if rows := self._state.max_rows():
            work = replace(work, spec=work.spec.model_copy(update={"batch_size": rows}))
        self._work = work
        self._pipeline = UnitPipeline(
            work, name, attempts=self._state, on_stall=self._end_stalled, device=replica_device(work.spec, self._gpus)
        )
        # A death while it prepares would be blamed on what is answered: a replica that died prepares nothing.
        prepares = prepares and not ray.get_runtime_context().was_current_actor_reconstructed
        self._turn, self._ahead = threading.Lock(), ThreadPoolExecutor(1) if prepares else None
        self._open_units = OpenUnits(self._pipeline)
        self._bug: Exception | None = None
        self._fatal = ""
        try:
            with progress_listener(partial(job_actor.record_progress.remote, name)), worker_log_context(log_fields):
                self._fatal = self._load(name)
        except Exception as error:  # noqa: BLE001  raised by the first call: Ray would start the replica again
            self._bug = error

    def _load(self, name: str) -> str:
        """Load the engine, again after pauses while others may work; return why the model is given up, or ''."""
        pauses = chain(LOAD_PAUSES_S, repeat(LOAD_PAUSES_S[-1]))
        while not (reason := self._state.begin_load(name)):
            try:
                check_gpus(self._work.spec, self._gpus)
                began = time.monotonic()
                _ = self._pipeline.engine
            except (MissingSecretError, ShellSettingError) as error:
                return str(error)
            except EngineUnreachableError as error:
                if reason := self._state.record_failed_load(name, self._node, str(error)):
                    return reason
                pause = next(pauses)
                log.warning("a replica failed to load; retrying in %g s: %s", pause, error)
                time.sleep(pause)
            else:
                log.info("the engine is loaded%s", describe_load(self._work.spec, time.monotonic() - began))
                self._state.record_start(name)
                if self._work.spec.is_endpoint:
                    run_in_thread("save", self._save)
                return ""
        return reason

    @carry_errors
    def __call__(self, batch: Any) -> Iterator[Any]:
        """Answer the units of a batch in turn; sizes alone decide which small ones are committed together.

        When a replica dies, Ray calls another with the same batch and drops as many rows as have arrived.
        """
        if self._bug:
            raise self._bug
        units, has_many = unpack_units(batch), count_units(batch) > 1
        if not self._fatal and self._pipeline.wanted_calls:
            yield from _packed(self._streamed(units, has_many=has_many))
            return
        upcoming = next(units)
        self._prepare(upcoming)
        with self._turn:
            prepared = self._each_prepared(chain([upcoming], units))
            yield from _packed(self._answer(loaded, has_many=has_many) for loaded in prepared)

    def _streamed(self, units: Iterator[Loaded], *, has_many: bool) -> Iterator[AnsweredUnit]:
        """Answer units in threads, for an engine that takes several at once; yield them in their order.

        One at which an engine died is answered alone: what kills it again is then the cause. Where the model becomes
        unavailable, what was answered until then comes first: the run ends with the other units.
        """
        answers, failed = deque[tuple[Loaded, Future[AnsweredUnit] | None]](), list[AnsweredUnit]()
        for loaded in chain(units, [None]):
            if loaded is not None:
                is_stored = self._is_stored(loaded, has_many=has_many)
                answers.append((loaded, None if is_stored else self._start(loaded)))
            while answers and (loaded is None or answers[0][1] is None or answers[0][1].done()):
                result = self._result(*answers.popleft())
                if result.fatal:
                    failed.append(result)
                else:
                    yield result
        yield from failed

    def _start(self, loaded: Loaded) -> Future[AnsweredUnit]:
        """Begin to answer a unit once there is room for it, in the order of the batches."""
        has_room = partial(self._open_units.has_room, is_alone=self._state.was_begun(loaded.unit.part))
        with self._turn:
            while not self._open_units.wait(has_room, ROOM_LOOK_S):
                pass
            with worker_log_context(self._log_fields, part=loaded.unit.part):
                return self._open_units.start(loaded, lambda answered, _: answered, **has_room.keywords)

    def _result(self, loaded: Loaded, future: Future[AnsweredUnit] | None) -> AnsweredUnit:
        if future is None:
            return AnsweredUnit(unit=loaded.unit, is_committed=True)
        if future.exception() is None:
            return future.result()
        return self._ended(loaded, future.result)

    def _save(self) -> None:
        """Commit answers of unfinished units in time, for they were paid for."""
        while not self._fatal:
            time.sleep(SAVE_LOOK_S)
            self._open_units.save()

    def _prepare(self, loaded: Loaded) -> None:
        if self._ahead and not self._fatal:
            self._pipeline.runner.prepare(loaded)

    def _each_prepared(self, units: Iterator[Loaded]) -> Iterator[Loaded]:
        """Yield units, each while the next one is prepared."""
        loaded = next(units, None)
        while loaded is not None:
            upcoming = next(units, None)
            if upcoming is not None and self._ahead:
                self._ahead.submit(self._prepare, upcoming)
            yield loaded
            loaded = upcoming

    def _answer(self, loaded: Loaded, *, has_many: bool) -> AnsweredUnit:
        if self._is_stored(loaded, has_many=has_many):
            return AnsweredUnit(unit=loaded.unit, is_committed=True)
        with worker_log_context(self._log_fields, part=loaded.unit.part):
            return self._ended(loaded, partial(self._pipeline.answer, loaded))

    def _is_stored(self, loaded: Loaded, *, has_many: bool) -> bool:
        """Return whether a unit is stored, because a replica died at a later unit of its batch."""
        part = loaded.unit.part
        if not has_many or loaded.unit.retried or not self._state.was_answered(part):
            return False
        # That of an endpoint may hold what was answered first.
        return bool(retry_store(partial(self._out.exists, part))) and not self._work.spec.is_endpoint

    def _ended(self, loaded: Loaded, answer: Callable[[], AnsweredUnit]) -> AnsweredUnit:
        """Return what was answered, or why the model is given up."""
        if not self._fatal:
            try:
                return answer()
            except EngineUnreachableError as error:
                self._fatal = str(error)
                self._open_units.save(after_s=0.0)
            except EngineDiedError as error:
                self._fatal = self._end(error)
        return AnsweredUnit(unit=loaded.unit, fatal=self._fatal)

    def _end_stalled(self, error: EngineDiedError) -> None:
        """End this process from another thread than the one stuck in the engine."""
        self._pipeline.runner.record_stall()
        self._state.give_up(self._end(error))
        os._exit(ENGINE_DIED)

    def _end(self, error: EngineDiedError) -> str:
        """End this process, so that Ray restarts the replica and its batch; or return why that would not help."""
        deaths = self._state.record_death()
        if deaths >= MAX_ENGINE_DEATHS:
            return f"its processes died {deaths} times in a row with nothing answered; the last time: {error}"
        if error.max_rows:
            self._state.record_max_rows(error.max_rows)
        part, request_id = self._pipeline.runner.current_request
        if isinstance(error, DeviceFailedError) and self._gpus:
            self._state.record_device_failure(self._node, self._gpus, part)
        with worker_log_context(self._log_fields, part=part, request_id=request_id):
            log.warning("%s; restarting the replica", error)
        os._exit(ENGINE_DIED)


def _packed(answers: Iterator[AnsweredUnit]) -> Iterator[Any]:
    """Pack small units that follow one another into one row."""
    pending: list[AnsweredUnit] = []
    for answered in answers:
        if pending and sum(a.unit.requests for a in pending) + answered.unit.requests > MAX_UNIT_REQUESTS:
            yield pack_answers(pending)
            pending = []
        pending.append(answered)
    yield pack_answers(pending)
