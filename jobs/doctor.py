"""Checks of `vlmsweep doctor`: what this machine or a cluster can run."""

import importlib.util
import os
import platform
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cluster.connection import connect
from cluster.errors import ClusterError
from cluster.hardware import Node, gpu_problem, local_gpus, local_memory, node_inventory
from models.availability import unavailable_reason
from models.engine_choice import repeated_prefix_reason
from models.engines.empty_weights import measured_size
from models.engines.hub import DEFAULT_REVISION, ask_hub, cached_folder, hub_id
from models.engines.offload import plan_offload
from models.gpu_memory import Placement, bytes_per_weight, format_bytes, plan_placement
from models.spec import ModelSpec
from pipelines.errors import PipelineError
from pipelines.storage.backend import is_remote
from pipelines.storage.store import Store

CPU_MARGIN = 1.2
"""Memory that a model on CPUs takes, in bytes of its weights."""
HUB_S = 5.0
"""Time in which the hub must answer to be in reach."""
MIN_DISK_BYTES = 10 * 10**9
"""Free bytes below which a location for results or data gets a note."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one check."""

    what: str
    state: str
    """`ok`; `note`: works with restrictions; `bad`: what was requested cannot work."""
    detail: str


def ok(results: Sequence[CheckResult]) -> bool:
    """Return whether everything that was requested can work."""
    return all(result.state != "bad" for result in results)


def run_checks(
    models: Mapping[str, ModelSpec], *, named: bool, locations: Sequence[str], address: str | None
) -> list[CheckResult]:
    """Run all checks of this machine, or of the Ray cluster at `address`.

    A model that cannot run is `bad` if the user named it, else a `note`. `locations` are folders or s3:// addresses of
    data and results.
    """
    results = [_software(), *map(_location, locations), *_decoders()]
    nodes = [_this_node()]
    if address:
        try:
            with connect(address):
                nodes = node_inventory()
        except ClusterError as error:
            return [*results, CheckResult("cluster", "bad", str(error))]
    results += [_node(node) for node in nodes]
    checks = [_model(name, spec, nodes, named=named) for name, spec in models.items()]
    return [*results, *(checks if address else _with_hub(checks, models, "bad" if named else "note"))]


def models_here(models: Mapping[str, ModelSpec]) -> list[CheckResult]:
    """Return for each model whether this machine can run it: `ok`, `bad`, or `note` if unknown."""
    nodes = [_this_node()]
    return _with_hub([_model(name, spec, nodes, named=True) for name, spec in models.items()], models, "bad")


def _with_hub(results: Sequence[CheckResult], models: Mapping[str, ModelSpec], unable: str) -> list[CheckResult]:
    """Return results in which no model can run whose files neither this machine's cache nor a hub in reach has."""
    uncached = {
        result.what: (spec.model, spec.revision or DEFAULT_REVISION)
        for result, spec in zip(results, models.values(), strict=True)
        if result.state == "ok" and hub_id(spec) and cached_folder(spec.model, spec.revision) is None
    }
    question = next(iter(uncached.values()), None)
    answer = question and ask_hub([question], deadline_s=HUB_S)[question]
    if not answer or answer.state != "unreachable":
        return [*results]
    detail = f"its files are not in this machine's cache, and the hub cannot be reached ({answer.problem})"
    return [replace(each, state=unable, detail=detail) if each.what in uncached else each for each in results]


def _software() -> CheckResult:
    import importlib.metadata as meta

    versions = ", ".join(f"{name} {meta.version(name)}" for name in ("ray", "torch", "transformers", "vlmsweep"))
    return CheckResult("software", "ok", f"Python {platform.python_version()}, {versions}")


def _this_node() -> Node:
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return Node(
        name="this machine",
        cpus=float(cpus),
        memory=local_memory()[0],
        gpu_bytes=tuple(local_gpus()),
        gpu_problem=gpu_problem(),
    )


def _node(node: Node) -> CheckResult:
    sizes = sorted({f"{size / 1e9:.0f} GB" if size else "unknown size" for size in node.gpu_bytes})
    gpus = f"{len(node.gpu_bytes)} GPUs of {' and '.join(sizes)}" if node.gpu_bytes else "no GPU: models run on the CPU"
    detail = f"{node.cpus:g} CPUs, {node.memory / 1e9:.0f} GB memory, {gpus}"
    if node.gpu_problem:
        return CheckResult(node.name, "bad", f"{detail}, which torch cannot use: {node.gpu_problem}")
    return CheckResult(node.name, "ok" if node.gpu_bytes else "note", detail)


def _location(uri: str) -> CheckResult:
    try:
        Store(uri).check_writable()
    except PipelineError as error:
        return CheckResult(uri, "bad", str(error))
    if is_remote(uri):
        return CheckResult(uri, "ok", "reachable and writable")
    free = shutil.disk_usage(_existing(Path(uri).expanduser())).free
    state = "ok" if free >= MIN_DISK_BYTES else "note"
    return CheckResult(uri, state, f"writable, {format_bytes(free)} free" + ("" if state == "ok" else ": low"))


