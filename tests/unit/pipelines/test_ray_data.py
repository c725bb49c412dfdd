"""Errors of workers keep their types on the way through Ray; bugs become internal errors with their traceback."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from typing import NoReturn

import pytest
from ray import cloudpickle
from ray.data.exceptions import ExecutionTimeoutError
from ray.exceptions import ActorDiedError, NodeDiedError, RayTaskError

from cluster.errors import ClusterError
from models.errors import EngineUnreachableError
from pipelines.errors import DamagedPartError, DatasetError, InternalError, ModelUnavailableError, StoreError
from pipelines.ray_data import carry_errors, translate_ray_error
from pipelines.worker_errors import WorkerError


def task_error(cause: Exception) -> RayTaskError:
    """Return the error of a task as the driver gets it."""
    text = "".join(traceback.format_exception(cause))
    return cloudpickle.loads(cloudpickle.dumps(RayTaskError("task", text, cause))).as_instanceof_cause()


@carry_errors
def fail(error: Exception) -> NoReturn:
    raise error


@carry_errors
def fail_later(error: Exception) -> Iterator[int]:
    yield 1
    raise error


@pytest.mark.parametrize(
    "error",
    [
        StoreError("the disk is full", is_transient=True),
        DamagedPartError("x.parquet: truncated"),
        DatasetError("ingest again"),
        ClusterError("gone"),
        EngineUnreachableError("no weights"),
    ],
)
def test_error_of_the_product_keeps_its_type(error: Exception) -> None:
    with pytest.raises(WorkerError) as carried:
        fail(error)
    for raised in (error, carried.value):
        translated = translate_ray_error(task_error(raised))
        assert type(translated) is type(error)
        assert str(translated) == str(error)
        assert getattr(translated, "is_transient", None) == getattr(error, "is_transient", None)


def test_bug_in_a_worker_is_an_internal_error_with_its_traceback() -> None:
    with pytest.raises(WorkerError) as carried:
        fail(KeyError("metric"))
    translated = translate_ray_error(task_error(carried.value))
    assert isinstance(translated, InternalError)
    assert "in fail\n" in str(translated)
    assert "KeyError: 'metric'" in str(translated)


def test_bug_in_a_task_is_an_internal_error() -> None:
    translated = translate_ray_error(task_error(ValueError("zip() argument 2 is shorter")))
    assert isinstance(translated, InternalError)
    assert "zip() argument 2 is shorter" in str(translated)


def test_bug_in_a_generator_is_carried() -> None:
    rows = fail_later(KeyError("metric"))
    assert next(rows) == 1
    with pytest.raises(WorkerError) as carried:
        next(rows)
    assert isinstance(carried.value.error, InternalError)


def test_bug_in_an_actor_s_init_is_an_internal_error() -> None:
    died = ActorDiedError(RayTaskError("init", "KeyError: 'x'", KeyError("x")))
    assert isinstance(translate_ray_error(died), InternalError)


@pytest.mark.parametrize(
    "error", [ActorDiedError(), NodeDiedError("node 7 died\nmore"), ExecutionTimeoutError("no progress"), None]
)
def test_failure_of_ray_is_one_line(error: Exception | None) -> None:
    translated = translate_ray_error(error or task_error(ActorDiedError()))
    assert type(translated) is ModelUnavailableError
    assert "\n" not in str(translated)


def test_failure_of_ray_in_a_worker_passes() -> None:
    with pytest.raises(ActorDiedError):
        fail(ActorDiedError())
