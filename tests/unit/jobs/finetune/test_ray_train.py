"""Errors of Ray Train's workers become the error of the training, a death, or a bug."""

from __future__ import annotations

import pytest
from ray.exceptions import ActorDiedError
from ray.train.v2.api.exceptions import WorkerGroupError
from torch.distributed import DistNetworkError

from cluster.connection import ClusterInfo
from jobs.finetune.checkpoints import VARIANTS, ExampleCounts, FinetuneSpec
from jobs.finetune.options import MemorySettings, TrainingSettings
from jobs.finetune.ray_train import _cause, _WorkersDiedError, train_on_ray
from models.errors import EngineUnreachableError
from models.spec import ModelSpec
from pipelines.errors import InternalError, UsageError
from tests.unit.jobs.finetune.sources import Listener

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


def test_more_workers_than_an_embedded_cluster_has_room_for_are_refused() -> None:
    spec = FinetuneSpec(
        variant=VARIANTS["vf"], model_name="tiny", model=ModelSpec(engine="transformers", model="tiny"),
        settings=TrainingSettings(epochs=1), memory=MemorySettings(), data="/vflute", evil=None, out="/out", workers=3,
    )  # fmt: skip
    counts = ExampleCounts(train=2, validation=0, fingerprint="f")
    with pytest.raises(UsageError, match="--num-workers 3: this machine has room for 2; give fewer"):
        train_on_ray(spec, counts, ClusterInfo("", 2.0, 0.0), Listener())
