"""The maximum number of GPU nodes of an autoscaling cluster: a label of the head, as Ray does not expose the limit."""

import re

MAX_NODES_LABEL = "vlmsweep/grows-to"
"""Label of a node, normally the head: the maximum number of GPU nodes, such as `10x1_6x8`."""
_NODES = re.compile(r"([1-9]\d{0,4})x([1-9]\d?)")


def parse_max_nodes_label(text: str) -> tuple[int, ...]:
    """Return the GPUs of each node, largest first, `2x1_1x4` as (4, 1, 1); ValueError for another form."""
    matches = [_NODES.fullmatch(part) for part in text.split("_")]
    if not all(matches):
        raise ValueError(
            f"label {MAX_NODES_LABEL} is {text!r}; write COUNTxGPUS, such as 10x1_6x8 for 10 nodes of 1 and 6 of 8"
        )
    return tuple(sorted((int(match[2]) for match in matches if match for _ in range(int(match[1]))), reverse=True))


def max_gpu_nodes() -> tuple[int, ...]:
    """Return the GPUs of each node of the cluster at full scale: () without a label, ValueError for a bad one."""
    import ray

    labels = (node.get("Labels") or {} for node in ray.nodes() if node.get("Alive"))
    text = next((label[MAX_NODES_LABEL] for label in labels if MAX_NODES_LABEL in label), "")
    return parse_max_nodes_label(text) if text else ()
