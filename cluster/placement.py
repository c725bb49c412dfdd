"""Check within a minute that a replica fits on some node; Ray would wait without a message."""

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from cluster.errors import ClusterError, RunCancelledError

log = logging.getLogger(__name__)

POLL_S = 2.0


def wait_for_capacity(
    demand: Mapping[str, float], *, timeout_s: float, grows: bool, stopped: Callable[[], bool] = lambda: False
) -> None:
    """Return when some node is large enough for a demand, which one replica takes on one node, busy or not.

    A node that is not announced is awaited for `timeout_s`; with `grows`, the demand is shown to the autoscaler, and
    pending nodes are awaited.

    Raises:
        ClusterError: no node is large enough and none is pending; says what is missing.
        RunCancelledError: `stopped` returned true.
    """
    import ray

    end = time.monotonic() + timeout_s
    problem = describe_shortage(demand, _alive(ray.nodes()))
    if not problem:
        return
    if not grows:
        raise ClusterError(problem)
    log.warning("waiting for a node: %s", problem)
    with _visible_demand(demand):
        while problem:
            if stopped():
                raise RunCancelledError("cancelled while waiting for a node")
            if time.monotonic() > end and not _has_pending_nodes():
                raise ClusterError(problem)
            time.sleep(POLL_S)
            problem = describe_shortage(demand, _alive(ray.nodes()))


@contextlib.contextmanager
def _visible_demand(demand: Mapping[str, float]) -> Iterator[None]:
    """Show a demand to the autoscaler for the length of a block, as a pending placement group.

    Not by `request_resources`: a cluster has one such request, which another model would replace, and keeps its nodes.
    """
    import ray
    from ray.util.placement_group import placement_group, remove_placement_group

    group = placement_group([dict(demand)])
    try:
        yield
    finally:
        if ray.is_initialized():  # else this call would start a Ray
            remove_placement_group(group)


def gpus_of_nodes() -> list[int]:
    """Return the GPUs of each live node that has some."""
    import ray

    counts = [int(node.get("GPU", 0)) for node in _alive(ray.nodes())]
    return [count for count in counts if count]


def node_selectors(sizes: Sequence[int], *, gpus: int = 0) -> dict[str, Any]:
    """Return Ray's options that place actors on the nodes with these numbers of GPUs; {} where any node will do.

    With `gpus`, actors that share GPUs are placed on the fewest live nodes on which so many are free, if there are.

    Nodes are selected by the label `pool` (`gpu1` for one GPU and so on, as the cluster files give) where every live
    node with GPUs has it; else by their ids, which later nodes do not have: where these are gone, others will do.
    """
    import ray

    nodes = [node for node in ray.nodes() if node.get("Alive") and node["Resources"].get("GPU")] if sizes else []
    if not nodes:
        return {}
    if packed := _pack([node["NodeID"] for node in nodes if node["Resources"]["GPU"] in sizes], gpus):
        return {"label_selector": {"ray.io/node-id": _any_of(packed)}, "fallback_strategy": [{"label_selector": {}}]}
    pools = {(f"gpu{node['Resources']['GPU']:g}", (node.get("Labels") or {}).get("pool")) for node in nodes}
    if all(expected == pool for expected, pool in pools):
        return {"label_selector": {"pool": _any_of([f"gpu{size}" for size in sizes])}}
    ids = [node["NodeID"] for node in nodes if node["Resources"]["GPU"] in sizes]
    if len(ids) in (0, len(nodes)):
        return {}
    return {"label_selector": {"ray.io/node-id": _any_of(ids)}, "fallback_strategy": [{"label_selector": {}}]}


def _pack(nodes: Sequence[str], gpus: int) -> list[str]:
    """Return the nodes with the most free GPUs that together have `gpus`; [] where there are too few."""
    free = dict.fromkeys(nodes, 0)
    if gpus and (status := _cluster_status()):
        active = [*status.active_nodes, *status.idle_nodes]
        free |= {node.node_id: int(node.available_resources().get("GPU", 0)) for node in active if node.node_id in free}
    packed: list[str] = []
    for node in sorted(nodes, key=lambda node: (-min(gpus, free[node]), free[node])):
        if gpus > 0 and free[node]:
            packed.append(node)
            gpus -= free[node]
    return packed if gpus <= 0 else []


def _any_of(values: Sequence[str]) -> str:
    return values[0] if len(values) == 1 else f"in({','.join(values)})"


def describe_shortage(demand: Mapping[str, float], nodes: Sequence[Mapping[str, float]]) -> str:
    """Describe why no node meets a demand; '' if one does."""
    needed = {name: amount for name, amount in demand.items() if amount > 0}
    if any(all(node.get(name, 0) >= amount for name, amount in needed.items()) for node in nodes):
        return ""
    available = "; ".join(sorted({_format({name: node.get(name, 0) for name in needed}) for node in nodes})) or "none"
    missing = [name for name, amount in needed.items() if all(node.get(name, 0) < amount for node in nodes)]
    shortage = f"no node has {_format({name: needed[name] for name in missing})}" if missing else "no node has both"
    return f"a replica needs {_format(needed)} on one node, and {shortage} (nodes: {available})"


def _format(amounts: Mapping[str, float]) -> str:
    return " and ".join(f"{amount:g} {name}{'s' if amount != 1 else ''}" for name, amount in amounts.items())


def _alive(nodes: Sequence[Mapping[str, Any]]) -> list[Mapping[str, float]]:
    return [node["Resources"] for node in nodes if node.get("Alive")]


def _has_pending_nodes() -> bool:
    status = _cluster_status()
    return bool(status and (status.pending_nodes or status.pending_launches))


def _cluster_status() -> Any:
    """Return what the autoscaler reports of the cluster; None if it does not respond."""
    import ray
    from ray.autoscaler.v2.sdk import get_cluster_status

    try:
        return get_cluster_status(ray.get_runtime_context().gcs_address)
    except (RuntimeError, TimeoutError, AttributeError, ray.exceptions.RayError):
        return None
