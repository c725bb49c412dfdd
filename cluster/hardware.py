"""Hardware of the nodes of a cluster and of this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from typing import Any

TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node of the cluster, or this machine; sizes in bytes."""

    name: str
    cpus: float
    memory: int
    gpu_bytes: tuple[int, ...]
    """Memory of each GPU that Ray may use."""


def node_inventory() -> list[Node]:
    """Return every node of the connected cluster, without GPU sizes if it does not answer within a minute.

    The node is queried: Ray knows the number of its GPUs, not their size.
    """
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    alive = [node for node in ray.nodes() if node["Alive"]]
    query = ray.remote(num_cpus=0)(_query_gpu_bytes)
    nodes = {
        query.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)).remote(): node
        for node in alive
    }
    ready, _ = ray.wait(list(nodes), num_returns=len(nodes), timeout=TIMEOUT_S)
    return [_node(node, ray.get(ref) if ref in ready else []) for ref, node in nodes.items()]


def _node(raw: dict[str, Any], sizes: list[int]) -> Node:
    resources = raw["Resources"]
    return Node(
        name=f"node {raw['NodeManagerAddress']}",
        cpus=resources.get("CPU", 0.0),
        memory=int(resources.get("memory", 0)),
        gpu_bytes=tuple(sizes[: int(resources.get("GPU", 0))]),
    )


def _query_gpu_bytes() -> list[int]:
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    query = [program, "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
    result = subprocess.run(query, capture_output=True, text=True, timeout=TIMEOUT_S / 2, check=False)  # noqa: S603
    return [int(line) << 20 for line in result.stdout.split() if line.isdigit()]


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU; sizes in bytes."""

    name: str
    total: int
    free: int


def local_gpus() -> list[Gpu]:
    """Return the GPUs that nvidia-smi lists; [] without a GPU or driver."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    query = [program, "--query-gpu=name,memory.total,memory.free", "--format=csv,noheader,nounits"]
    try:
        result = subprocess.run(query, capture_output=True, text=True, timeout=30, check=True)  # noqa: S603  fixed words
    except (OSError, subprocess.SubprocessError):
        return []
    gpus = []
    for line in result.stdout.splitlines():
        name, *sizes = (field.strip() for field in line.rsplit(",", 2))
        if len(sizes) == 2 and all(size.isdigit() for size in sizes):
            total, free = (int(size) << 20 for size in sizes)
            gpus.append(Gpu(name, total, free))
    return gpus


def local_memory() -> tuple[int, int]:
    """Return the bytes of main memory: total and available."""
    page = os.sysconf("SC_PAGE_SIZE")
    return os.sysconf("SC_PHYS_PAGES") * page, os.sysconf("SC_AVPHYS_PAGES") * page
