"""What a judge gets of the GPUs that no model needs."""

from __future__ import annotations

import threading

import pytest

from cluster.connection import ClusterInfo
from cluster.scheduling.gpu_scheduler import ModelWorkload
from models.spec import ModelSpec
from pipelines.predict.concurrent_judges import IdleGpus

SMALL = ModelSpec(engine="transformers", model="o/m", parameters_b=7)
LARGE = SMALL.model_copy(update={"tensor_parallel": 4})
ENDPOINT = ModelSpec(engine="openai", model="j", base_url="http://127.0.0.1:9/v1")
NODES = (8, 4, 1)


def idle(*free: tuple[int, int], max_gpu_nodes: tuple[int, ...] = ()) -> IdleGpus:
    cluster = ClusterInfo("ray://", 64.0, 13.0, max_gpu_nodes=max_gpu_nodes)
    return IdleGpus(cluster=cluster, idle=free, leave=threading.Event(), is_stopped=lambda: False)


@pytest.mark.parametrize(
    ("free", "spec", "gpus", "sizes"),
    [
        (((8, 3), (1, 1)), SMALL, 4.0, (1, 8)),
        (((8, 3), (1, 1)), LARGE, None, None),
        (((8, 5), (4, 4), (1, 1)), LARGE, 8.0, (4, 8)),
        ((), SMALL, None, None),
        ((), ENDPOINT, 13.0, ()),
        (((8, 3),), ENDPOINT.model_copy(update={"batch": True}), None, None),
        (((8, 3),), ENDPOINT.model_copy(update={"cost_limit": 2.0}), None, None),
    ],
)
def test_share_is_what_whole_replicas_fit_on(
    free: tuple[tuple[int, int], ...], spec: ModelSpec, gpus: float | None, sizes: tuple[int, ...] | None
) -> None:
    share = idle(*free).share(spec)
    assert (share and share.gpus, share and share.node_sizes) == (gpus, sizes)


def test_judge_gets_nothing_once_it_is_to_leave() -> None:
    gpus = idle((8, 3))
    gpus.leave.set()
    assert gpus.share(SMALL) is None


@pytest.mark.parametrize(
    ("work_s", "max_gpu_nodes", "pays"), [(10.0, (), True), (10.0, NODES, False), (60.0, NODES, True)]
)
def test_short_work_brings_no_node_back(work_s: float, max_gpu_nodes: tuple[int, ...], pays: bool) -> None:
    gpus = idle((8, 2), max_gpu_nodes=max_gpu_nodes)
    assert gpus.pays(ModelWorkload(name="judge", gpus=1, load_s=60.0, units=(work_s,))) is pays
    assert gpus.pays(ModelWorkload(name="judge", gpus=0, load_s=60.0, units=(1.0,)))
