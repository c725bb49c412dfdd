"""Replicas and resources that a job requests, by what the cluster is and may become."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from cluster.connection import ClusterInfo
from cluster.errors import ClusterError, PostponedError
from models.spec import ModelSpec
from pipelines.errors import ModelUnavailableError
from pipelines.plan.context import WorkerContext
from pipelines.plan.units import WorkUnit
from pipelines.predict import executor
from pipelines.predict.executor import (
    CAPACITY_WAIT_S,
    NODE_RETRY_S,
    NODE_WAIT_S,
    _engine_resources,
    _node_wait_s,
    _replicas,
)
from pipelines.predict.loader import UnitLoaderSpec
from pipelines.predict.records import Job

ONE_MACHINE = ClusterInfo("", 8.0, 0.0)
STANDING = ClusterInfo("10.0.0.1:6379", 64.0, 8.0)
DECLARED = ClusterInfo("10.0.0.1:6379", 1.0, 0.0, max_gpu_nodes=(8, 8, 1, 1))
UNIT = WorkUnit(benchmark="maia", part="p", slices=(), requests=1)
PARTLY_UP = ClusterInfo("10.0.0.1:6379", 16.0, 1.0, max_gpu_nodes=(8, 8, 1, 1))


def spec(engine: str = "transformers", **fields: Any) -> ModelSpec:
    weights = {"model": "o/m", "revision": "1"} if engine == "transformers" else {}
    return ModelSpec(engine=engine, replicas={"max": 40}, **weights, **fields)


def job(model: ModelSpec, units: int = 100) -> Job:
    loader = UnitLoaderSpec(context=WorkerContext("d", "o"), targets=())
    return Job(model="m", spec=model, loader=loader, out="o", units=[UNIT] * units)


@pytest.mark.parametrize(
    ("cluster", "ranks", "expected"),
    [
        (STANDING, 1, 8),
        (STANDING, 4, 2),
        (DECLARED, 1, 18),
        (DECLARED, 4, 4),
        (DECLARED, 8, 2),
        (PARTLY_UP, 1, 18),  # the node that is there is not all there may be
        (DECLARED, 16, 40),  # where it fits nowhere, that is said when it is to be placed
    ],
)
def test_replicas(cluster: ClusterInfo, ranks: int, expected: int) -> None:
    assert _replicas(job(spec(tensor_parallel=ranks)), cluster) == expected


def test_replicas_are_no_more_than_units() -> None:
    assert _replicas(job(spec(), units=3), DECLARED) == 3


@pytest.mark.parametrize("cluster", [STANDING, DECLARED, PARTLY_UP])
def test_replica_needs_gpus_where_the_cluster_has_some(cluster: ClusterInfo) -> None:
    assert _engine_resources(spec(tensor_parallel=4), cluster) == {"num_gpus": 4}
    assert "num_cpus" in _engine_resources(spec(device="cpu"), cluster)
    assert "num_cpus" in _engine_resources(spec("random"), cluster)


@pytest.mark.parametrize(
    ("cluster", "flag", "expected"),
    [
        (STANDING, None, CAPACITY_WAIT_S),
        (DECLARED, None, NODE_WAIT_S),
        (replace(DECLARED, max_gpu_nodes=(), is_shared=True), None, NODE_WAIT_S),
        (STANDING, 7200.0, 7200.0),
        (DECLARED, 0.0, 0.0),
    ],
)
def test_wait_for_a_node_is_longer_where_nodes_come(cluster: ClusterInfo, flag: float | None, expected: float) -> None:
    assert _node_wait_s(replace(job(spec()), wait_for_nodes_s=flag), cluster) == expected


def test_replica_needs_gpus_without_any_only_by_device_and_shares_them_where_its_entry_says_so() -> None:
    assert "num_cpus" in _engine_resources(spec(), ONE_MACHINE)
    assert _engine_resources(spec(device="cuda"), ONE_MACHINE) == {"num_gpus": 1}
    assert _engine_resources(spec(), replace(STANDING, is_shared=True)) == {"num_gpus": 1, "num_cpus": 0}
    shared = spec(replicas_per_gpu=4)
    assert _engine_resources(shared, STANDING) == {"num_gpus": 0.25}
    for cluster in (STANDING, DECLARED):
        assert _replicas(job(shared, units=999), cluster) == min(
            shared.replicas.max, 4 * _replicas(job(spec(), units=999), cluster)
        )


@pytest.mark.parametrize(
    ("waits_since", "now", "timeout", "kind"),
    [
        (None, 1000.0, 7200.0, ModelUnavailableError),
        (1000.0, 1000.0, NODE_RETRY_S, PostponedError),
        (1000.0, 7000.0, NODE_RETRY_S, PostponedError),
        (1000.0, 8100.0, 100.0, ModelUnavailableError),
    ],
)
def test_model_that_shares_the_cluster_is_postponed_until_its_wait_is_over(
    waits_since: float | None, now: float, timeout: float, kind: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    def wait(demand: Mapping[str, float], *, timeout_s: float, **_: object) -> None:
        waits.append(timeout_s)
        raise ClusterError("no node has 8 GPUs")

    monkeypatch.setattr(executor, "wait_for_capacity", wait)
    monkeypatch.setattr(executor, "monotonic", lambda: now)
    tried = replace(job(spec()), wait_for_nodes_s=7200.0, waits_since=waits_since)
    with pytest.raises(kind, match="no node has 8 GPUs"):
        executor._check_capacity(tried, STANDING, {"GPU": 8.0})
    assert waits == [timeout]


@pytest.mark.parametrize(
    ("change", "gpus", "calls"),
    [({}, 2.0, 2), ({}, 0.0, 1), ({"prepare_ahead": False}, 2.0, 1), ({"tensor_parallel": 2}, 2.0, 2)],
)
def test_replica_on_a_gpu_of_its_own_takes_two_batches(change: dict[str, Any], gpus: float, calls: int) -> None:
    cluster = replace(STANDING, gpus=gpus)
    assert 1 + executor._prepares_ahead(spec().model_copy(update=change), cluster) == calls
    pool = executor._pool(3, calls=calls)
    assert (pool.min_size, pool.max_size, pool.max_tasks_in_flight_per_actor) == (3, 3, 2)
    assert pool.enable_true_multi_threading == (calls == 2)


def test_replica_is_kept_to_the_nodes_that_it_is_planned_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "node_selectors", lambda sizes, **_: {"label_selector": {"pool": f"gpu{sizes[0]}"}})
    share = replace(STANDING, gpus=2.0, is_shared=True, node_sizes=(1,))
    assert executor._engine_resources(spec(), share)["label_selector"] == {"pool": "gpu1"}
    assert executor._replica_demand(spec(), share) == {"GPU": 1, "CPU": 0}
