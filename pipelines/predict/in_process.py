"""Run the units of a small job in this process, for an engine that can neither end nor stall it.

Either engine guesses, or it asks an endpoint and gives up after the time limit of its entry.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

from models.errors import EngineUnreachableError, MissingSecretError, ShellSettingError
from pipelines.errors import ModelUnavailableError
from pipelines.logging_context import log_context
from pipelines.plan.batches import ExclusiveGroups
from pipelines.plan.unit_list import count_requests
from pipelines.predict.records import Job, Receipt
from pipelines.predict.unit_pipeline import UnitPipeline

MAX_REQUESTS = 1000
"""Guessed in a second or two, and asked in one batch after another: the start of a local Ray takes longer."""
DRIVER = "driver"


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
    exclusive_groups = ExclusiveGroups([unit] for unit in job.units)
    try:
        with closing(UnitPipeline(job.work, DRIVER)) as pipeline:
            for unit in job.units:
                with log_context(part=unit.part):
                    on_receipt(pipeline.run(unit, exclusive_groups.of([unit])))
    except (EngineUnreachableError, MissingSecretError, ShellSettingError) as error:
        raise ModelUnavailableError(f"model {job.model!r}: {error}") from error
