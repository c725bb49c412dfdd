"""Whether a replica can be placed at all: said in words within a minute, where Ray would wait without one."""

from __future__ import annotations

import contextlib
import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from cluster.errors import ClusterError, RunCancelledError

log = logging.getLogger(__name__)

POLL_S = 2.0
_UNITS = ("GPU", "CPU")


def wait_for_capacity(
    demand: Mapping[str, float], *, patience_s: float, grows: bool, stopped: Callable[[], bool] = lambda: False
) -> None:
    """Return when some node is large enough for a demand, busy or not.

    Args:
        demand: resources that one replica takes, all on one node, such as `{"GPU": 4, "CPU": 1}`.
        patience_s: seconds to wait for a node that nobody has announced.
        grows: the cluster may add nodes; it sees the demand meanwhile, and nodes on their way are waited for.
        stopped: whether nobody wants the place any more.

    Raises:
        ClusterError: no node is large enough, and none is coming; says what is lacking.
        StoppedError: `stopped` says so.
    """
    import ray

    end = time.monotonic() + patience_s
    problem = describe_shortage(demand, _alive(ray.nodes()))
    if not problem:
        return
    if not grows:
        raise ClusterError(problem)
    log.warning("waiting for a node: %s", problem)
    with _wished_for(demand):
        while problem:
            if stopped():
                raise RunCancelledError("stopped while a node was waited for")
            if time.monotonic() > end and not _nodes_are_coming():
                raise ClusterError(problem)
            time.sleep(POLL_S)
            problem = describe_shortage(demand, _alive(ray.nodes()))


@contextlib.contextmanager
def _wished_for(demand: Mapping[str, float]) -> Iterator[None]:
    """Let the autoscaler see a demand for the length of a block.

    A placement group that waits is such a demand. `request_resources` is not used: there is one such request a
    cluster, which Ray Data's own for another model would replace, and which keeps its nodes for ever after.
    """
    import ray
    from ray.util.placement_group import placement_group, remove_placement_group

    group = placement_group([dict(demand)])
    try:
        yield
    finally:
        if ray.is_initialized():  # else this very call would start a Ray
            remove_placement_group(group)


def gpus_of_nodes() -> list[int]:
    """GPUs of each node that is alive and has some."""
    import ray

    counts = [int(node.get("GPU", 0)) for node in _alive(ray.nodes())]
    return [count for count in counts if count]


def describe_shortage(demand: Mapping[str, float], nodes: Sequence[Mapping[str, float]]) -> str:
    """What keeps a demand from every node, in words; '' when one is large enough.

    Args:
        demand: resources wanted together.
        nodes: resources of each node.
    """
    wanted = {name: amount for name, amount in demand.items() if amount > 0}
    if any(all(node.get(name, 0) >= amount for name, amount in wanted.items()) for node in nodes):
        return ""
    there = "; ".join(sorted({_words({name: node.get(name, 0) for name in wanted}) for node in nodes})) or "none"
    short = [name for name, amount in wanted.items() if all(node.get(name, 0) < amount for node in nodes)]
    lacks = f"no node has {_words({name: wanted[name] for name in short})}" if short else "no node has both"
    return f"a replica needs {_words(wanted)} on one node, and {lacks} (nodes: {there})"


def _words(amounts: Mapping[str, float]) -> str:
    return " and ".join(f"{amount:g} {name}{'s' if amount != 1 else ''}" for name, amount in amounts.items())


def _alive(nodes: Sequence[Mapping[str, Any]]) -> list[Mapping[str, float]]:
    return [node["Resources"] for node in nodes if node.get("Alive")]


def _nodes_are_coming() -> bool:
    """Whether an autoscaler, of Ray's first or second kind, has nodes under way."""
    import ray
    from ray.autoscaler.v2.sdk import get_cluster_status
    from ray.experimental.internal_kv import _internal_kv_get

    with contextlib.suppress(ValueError, KeyError, TypeError):
        told = json.loads(_internal_kv_get("__autoscaling_status") or "{}")
        report = told.get("autoscaler_report") or {}
        if report.get("pending_nodes") or report.get("pending_launches"):
            return True
    with contextlib.suppress(RuntimeError, TimeoutError, AttributeError, ray.exceptions.RayError):
        status = get_cluster_status(ray.get_runtime_context().gcs_address)
        return bool(status.pending_nodes or status.pending_launches)
    return False
