"""Errors of Ray Train's workers become the error of the training, a death, or a bug."""

from __future__ import annotations

import pytest
from ray.exceptions import ActorDiedError
from ray.train.v2.api.exceptions import WorkerGroupError
from torch.distributed import DistNetworkError

from models.errors import EngineUnreachableError
from pipelines.errors import InternalError
from pipelines.finetune.ray_train import _cause, _WorkersDiedError

GLOO = RuntimeError("[third_party/gloo/transport/tcp/pair.cc] Connection closed by peer")


@pytest.mark.parametrize(
    ("failures", "expected"),
    [
        ([ActorDiedError(), GLOO, DistNetworkError("socket closed")], _WorkersDiedError),
        ([GLOO, KeyError("x")], InternalError),
        ([ActorDiedError(), EngineUnreachableError("memory")], EngineUnreachableError),
    ],
)
def test_workers_died_only_if_no_worker_failed_by_itself(failures: list[Exception], expected: type[Exception]) -> None:
    assert type(_cause(WorkerGroupError("all of them", dict(enumerate(failures))))) is expected
