"""Whether nodes may still come to a cluster that was joined, and how many GPUs they bring.

Ray tells nobody what its autoscaler may add. So the head says it by a label, which the files in `infra/` set beside the
node groups it is taken from; without one it is only known that an autoscaler is there.
"""

from __future__ import annotations

import contextlib
import json
import re
from typing import Any

__all__ = ["GROWS_TO", "grows_to", "read_label", "scales"]

GROWS_TO = "vlmsweep/grows-to"
"""Label of a node, the head as a rule: nodes with GPUs that there may be at the most, such as `10x1_6x8`."""
_NODES = re.compile(r"([1-9]\d{0,4})x([1-9]\d?)")
_UNTYPED = "node_"
"""How Ray names the type of a node that nobody's autoscaler started, followed by the node's id."""


def read_label(text: str) -> tuple[int, ...]:
    """GPUs of each node of `COUNTxGPUS_COUNTxGPUS`, largest first: `2x1_1x4` is (4, 1, 1).

    Raises:
        ValueError: it is not written so.
    """
    found = [_NODES.fullmatch(part) for part in text.split("_")]
    if not all(found):
        raise ValueError(
            f"label {GROWS_TO} is {text!r}; write COUNTxGPUS, such as 10x1_6x8 for 10 nodes of 1 and 6 of 8"
        )
    return tuple(sorted((int(one[2]) for one in found if one for _ in range(int(one[1]))), reverse=True))


def grows_to() -> tuple[int, ...]:
    """GPUs of each node that the joined cluster may have at the most, as its label tells; () without one.

    Raises:
        ValueError: the label cannot be read.
    """
    import ray

    labels = (node.get("Labels") or {} for node in ray.nodes() if node.get("Alive"))
    told = next((own[GROWS_TO] for own in labels if GROWS_TO in own), "")
    return read_label(told) if told else ()


def scales() -> bool:
    """Whether an autoscaler, of Ray's first or second kind, looks after the joined cluster: its nodes have types."""
    return any(not name.startswith(_UNTYPED) for name in _node_types())


def _node_types() -> set[str]:
    import ray
    from ray.autoscaler.v2.sdk import get_cluster_status
    from ray.experimental.internal_kv import _internal_kv_get

    types: set[str] = set()
    with contextlib.suppress(ValueError, KeyError, TypeError):
        report: dict[str, Any] = json.loads(_internal_kv_get("__autoscaling_status") or "{}")
        types |= set((report.get("autoscaler_report") or {}).get("active_nodes") or {})
    with contextlib.suppress(RuntimeError, TimeoutError, AttributeError):
        status = get_cluster_status(ray.get_runtime_context().gcs_address)
        types |= {node.ray_node_type_name for node in (*status.active_nodes, *status.idle_nodes)}
    return {name for name in types if name}
