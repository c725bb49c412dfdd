"""Waiting for capacity, and the message when a replica fits nowhere."""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any

import pytest

from cluster import placement
from cluster.errors import ClusterError, RunCancelledError

BIG = {"CPU": 32.0, "GPU": 8.0, "memory": 1e12}
SMALL = {"CPU": 8.0, "GPU": 2.0}
BARE = {"CPU": 64.0}


@pytest.mark.parametrize(
    ("demand", "nodes", "words"),
    [
        ({"GPU": 4, "CPU": 1}, [SMALL, BIG], ""),
        ({"CPU": 0.5, "GPU": 0}, [BARE], ""),
        ({"GPU": 4, "CPU": 1}, [SMALL, SMALL, BARE],
         "a replica needs 4 GPUs and 1 CPU on one node, and no node has 4 GPUs"),
        ({"GPU": 1, "CPU": 16}, [SMALL, BARE], "a replica needs 1 GPU and 16 CPUs on one node, and no node has both"),
        ({"CPU": 1}, [], "a replica needs 1 CPU on one node, and no node has 1 CPU"),
    ],
)  # fmt: skip
def test_shortage_is_described(demand: dict[str, float], nodes: list[dict[str, float]], words: str) -> None:
    there = {0: "none", 2: "0 GPUs and 64 CPUs; 2 GPUs and 8 CPUs", 3: "0 GPUs and 64 CPUs; 2 GPUs and 8 CPUs"}
    assert placement.describe_shortage(demand, nodes) == (f"{words} (nodes: {there[len(nodes)]})" if words else "")


