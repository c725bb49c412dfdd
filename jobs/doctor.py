"""`vlmsweep doctor`: what this machine or a cluster can run, checked one by one; each finding stands on its own."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cluster.connect import connect
from cluster.errors import ClusterError
from cluster.hardware import Node, local_gpus, local_memory, node_inventory
from models.availability import unavailable_reason
from models.gpu_memory import Placement, bytes_per_weight, model_size, plan_placement
from models.spec import ModelSpec
from pipelines.errors import PipelineError
from pipelines.storage.backend import is_remote
from pipelines.storage.store import Store

LEAST_DISK = 10 * 10**9
"""Free bytes below which a place for results or data is warned about."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One thing looked at."""

    what: str
    state: str
    """`ok`; `note`: works with less; `bad`: what was asked for cannot work."""
    detail: str


def ok(findings: Sequence[CheckResult]) -> bool:
    """Whether nothing that was asked for is out of reach."""
    return all(one.state != "bad" for one in findings)


def run_checks(
    models: Mapping[str, ModelSpec], *, named: bool, places: Sequence[str], address: str | None
) -> list[CheckResult]:
    """Look at everything.

    Args:
        models: those to reckon for.
        named: the user named them: one that cannot run is `bad`, and not only a `note`.
        places: folders or s3:// addresses of data and results.
        address: a Ray cluster; None looks at this machine.
    """
    found = [_here(), *map(_place, places), *_decoders()]
    nodes: list[Node] | None = [_this_node()]
    if address:
        nodes = None
        try:
            with connect(address):
                nodes = node_inventory()
        except ClusterError as error:
            found.append(CheckResult("cluster", "bad", str(error)))
    if nodes is None:
        return found
    found += [_node(one) for one in nodes]
    return [*found, *(_model(name, spec, nodes, named=named) for name, spec in models.items())]


def models_here(models: Mapping[str, ModelSpec]) -> list[CheckResult]:
    """Of each model whether this machine can run it: `ok`, `bad`, or `note` where nobody can tell."""
    nodes = [_this_node()]
    return [_model(name, spec, nodes, named=True) for name, spec in models.items()]


def to_dicts(findings: Sequence[CheckResult]) -> list[dict[str, Any]]:
    """For `--json`."""
    return [asdict(one) for one in findings]


def _here() -> CheckResult:
    import importlib.metadata as meta

    versions = ", ".join(f"{name} {meta.version(name)}" for name in ("ray", "torch", "transformers", "vlmsweep"))
    return CheckResult("software", "ok", f"Python {platform.python_version()}, {versions}")


def _this_node() -> Node:
    cards = tuple(card.total for card in local_gpus())
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return Node(name="this machine", cpus=float(cpus), memory=local_memory()[0], gpu_bytes=cards)


def _node(node: Node) -> CheckResult:
    sizes = sorted({f"{card / 1e9:.0f} GB" for card in node.gpu_bytes})
    gpus = f"{len(node.gpu_bytes)} GPUs of {' and '.join(sizes)}" if node.gpu_bytes else "no GPU: models run on the CPU"
    words = f"{node.cpus:g} CPUs, {node.memory / 1e9:.0f} GB memory, {gpus}"
    return CheckResult(node.name, "ok" if node.gpu_bytes else "note", words)


def _place(uri: str) -> CheckResult:
    try:
        Store(uri).check_writable()
    except PipelineError as error:
        return CheckResult(uri, "bad", str(error))
    if is_remote(uri):
        return CheckResult(uri, "ok", "reachable and writable")
    free = shutil.disk_usage(_existing(Path(uri).expanduser())).free
    state = "ok" if free >= LEAST_DISK else "note"
    return CheckResult(
        uri, state, f"writable, {free / 1e9:.0f} GB free" + ("" if state == "ok" else ": that is little")
    )


def _existing(path: Path) -> Path:
    return path if path.exists() else _existing(path.absolute().parent)


def _decoders() -> list[CheckResult]:
    """Clips need one of two decoders; the second one takes what the first cannot."""
    there = {name: importlib.util.find_spec(name) is not None for name in ("decord", "av")}
    if all(there.values()):
        return [CheckResult("decoders", "ok", "decord, and PyAV when it fails")]
    missing = " and ".join(name for name, found in there.items() if not found)
    state = "note" if any(there.values()) else "bad"
    return [CheckResult("decoders", state, f"not installed: {missing}; pip install {missing.replace(' and', '')}")]


def _model(name: str, spec: ModelSpec, nodes: Sequence[Node], *, named: bool) -> CheckResult:
    unable = "bad" if named else "note"
    why = unavailable_reason(spec)
    if why:
        return CheckResult(name, unable, why)
    if not spec.runs_locally:
        return CheckResult(name, "ok", "needs no GPU")
    size = model_size(spec)
    if size is None:
        return CheckResult(name, "note", "its size is not known: give parameters_b in its entry")
    cards = [node.gpu_bytes for node in nodes if node.gpu_bytes]
    if not cards or spec.device == "cpu":
        return _on_cpu(name, size.parameters * bytes_per_weight(spec), max(node.memory for node in nodes), unable)

    # A replica's ranks lie on one node; nodes are tried one by one and the best is told.
    def best_of(degree: int | None) -> Placement:
        placed = [plan_placement(spec, size, own, tensor_parallel=degree) for own in cards]
        return max(placed, key=lambda one: (one.fits, one.batch_size, one.gpu_bytes))

    return _on_gpus(name, spec, best_of, unable)


def _on_cpu(name: str, weights: float, memory: int, unable: str) -> CheckResult:
    words = f"no GPU; {weights / 1e9:.1f} GB of weights against {memory / 1e9:.0f} GB of memory"
    if weights * 1.2 > memory:
        return CheckResult(name, unable, f"{words}: does not fit")
    return CheckResult(name, "ok", f"{words}: runs on the CPU, slowly")


def _on_gpus(name: str, spec: ModelSpec, best_of: Callable[[int | None], Placement], unable: str) -> CheckResult:
    stated, proposed = best_of(spec.tensor_parallel), best_of(None)
    if stated.fits:
        extra = ""
        if proposed.fits and proposed.tensor_parallel != stated.tensor_parallel:
            extra = f"; arithmetic proposes tensor_parallel {proposed.tensor_parallel}"
        return CheckResult(name, "ok", f"fits: {_laid(stated)}{extra}")
    if proposed.fits:
        return CheckResult(
            name,
            unable,
            f"not as its entry says ({stated.reason}); it would with tensor_parallel {proposed.tensor_parallel}: "
            f"{_laid(proposed)}",
        )
    return CheckResult(name, unable, proposed.reason)


def _laid(one: Placement) -> str:
    return (
        f"tensor_parallel {one.tensor_parallel}, {one.replicas} replicas a node, batches of {one.batch_size}, "
        f"{one.bytes_per_gpu / 1e9:.1f} of {one.gpu_bytes / 1e9:.0f} GB on each GPU"
    )
