"""Hardware of the nodes of a cluster and of this machine."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from typing import Any

log = logging.getLogger(__name__)

TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node of the cluster, or this machine; sizes in bytes."""

    name: str
    cpus: float
    memory: int
    gpu_bytes: tuple[int, ...]
    """Memory of each GPU that Ray may use; 0 where it is unknown."""


def node_inventory() -> list[Node]:
    """Return every node of the connected cluster; sizes of GPUs are unknown if it does not answer within a minute.

    The node is queried: Ray knows the number of its GPUs, not their size.
    """
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    alive = [node for node in ray.nodes() if node["Alive"]]
    query = ray.remote(num_cpus=0)(local_gpus)
    nodes = {
        query.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)).remote(): node
        for node in alive
    }
    ready, _ = ray.wait(list(nodes), num_returns=len(nodes), timeout=TIMEOUT_S)
    return [_node(node, ray.get(ref) if ref in ready else []) for ref, node in nodes.items()]


def _node(raw: dict[str, Any], sizes: list[int]) -> Node:
    resources = raw["Resources"]
    gpus = int(resources.get("GPU", 0))
    return Node(
        name=f"node {raw['NodeManagerAddress']}",
        cpus=resources.get("CPU", 0.0),
        memory=int(resources.get("memory", 0)),
        gpu_bytes=tuple((*sizes, *[0] * gpus)[:gpus]),
    )


@cache
def _list_gpus(program: str) -> tuple[int, ...]:
    query = [program, "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
    try:
        result = subprocess.run(query, capture_output=True, text=True, timeout=TIMEOUT_S / 2, check=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError) as error:
        log.warning("the GPUs of this machine are unknown: %s", error)
        return ()
    lines = [line.strip() for line in result.stdout.splitlines()]
    # `[N/A]` where a GPU shares the main memory.
    return tuple(int(line) << 20 if line.isdigit() else 0 for line in lines if line.isdigit() or line.startswith("["))


def local_gpus() -> list[int]:
    """Return the memory of each GPU that nvidia-smi lists, 0 where it is unknown; [] without a GPU or driver.

    It is asked once, and a failure is logged once: it may take half a minute where a driver is ill.
    """
    program = shutil.which("nvidia-smi")
    return [*_list_gpus(program)] if program else []


def local_memory() -> tuple[int, int]:
    """Return the bytes of main memory: total and available."""
    page = os.sysconf("SC_PAGE_SIZE")
    return os.sysconf("SC_PHYS_PAGES") * page, os.sysconf("SC_AVPHYS_PAGES") * page