class Cluster:
    """A cluster whose nodes join one poll at a time, with a clock that advances by polls."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, polls: list[list[dict[str, float]]], coming: list[bool]
    ) -> None:
        import ray

        self.now = 0.0
        self.placement_groups: list[Any] = []
        self.taken_back: list[Any] = []
        self._polls, self._coming = iter(polls), iter(coming)
        monkeypatch.setattr(ray, "nodes", self._nodes)
        monkeypatch.setattr(ray, "is_initialized", lambda: True)
        groups = importlib.import_module("ray.util.placement_group")  # a function of ray.util has its name
        monkeypatch.setattr(groups, "placement_group", self._ask)
        monkeypatch.setattr(groups, "remove_placement_group", self.taken_back.append)
        monkeypatch.setattr(placement, "_has_pending_nodes", lambda: next(self._coming, False))
        monkeypatch.setattr(placement.time, "sleep", self._sleep)
        monkeypatch.setattr(placement.time, "monotonic", lambda: self.now)

    def _nodes(self) -> list[dict[str, Any]]:
        return [{"Alive": True, "Resources": node} for node in next(self._polls, [SMALL])]

    def _ask(self, bundles: Any) -> str:
        self.placement_groups.append(bundles)
        return "the group"

    def _sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def four() -> dict[str, float]:
    return {"GPU": 4.0}


def test_shortage_is_reported_at_once_or_within_a_minute(
    monkeypatch: pytest.MonkeyPatch, four: dict[str, float]
) -> None:
    cluster = Cluster(monkeypatch, [], [])
    with pytest.raises(ClusterError, match="needs 4 GPUs"):
        placement.wait_for_capacity(four, timeout_s=50, grows=False)
    assert (cluster.now, cluster.placement_groups) == (0.0, [])
    cluster = Cluster(monkeypatch, [], [])
    with pytest.raises(ClusterError, match="needs 4 GPUs"):
        placement.wait_for_capacity(four, timeout_s=50, grows=True)
    assert 50 <= cluster.now <= 60
    assert (cluster.placement_groups, cluster.taken_back) == ([[four]], ["the group"])


def test_nodes_that_may_come_are_waited_for(monkeypatch: pytest.MonkeyPatch, four: dict[str, float]) -> None:
    pending = [True] * 90 + [False] * 200  # the launch is refused after three minutes, and succeeds later
    placement_at = [[SMALL]] * 300 + [[SMALL, BIG]]
    cluster = Cluster(monkeypatch, placement_at, pending)
    placement.wait_for_capacity(four, timeout_s=1800, grows=True)
    assert cluster.now > 500
    cluster = Cluster(monkeypatch, [[SMALL]] * 100 + [[SMALL, BIG]], [True] * 200)
    placement.wait_for_capacity(four, timeout_s=50, grows=True)
    assert cluster.now > 150
    assert (cluster.placement_groups, cluster.taken_back) == (
        [[four]],
        ["the group"],
    )  # or its node would stay for ever


def test_cancelled_run_stops_waiting(monkeypatch: pytest.MonkeyPatch, four: dict[str, float]) -> None:
    cluster = Cluster(monkeypatch, [[SMALL]] * 100, [True] * 100)
    with pytest.raises(RunCancelledError):
        placement.wait_for_capacity(four, timeout_s=50, grows=True, stopped=lambda: cluster.now > 7)
    assert cluster.now < 10
    assert cluster.taken_back == ["the group"]


def test_group_of_a_dead_cluster_is_not_removed(monkeypatch: pytest.MonkeyPatch, four: dict[str, float]) -> None:
    import ray

    cluster = Cluster(monkeypatch, [[SMALL], [SMALL, BIG]], [True])
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    placement.wait_for_capacity(four, timeout_s=50, grows=True)
    assert cluster.taken_back == []  # to ask for it would start another Ray


@pytest.mark.parametrize(
    ("pools", "sizes", "selector"),
    [
        ({8: "gpu8", 1: "gpu1"}, (1,), {"pool": "gpu1"}),
        ({8: "gpu8", 1: "gpu1"}, (1, 8), {"pool": "in(gpu1,gpu8)"}),
        ({8: "gpu8"}, (1,), {"pool": "gpu1"}),  # a node that comes on demand
        ({8: "large", 1: "gpu1"}, (1,), {"ray.io/node-id": "id1"}),
        ({8: None, 1: None}, (1,), {"ray.io/node-id": "id1"}),
        ({8: None, 4: None, 1: None}, (1, 8), {"ray.io/node-id": "in(id8,id1)"}),
        ({8: None, 1: None}, (1, 8), {}),  # all of them
        ({}, (1,), {}),
        ({8: "gpu8"}, (), {}),
    ],
)
def test_nodes_of_a_size_are_selected_where_labels_tell_it(
    pools: dict[int, str | None], sizes: tuple[int, ...], selector: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    nodes: list[dict[str, Any]] = [{"Alive": True, "Resources": {"CPU": 4.0}}]
    for gpus, pool in pools.items():
        nodes.append({"Alive": True, "NodeID": f"id{gpus}", "Resources": {"GPU": float(gpus)}})
        nodes[-1]["Labels"] = {"pool": pool} if pool else {}
    nodes.append({"Alive": False, "Resources": {"GPU": 4.0}})
    monkeypatch.setattr(ray, "nodes", lambda: nodes)
    options = placement.node_selectors(sizes)
    assert options.get("label_selector", {}) == selector
    assert ("fallback_strategy" in options) == ("ray.io/node-id" in selector)


@pytest.mark.parametrize(
    ("sizes", "gpus", "packed"),
    [((1,), 1, "a"), ((1,), 2, "in(a,b)"), ((1, 8), 3, "d"), ((8,), 8, "d"), ((1,), 3, "in(a,b,c)")],
)
def test_shares_take_fewest_nodes(
    sizes: tuple[int, ...], gpus: int, packed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    nodes = [{"NodeID": name, "Alive": True, "Resources": {"GPU": float(1 if name < "d" else 8)}} for name in "abcd"]
    monkeypatch.setattr(ray, "nodes", lambda: nodes)
    free = [SimpleNamespace(node_id=name, available_resources=lambda gpus=gpus: {"GPU": gpus})
            for name, gpus in {"a": 1.0, "b": 1.0, "c": 1.0, "d": 6.0}.items()]  # fmt: skip
    status = SimpleNamespace(active_nodes=free[2:], idle_nodes=free[:2])
    monkeypatch.setattr(placement, "_cluster_status", lambda: status)
    selector = placement.node_selectors(sizes, gpus=gpus)["label_selector"]
    assert selector == {"ray.io/node-id": packed}
