"""Load, answer and commit units in one process, for an engine that can neither end nor stall it.

Either engine guesses, or it asks an endpoint and gives up after the time limit of its entry.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection
from contextlib import closing
from dataclasses import dataclass
from functools import partial

from models.engines import build_engine
from models.errors import EngineUnreachableError, MissingSecretError
from models.spec import ModelSpec
from pipelines.errors import ModelUnavailableError
from pipelines.logging_context import log_context
from pipelines.media.frame_cache import FrameSource
from pipelines.plan.unit_list import count_requests
from pipelines.plan.units import WorkUnit
from pipelines.predict.attempts import AttemptTracker
from pipelines.predict.commit import Committer
from pipelines.predict.media_guard import UNGUARDED, MediaGuard
from pipelines.predict.metrics import count_answering, count_loading
from pipelines.predict.records import AnsweredUnit, Job, LoaderSpec, Receipt, ReplicaSpan
from pipelines.predict.unit_runner import UnitRunner
from pipelines.schemas import prediction_table
from pipelines.storage.retry import retry_store

log = logging.getLogger(__name__)

MAX_REQUESTS = 1000
"""Guessed in a second or two, and asked in one batch after another: the start of a local Ray takes longer."""
DRIVER = "driver"


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalWork:
    """The parts of a job that a `LocalRunner` needs; light and hashable: a worker keeps one runner for all units."""

    model: str
    spec: ModelSpec
    loader: LoaderSpec
    out: str
    lock_token: str

    @classmethod
    def of(cls, job: Job) -> LocalWork:
        """Return the work of a job."""
        return cls(model=job.model, spec=job.spec, loader=job.loader, out=job.out, lock_token=job.lock_token)


class LocalRunner:
    """Loads, answers and commits units one after another."""

    def __init__(self, work: LocalWork, name: str, frames: FrameSource | None = None) -> None:
        """Build the engine and the loader; receipts carry `name`, and `frames` holds what other processes decoded."""
        self._work, self._name = work, name
        self._committer = Committer(work.out, work.lock_token)
        self._loader = work.loader.build(frames)
        self._engine = build_engine(work.model, work.spec)
        self._runner = UnitRunner(self._engine, AttemptTracker())

    def run(self, unit: WorkUnit, exclusive_groups: Collection[str] = (), *, guard: MediaGuard = UNGUARDED) -> Receipt:
        """Run one unit, as `Loader.load` and `Committer.commit`.

        Raises:
            EngineUnreachableError: the endpoint is unavailable; nothing of the unit counts as done.
            StoreError: the store failed after retries.
            FencedError: the run has lost the lock of the output.
        """
        started = time.time()
        loaded = retry_store(partial(self._loader.load, unit, exclusive_groups, guard=guard))
        began = time.time()
        rows = prediction_table(self._runner.answer(loaded))
        ended = time.time()
        count_loading(began - started)
        count_answering(self._work.model, answered_s=ended - began, waited_s=began - started)
        log.info("%d rows are answered in %.1f s", rows.num_rows, ended - began)
        answered = AnsweredUnit(unit=unit, rows=rows, span=ReplicaSpan(self._name, began, ended))
        return retry_store(partial(self._committer.commit, answered))

    def close(self) -> None:
        """End the decoder's process, and connections to an endpoint."""
        try:
            self._loader.close()
        finally:
            self._engine.close()


def fits_in_process(job: Job) -> bool:
    """Return whether a job is small, and its engine can neither end nor stall this process."""
    asks_endpoint = job.spec.is_endpoint and job.spec.replicas.max == 1
    return (job.spec.needs_no_isolation or asks_endpoint) and count_requests(job.units) <= MAX_REQUESTS


def run_in_process(job: Job, on_receipt: Callable[[Receipt], None]) -> None:
    """Run a small job's units in this process, without a cluster: its start would take longer than the work.

    Raises:
        ModelUnavailableError: the endpoint is unavailable.
        StoreError: the store failed after retries.
    """
    try:
        with closing(LocalRunner(LocalWork.of(job), DRIVER)) as runner:
            for unit in job.units:
                with log_context(part=unit.part):
                    on_receipt(runner.run(unit))
    except (EngineUnreachableError, MissingSecretError) as error:
        raise ModelUnavailableError(f"model {job.model!r}: {error}") from error