def _existing(path: Path) -> Path:
    return path if path.exists() else _existing(path.absolute().parent)


def _decoders() -> list[CheckResult]:
    """Check the two clip decoders; the second decodes what the first cannot."""
    packages = {"decord": "decord2", "av": "av"}
    missing = [package for module, package in packages.items() if importlib.util.find_spec(module) is None]
    if not missing:
        return [CheckResult("decoders", "ok", "decord, and PyAV when it fails")]
    state = "note" if len(missing) < len(packages) else "bad"
    return [CheckResult("decoders", state, f"not installed: {' and '.join(missing)}; pip install {' '.join(missing)}")]


def _model(name: str, spec: ModelSpec, nodes: Sequence[Node], *, named: bool) -> CheckResult:
    result = _fit(name, spec, nodes, named=named)
    repeated = repeated_prefix_reason(spec) if spec.runs_locally else ""
    notes = [f"engine {spec.engine}: {spec.engine_reason}"] if spec.engine_reason else []
    notes += [f"clips and pictures are paid for with every question: {repeated}"] if repeated else []
    return replace(result, detail="; ".join([result.detail, *notes]))


def _fit(name: str, spec: ModelSpec, nodes: Sequence[Node], *, named: bool) -> CheckResult:
    unable = "bad" if named else "note"
    reason = unavailable_reason(spec)
    if reason:
        return CheckResult(name, unable, reason)
    if not spec.runs_locally:
        unasked = "; its endpoint was not asked, which `vlmsweep doctor --eyes MODEL` does" if spec.is_endpoint else ""
        return CheckResult(name, "ok", f"needs no GPU{unasked}")
    size = measured_size(spec)
    if size is None:
        return CheckResult(name, "note", "its size is unknown: give parameters_b in its entry")
    gpus_by_node = [node.gpu_bytes for node in nodes if node.gpu_bytes and all(node.gpu_bytes)]
    if not gpus_by_node and spec.device != "cpu" and any(node.gpu_bytes for node in nodes):
        return CheckResult(name, "note", "whether it fits is unknown: nvidia-smi does not tell the memory of the GPUs")
    weights = size.parameters * bytes_per_weight(spec, size)
    if not gpus_by_node or spec.device == "cpu":
        why, memory = "device: cpu" if spec.device == "cpu" else "no GPU", max(node.memory for node in nodes)
        return _offloaded(_on_cpu(name, why, weights, memory, unable), spec, weights, nodes)

    # A replica's ranks are on one node: the best node counts.
    def best_of(degree: int | None) -> Placement:
        placements = [plan_placement(spec, size, gpus, tensor_parallel=degree) for gpus in gpus_by_node]
        return max(placements, key=lambda placement: (placement.fits, placement.batch_size, placement.gpu_bytes))

    return _offloaded(_on_gpus(name, spec, best_of, unable), spec, weights, nodes)


def _offloaded(result: CheckResult, spec: ModelSpec, weights: float, nodes: Sequence[Node]) -> CheckResult:
    """Return the result of a model that does not fit as one that runs with restrictions, where its entry offloads."""
    if not spec.offload or result.state == "ok":
        return result
    best = max(nodes, key=lambda node: (max(node.gpu_bytes, default=0), node.memory))
    gpu_bytes = max(best.gpu_bytes, default=0) if spec.can_use_gpu else 0
    offload = plan_offload(round(weights), gpu_bytes=gpu_bytes, host_bytes=best.memory)
    return replace(result, state="note", detail=f"{result.detail}; {offload.summary}")


def _on_cpu(name: str, why: str, weights: float, memory: int, unable: str) -> CheckResult:
    detail = f"{why}; {format_bytes(weights)} of weights against {memory / 1e9:.0f} GB of memory"
    if weights * CPU_MARGIN > memory:
        return CheckResult(name, unable, f"{detail}: does not fit")
    return CheckResult(name, "ok", f"{detail}: runs on the CPU, slowly")


def _on_gpus(name: str, spec: ModelSpec, best_of: Callable[[int | None], Placement], unable: str) -> CheckResult:
    stated, proposed = best_of(spec.tensor_parallel), best_of(None)
    if stated.fits:
        extra = ""
        if proposed.fits and proposed.tensor_parallel != stated.tensor_parallel:
            extra = f"; the estimate proposes tensor_parallel {proposed.tensor_parallel}"
        return CheckResult(name, "ok", f"fits: {_describe(stated)}{extra}")
    if proposed.fits:
        return CheckResult(
            name,
            unable,
            f"not as its entry says ({stated.reason}); it would with tensor_parallel {proposed.tensor_parallel}: "
            f"{_describe(proposed)}",
        )
    return CheckResult(name, unable, proposed.reason)


def _describe(placement: Placement) -> str:
    return (
        f"tensor_parallel {placement.tensor_parallel}, {placement.replicas} replicas per node, "
        f"batches of {placement.batch_size}, "
        f"{format_bytes(placement.bytes_per_gpu)} of {placement.gpu_bytes / 1e9:.0f} GB on each GPU"
    )
