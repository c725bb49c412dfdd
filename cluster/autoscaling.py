"""Whether nodes may still come to a cluster that was joined, and how many GPUs they bring.

Ray tells nobody what its autoscaler may add, nor for certain that there is one: nodes of a fixed cluster may have types
as well. So the head says it by a label, which the files in `infra/` set beside the node groups it is taken from.
"""

from __future__ import annotations

import re

GROWS_TO = "vlmsweep/grows-to"
"""Label of a node, the head as a rule: nodes with GPUs that there may be at the most, such as `10x1_6x8`."""
_NODES = re.compile(r"([1-9]\d{0,4})x([1-9]\d?)")


def parse_max_nodes_label(text: str) -> tuple[int, ...]:
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


def max_gpu_nodes() -> tuple[int, ...]:
    """GPUs of each node that the joined cluster may have at the most, as its label tells; () without one.

    Raises:
        ValueError: the label cannot be read.
    """
    import ray

    labels = (node.get("Labels") or {} for node in ray.nodes() if node.get("Alive"))
    told = next((own[GROWS_TO] for own in labels if GROWS_TO in own), "")
    return parse_max_nodes_label(told) if told else ()
