"""Hardware of the nodes of a cluster and of this machine."""

import logging
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from typing import Any

from models.engines.gpu_check import driver_problem, driver_version
from models.engines.weights import free_host_bytes

log = logging.getLogger(__name__)

TIMEOUT_S = 60.0
_PLAIN = ("--format=csv,noheader,nounits",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node of the cluster, or this machine; sizes in bytes."""

    name: str
    cpus: float
    memory: int
    gpu_bytes: tuple[int, ...]  # memory of each GPU that Ray may use; 0 where it is unknown
    gpu_problem: str = ""  # why torch cannot use them


def node_inventory() -> list[Node]:
    """Return every node of the connected cluster; sizes of GPUs are unknown if it does not answer within a minute.

    The node is queried: Ray knows the number of its GPUs, not their size.
    """
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    alive = [node for node in ray.nodes() if node["Alive"]]
    query = ray.remote(num_cpus=0)(_local_gpus_and_problem)
    nodes = {
        query.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)).remote(): node
        for node in alive
    }
    ready, _ = ray.wait(list(nodes), num_returns=len(nodes), timeout=TIMEOUT_S)
    return [_node(node, *(ray.get(ref) if ref in ready else ([], ""))) for ref, node in nodes.items()]


def _node(raw: dict[str, Any], sizes: list[int], problem: str = "") -> Node:
    resources = raw["Resources"]
    gpus = int(resources.get("GPU", 0))
    return Node(
        name=f"node {raw['NodeManagerAddress']}",
        cpus=resources.get("CPU", 0.0),
        memory=int(resources.get("memory", 0)),
        gpu_bytes=tuple((*sizes, *[0] * gpus)[:gpus]),
        gpu_problem=problem if gpus else "",
    )


@cache
def _list_gpus(program: str) -> tuple[int, ...]:
    try:
        rows = [
            line.strip() for line in _ask(program, "--query-gpu=memory.total,mig.mode.current", *_PLAIN).splitlines()
        ]
        if any(row.endswith("Enabled") for row in rows):
            return _slices(_ask(program, "-L"), [row.partition(",")[0] for row in rows])
    except (OSError, subprocess.SubprocessError) as error:
        log.warning("the GPUs of this machine are unknown: %s", error)
        return ()
    sizes = [row.partition(",")[0] for row in rows]
    return tuple(_bytes(size) for size in sizes if size.isdigit() or size.startswith("["))


def _ask(program: str, *arguments: str) -> str:
    command = [program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S / 2, check=True).stdout  # noqa: S603


def _bytes(size: str) -> int:
    """Return the bytes of a column of MiB, 0 for the `[N/A]` of a GPU that shares the main memory."""
    return int(size) << 20 if size.isdigit() else 0


def _slices(listing: str, sizes: list[str]) -> tuple[int, ...]:
    """Return the memory of each slice that `nvidia-smi -L` lists below its card, and of each card without slices."""
    cards: list[list[int]] = []
    for line in listing.splitlines():
        if line.startswith("GPU "):
            cards.append([])
        elif cards and (profile := re.match(r"\s+MIG \d+(?:c\.\d+)?g\.(\d+)gb", line)):
            cards[-1].append(int(profile[1]) << 30)
    return tuple(slice_ for card, size in zip(cards, sizes, strict=False) for slice_ in card or [_bytes(size)])


def local_gpus() -> list[int]:
    """Return the memory of each GPU that nvidia-smi lists, 0 where it is unknown; [] without a GPU or driver.

    It is asked once, and a failure is logged once: it may take half a minute where a driver is ill.
    """
    program = shutil.which("nvidia-smi")
    return [*_list_gpus(program)] if program else []


def gpu_problem() -> str:
    """Return why torch cannot use the GPUs of this machine, by the versions of its driver and of torch's CUDA."""
    if not local_gpus():
        return ""
    import torch

    return driver_problem(driver_version(), torch.version.cuda)


def _local_gpus_and_problem() -> tuple[list[int], str]:
    return local_gpus(), gpu_problem()


def local_memory() -> tuple[int, int]:
    """Return the bytes of main memory: total and available."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), free_host_bytes()
