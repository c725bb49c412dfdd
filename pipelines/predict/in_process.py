"""Run a small job in this process, without a cluster: its start would take longer than the work."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from models.engines import build_engine
from pipelines.logging_context import log_context
from pipelines.predict.attempts import AttemptTracker
from pipelines.predict.commit import Committer
from pipelines.predict.records import AnsweredUnit, Job, Receipt, ReplicaSpan
from pipelines.predict.unit_runner import UnitRunner
from pipelines.schemas import prediction_table
from pipelines.storage.retry import retry_store

MAX_REQUESTS = 1000
"""Answered in a second or two; the start of a local Ray takes longer."""
REPLICA = "driver"


def fits_in_process(job: Job) -> bool:
    """Return whether a job is small, and its engine can neither end nor stall this process."""
    return job.spec.needs_no_isolation and sum(unit.requests for unit in job.units) <= MAX_REQUESTS


def run_in_process(job: Job, on_receipt: Callable[[Receipt], None]) -> None:
    """Load, answer and commit the units one after another, as `run_units` does on a cluster.

    Raises:
        StoreError: the store failed after retries.
    """
    engine = build_engine(job.model, job.spec)
    runner, committer, loader = UnitRunner(engine, AttemptTracker()), Committer(job.out, job.lock_token), None
    try:
        loader = job.loader.build()
        for unit in job.units:
            with log_context(part=unit.part):
                loaded = retry_store(partial(loader.load, unit))
                began = time.time()
                rows = prediction_table(runner.answer(loaded))
                span = ReplicaSpan(REPLICA, began, time.time())
                answered = AnsweredUnit(unit=unit, rows=rows, span=span)
                on_receipt(retry_store(partial(committer.commit, answered)))
    finally:
        if loader:
            loader.close()
