"""Run Ray Data pipelines: settings, and errors of Ray translated into the product's own."""

import functools
import inspect
import logging
import traceback
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

from cluster.errors import ClusterError
from models.errors import ModelError
from pipelines.errors import InternalError, ModelUnavailableError, PipelineError

P = ParamSpec("P")
R = TypeVar("R")

INIT_DEATHS = 5  # replicas in a row that may die while they load, as their nodes are preempted
NO_PROGRESS_S = 7200  # loading a 72B model onto a spot node that must first be found can take an hour


def run_rows(dataset: Any) -> Generator[Any]:
    """Yield the rows of a Ray Data pipeline as they finish; raise as `translate_ray_error`."""
    import ray
    from ray.data.exceptions import ExecutionTimeoutError  # its only base is Exception

    try:
        # What is fetched ahead would be held back until the next comes: a receipt, and the last one of a held pipeline.
        for table in dataset.iter_batches(batch_size=None, batch_format="pyarrow", prefetch_batches=0):
            yield from table.to_pylist()
    except (ray.exceptions.RayError, ExecutionTimeoutError) as error:
        raise translate_ray_error(error) from error


def quiet_ray_data() -> None:
    """Keep progress bars and warnings of Ray Data in its log files; let workers' errors keep their types."""
    import ray.data as rd

    context = rd.DataContext.get_current()
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    context.raise_original_map_exception = True
    context.execution_no_progress_timeout_s = NO_PROGRESS_S
    context.max_consecutive_actor_init_deaths = INIT_DEATHS
    context.execution_options.resource_limits = rd.ExecutionResources.for_limits()
    context.target_max_block_size = 1  # each row moves on once it is made: a unit is committed when it is answered
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    logging.getLogger("ray.data").propagate = False


def carry_errors(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function of Ray Data's workers: its errors keep their types, and bugs their tracebacks."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        with _carried_errors():
            return function(*args, **kwargs)

    @functools.wraps(function)
    def generate(*args: P.args, **kwargs: P.kwargs) -> Any:
        with _carried_errors():
            yield from function(*args, **kwargs)  # type: ignore[misc]

    return generate if inspect.isgeneratorfunction(function) else call


@contextmanager
def _carried_errors() -> Iterator[None]:
    from ray.exceptions import RayError

    from pipelines.worker_errors import WorkerError

    try:
        yield
    except RayError:
        raise  # a part of Ray failed
    except (ClusterError, ModelError, PipelineError) as error:
        raise WorkerError(error) from error
    except Exception as error:
        raise WorkerError(InternalError(traceback.format_exc())) from error


def translate_ray_error(error: Exception) -> Exception:
    """Return the product's error behind an error of Ray.

    A worker's error of the product is returned itself; its other exceptions become an `InternalError` with the worker's
    traceback; a failure of Ray becomes a `ModelUnavailableError`.
    """
    from ray.exceptions import RayActorError, RayError, RayTaskError, UnserializableException, UserCodeException

    from pipelines.worker_errors import WorkerError

    cause: BaseException = error
    while isinstance(cause, RayTaskError):
        cause = cause.cause
    if isinstance(cause, WorkerError):
        cause = cause.error
    if isinstance(cause, (ClusterError, ModelError, PipelineError)):
        return cause
    is_bug_in_init = isinstance(cause, RayActorError) and cause.actor_init_failed
    if (
        isinstance(cause, (UserCodeException, UnserializableException))
        or is_bug_in_init
        or not _is_ray_error(cause, RayError)
    ):
        return InternalError(str(error).strip())
    first_line = str(cause).strip().partition("\n")[0]
    return ModelUnavailableError(
        f"the run on the cluster failed: {type(cause).__name__}: {first_line}; -v shows Ray's own messages"
    )


def _is_ray_error(error: BaseException, ray_error: type[BaseException]) -> bool:
    return isinstance(error, ray_error) or type(error).__module__ == "ray.data.exceptions"
