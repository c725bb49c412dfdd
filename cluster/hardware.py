"""What the nodes of a joined cluster have."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from typing import Any

WAIT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One machine."""

    name: str
    cpus: float
    memory: int
    """Bytes."""
    cards: tuple[int, ...]
    """Bytes of each GPU that Ray may use."""


def nodes_of() -> list[Node]:
    """Every living node of the cluster that was joined. Each is asked itself: Ray knows how many GPUs, not how large.

    A node that does not answer within a minute is told without its GPUs' sizes.
    """
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    alive = [node for node in ray.nodes() if node["Alive"]]
    look = ray.remote(num_cpus=0)(_look)
    asked = {
        look.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)).remote(): node
        for node in alive
    }
    ready, _ = ray.wait(list(asked), num_returns=len(asked), timeout=WAIT_S)
    return [_node(node, ray.get(ref) if ref in ready else []) for ref, node in asked.items()]


def _node(raw: dict[str, Any], sizes: list[int]) -> Node:
    has = raw["Resources"]
    return Node(
        name=f"node {raw['NodeManagerAddress']}",
        cpus=has.get("CPU", 0.0),
        memory=int(has.get("memory", 0)),
        cards=tuple(sizes[: int(has.get("GPU", 0))]),
    )


def _look() -> list[int]:
    """Bytes of each GPU, as nvidia-smi tells; runs on the node."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    query = [program, "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
    told = subprocess.run(query, capture_output=True, text=True, timeout=WAIT_S / 2, check=False)  # noqa: S603
    return [int(line) << 20 for line in told.stdout.split() if line.isdigit()]


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU."""

    name: str
    total: int
    """Bytes."""
    free: int
    """Bytes, at this moment."""


def cards_here() -> list[Gpu]:
    """The GPUs that nvidia-smi lists; empty where there is none, or no driver."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    query = [program, "--query-gpu=name,memory.total,memory.free", "--format=csv,noheader,nounits"]
    try:
        told = subprocess.run(query, capture_output=True, text=True, timeout=30, check=True)  # noqa: S603  fixed words
    except (OSError, subprocess.SubprocessError):
        return []
    cards = []
    for line in told.stdout.splitlines():
        name, *sizes = (field.strip() for field in line.rsplit(",", 2))
        if len(sizes) == 2 and all(size.isdigit() for size in sizes):
            total, free = (int(size) << 20 for size in sizes)
            cards.append(Gpu(name, total, free))
    return cards


def memory_here() -> tuple[int, int]:
    """Bytes of main memory: all, and what can be had now."""
    page = os.sysconf("SC_PAGE_SIZE")
    return os.sysconf("SC_PHYS_PAGES") * page, os.sysconf("SC_AVPHYS_PAGES") * page
