"""TODO doc."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from typing import Any

from pipelines.errors import DamagedPartError, DatasetError, FencedError, ModelUnavailableError, StoreError

INIT_DEATHS = 5
"""Replicas in a row that may die while they load, as when their nodes are taken away, before a run is given up."""


NO_PROGRESS_S = 7200
"""Loading a 72B model onto a spot node that must first be found can take an hour without a row moving."""


def run_rows(dataset: Any) -> Iterator[Any]:
    """The rows of a Ray Data pipeline as they come; what Ray raises becomes an error that names the cause.

    Raises:
        StoreError, ModelUnavailableError: as their texts say.
    """
    import ray
    from ray.data.exceptions import ExecutionTimeoutError  # of no base but Exception

    try:
        yield from dataset.iter_rows()
    except (ray.exceptions.RayError, ExecutionTimeoutError) as error:
        raise translate_ray_error(error) from error


def quiet_ray_data() -> None:
    """Progress and warnings of Ray Data stay in its log files; the watcher shows progress."""
    import ray.data as rd

    context = rd.DataContext.get_current()
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    context.execution_no_progress_timeout_s = NO_PROGRESS_S
    context.max_consecutive_actor_init_deaths = INIT_DEATHS
    context.execution_options.resource_limits = rd.ExecutionResources.for_limits()
    context.target_max_block_size = 1  # every row goes on as soon as it is made: a unit is committed when answered
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    logging.getLogger("ray.data").propagate = False


def translate_ray_error(error: Exception) -> Exception:
    """A Ray error as one that names the cause: the store's own words where the store was it."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, (StoreError, FencedError)):
            return StoreError(str(cause))
        if type(cause) in (DatasetError, DamagedPartError):
            return ValueError(str(cause))
        inner = getattr(cause, "cause", None)
        cause = inner if isinstance(inner, BaseException) else cause.__cause__
    lines = str(error).strip().splitlines() or [type(error).__name__]
    named = [line for line in lines if re.match(r"\s*[\w.]+(Error|Exception|Died\w*): ", line)]
    own = [line for line in named if "UserCodeException" not in line]  # Ray's wrapping, without the reason
    told = [lines[-1], *named, *own][-1]
    return ModelUnavailableError(f"the run on the cluster failed: {told.strip()}; run with -v to see Ray's own words")
