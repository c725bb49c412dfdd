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

from cluster.connect import ClusterError, joined
from cluster.hardware import Node, cards_here, memory_here, nodes_of
from models.availability import why_not_here
from models.gpu_memory import Placement, bytes_a_weight, place, size_of
from models.spec import ModelSpec
from pipelines.storage.errors import StoreError
from pipelines.storage.store import Store, is_remote

LEAST_DISK = 10 * 10**9
"""Free bytes below which a place for results or data is warned about."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at."""

    what: str
    state: str
    """`ok`; `note`: works with less; `bad`: what was asked for cannot work."""
    told: str


def ok(findings: Sequence[Finding]) -> bool:
    """Whether nothing that was asked for is out of reach."""
    return all(one.state != "bad" for one in findings)


def examine(
    models: Mapping[str, ModelSpec], *, named: bool, places: Sequence[str], address: str | None
) -> list[Finding]:
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
            with joined(address):
                nodes = nodes_of()
        except ClusterError as error:
            found.append(Finding("cluster", "bad", str(error)))
    if nodes is None:
        return found
    found += [_node(one) for one in nodes]
    return [*found, *(_model(name, spec, nodes, named=named) for name, spec in models.items())]


def models_here(models: Mapping[str, ModelSpec]) -> list[Finding]:
    """Of each model whether this machine can run it: `ok`, `bad`, or `note` where nobody can tell."""
    nodes = [_this_node()]
    return [_model(name, spec, nodes, named=True) for name, spec in models.items()]


def told(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """For `--json`."""
    return [asdict(one) for one in findings]


def _here() -> Finding:
    import importlib.metadata as meta

    versions = ", ".join(f"{name} {meta.version(name)}" for name in ("ray", "torch", "transformers", "vlmsweep"))
    return Finding("software", "ok", f"Python {platform.python_version()}, {versions}")


def _this_node() -> Node:
    cards = tuple(card.total for card in cards_here())
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return Node(name="this machine", cpus=float(cpus), memory=memory_here()[0], cards=cards)


def _node(node: Node) -> Finding:
    sizes = sorted({f"{card / 1e9:.0f} GB" for card in node.cards})
    gpus = f"{len(node.cards)} GPUs of {' and '.join(sizes)}" if node.cards else "no GPU: models run on the CPU"
    words = f"{node.cpus:g} CPUs, {node.memory / 1e9:.0f} GB memory, {gpus}"
    return Finding(node.name, "ok" if node.cards else "note", words)


def _place(uri: str) -> Finding:
    try:
        Store(uri).check_writable()
    except (StoreError, ValueError) as error:
        return Finding(uri, "bad", str(error))
    if is_remote(uri):
        return Finding(uri, "ok", "reachable and writable")
    free = shutil.disk_usage(_existing(Path(uri).expanduser())).free
    state = "ok" if free >= LEAST_DISK else "note"
    return Finding(uri, state, f"writable, {free / 1e9:.0f} GB free" + ("" if state == "ok" else ": that is little"))


def _existing(path: Path) -> Path:
    return path if path.exists() else _existing(path.absolute().parent)


def _decoders() -> list[Finding]:
    """Clips need one of two decoders; the second one takes what the first cannot."""
    there = {name: importlib.util.find_spec(name) is not None for name in ("decord", "av")}
    if all(there.values()):
        return [Finding("decoders", "ok", "decord, and PyAV when it fails")]
    missing = " and ".join(name for name, found in there.items() if not found)
    state = "note" if any(there.values()) else "bad"
    return [Finding("decoders", state, f"not installed: {missing}; pip install {missing.replace(' and', '')}")]


def _model(name: str, spec: ModelSpec, nodes: Sequence[Node], *, named: bool) -> Finding:
    unable = "bad" if named else "note"
    why = why_not_here(spec)
    if why:
        return Finding(name, unable, why)
    if spec.engine not in ("transformers", "vllm"):
        return Finding(name, "ok", "needs no GPU")
    size = size_of(spec)
    if size is None:
        return Finding(name, "note", "its size is not known: give parameters_b in its entry")
    cards = [node.cards for node in nodes if node.cards]
    if not cards or spec.device == "cpu":
        return _on_cpu(name, size.parameters * bytes_a_weight(spec), max(node.memory for node in nodes), unable)

    # A replica's ranks lie on one node; nodes are tried one by one and the best is told.
    def best_of(degree: int | None) -> Placement:
        placed = [place(spec, size, own, tensor_parallel=degree) for own in cards]
        return max(placed, key=lambda one: (one.fits, one.batch_size, one.card))

    return _on_gpus(name, spec, best_of, unable)


def _on_cpu(name: str, weights: float, memory: int, unable: str) -> Finding:
    words = f"no GPU; {weights / 1e9:.1f} GB of weights against {memory / 1e9:.0f} GB of memory"
    if weights * 1.2 > memory:
        return Finding(name, unable, f"{words}: does not fit")
    return Finding(name, "ok", f"{words}: runs on the CPU, slowly")


def _on_gpus(name: str, spec: ModelSpec, best_of: Callable[[int | None], Placement], unable: str) -> Finding:
    stated, proposed = best_of(spec.tensor_parallel), best_of(None)
    if stated.fits:
        extra = ""
        if proposed.fits and proposed.tensor_parallel != stated.tensor_parallel:
            extra = f"; arithmetic proposes tensor_parallel {proposed.tensor_parallel}"
        return Finding(name, "ok", f"fits: {_laid(stated)}{extra}")
    if proposed.fits:
        return Finding(
            name,
            unable,
            f"not as its entry says ({stated.why}); it would with tensor_parallel {proposed.tensor_parallel}: "
            f"{_laid(proposed)}",
        )
    return Finding(name, unable, proposed.why)


def _laid(one: Placement) -> str:
    return (
        f"tensor_parallel {one.tensor_parallel}, {one.replicas} replicas a node, batches of {one.batch_size}, "
        f"{one.bytes_a_card / 1e9:.1f} of {one.card / 1e9:.0f} GB on each GPU"
    )
