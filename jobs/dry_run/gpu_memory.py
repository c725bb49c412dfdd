"""Hardware needs of models for `list models` and `--dry-run`."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from cluster.hardware import local_gpus, local_memory
from jobs.doctor import CPU_MARGIN, CheckResult, models_here
from models.engines.empty_weights import measured_size
from models.engines.offload import OffloadPlan, offload_rows, plan_offload
from models.fingerprint import is_unpinned
from models.gpu_memory import ASSUMED_GPU_BYTES, BatchShape, Placement, bytes_per_weight, format_bytes, plan_placement
from models.spec import ModelSpec
from pipelines.plan.records import ModelPlan

_ASSUMED_GPUS = 16  # GPUs of a cluster that is not connected yet

MODEL_HEADS = (
    *("model", "runs here", "weights GB", "gpus a replica", "papers"),
    *("engine", "license", "checkpoint", "revision", "why not"),
)
DEFAULT_MODEL_HEADS = 5  # of them, those that are shown without --wide: they fit 100 columns
MAIN_MODEL_HEADS = 3  # of them, those that a narrow terminal shows too


def model_rows(models: Mapping[str, ModelSpec]) -> list[list[str]]:
    """Return the rows of `list models`, with the columns of `MODEL_HEADS`."""
    return [
        _model_row(name, spec, results)
        for (name, spec), results in zip(models.items(), models_here(models), strict=True)
    ]


def _model_row(name: str, spec: ModelSpec, check: CheckResult) -> list[str]:
    size = measured_size(spec)
    return [
        name,
        "withdrawn" if spec.withdrawn else {"ok": "yes", "note": "not known"}.get(check.state, "no"),
        f"{size.parameters * bytes_per_weight(spec, size) / 1e9:.3g}" if size else "",
        f"{spec.tensor_parallel / spec.replicas_per_gpu:g}" if spec.runs_locally else "0",
        ", ".join(spec.papers),
        spec.engine,
        spec.license or "",
        spec.model,
        "not pinned" if is_unpinned(spec) else (spec.revision or ""),
        "" if check.state == "ok" else check.detail,
    ]


def load_of(plan: ModelPlan) -> BatchShape:
    """Return the average batch of a plan's calls: media are shared, text and answer are each row's own."""
    calls = max(plan.calls, 1)
    own_tokens = (plan.prompt_tokens - plan.shared_tokens + plan.output_tokens) / calls
    return BatchShape(prefix_tokens=round(plan.shared_tokens / calls), own_tokens=max(1, round(own_tokens)))


def placement_for(spec: ModelSpec, plan: ModelPlan, cards: Sequence[int] = ()) -> Placement | None:
    """Return a model's placement on GPUs of `cards` bytes, else this machine's or 80 GB; None for an unknown size."""
    size = measured_size(spec)
    if size is None:
        return None
    gpu_sizes = list(cards) or _cards()
    return plan_placement(spec, size, gpu_sizes, batch=load_of(plan), tensor_parallel=spec.tensor_parallel)


def placement_summary(spec: ModelSpec, plan: ModelPlan, cards: Sequence[int] = ()) -> dict[str, Any] | None:
    """Describe the entry's placement and the estimated best one, as data and text."""
    size, placement = measured_size(spec), placement_for(spec, plan, cards)
    if size is None or placement is None:
        return None
    if not spec.can_use_gpu:
        return _on_cpu(size.parameters * bytes_per_weight(spec, size))
    gpu_sizes = list(cards) or _cards()
    best = plan_placement(spec, size, gpu_sizes, batch=load_of(plan))
    origin = "detected" if cards or any(local_gpus()) else "assumed: no local GPU"
    text = (
        f"{_gpus_a_replica(placement)}, "
        f"{format_bytes(placement.bytes_per_gpu)} each (weights {format_bytes(placement.need.weights)}, "
        f"activations {format_bytes(placement.need.activations)}, "
        f"cache {format_bytes(placement.bytes_per_gpu - placement.need.without_cache)} at {placement.batch_size} rows) "
        f"of {placement.gpu_bytes / 1e9:.0f} GB ({origin})"
    )
    if not placement.fits:
        text += f"; does not fit: {placement.reason}"
    offload = _offload(spec, placement)
    hours = _offload_hours(spec, offload, placement, plan) if offload else 0.0
    if offload:
        text += f"; {offload.summary}; {format_hours(hours)} or more for this plan"
    if best.fits and best.tensor_parallel != placement.tensor_parallel:
        text += f"; the estimate proposes tensor_parallel {best.tensor_parallel}, batches of {best.batch_size}"
    return {
        "fits": placement.fits,
        "words": text,
        "stated": _placement_data(placement),
        "proposed": _placement_data(best) if best.fits else None,
        "offload": {**asdict(offload), "seconds_per_pass": offload.seconds_per_pass, "hours": hours}
        if offload
        else None,
    }


def _gpus_a_replica(placement: Placement) -> str:
    if placement.per_gpu > 1:
        return f"{placement.per_gpu} replicas a GPU"
    return f"{placement.tensor_parallel} GPU{'s' if placement.tensor_parallel > 1 else ''} a replica"


def _on_cpu(weights: float) -> dict[str, Any]:
    """Describe the placement of an entry with `device: cpu`."""
    memory = local_memory()[0]
    text = f"on the CPU (device: cpu): {format_bytes(weights)} of weights against {memory / 1e9:.0f} GB of memory"
    fits = weights * CPU_MARGIN <= memory
    summary = {"fits": fits, "words": text if fits else f"{text}; does not fit"}
    return {**summary, "stated": None, "proposed": None, "offload": None}


def format_hours(hours: float) -> str:
    """Return hours with two digits or, from ten on, whole."""
    return f"{hours:,.0f} h" if hours >= 10 else f"{hours:.2g} h"


def _offload(spec: ModelSpec, placement: Placement) -> OffloadPlan | None:
    """Return where layers of an entry with `offload: true` are kept; None for one without, or that fits."""
    gpu_bytes = placement.gpu_bytes if spec.can_use_gpu else 0
    offload = plan_offload(placement.need.weights, gpu_bytes=gpu_bytes, host_bytes=local_memory()[0])
    return offload if spec.offload and offload.host + offload.disk else None


def _offload_hours(spec: ModelSpec, offload: OffloadPlan, placement: Placement, plan: ModelPlan) -> float:
    """Return the hours that weights are moved for: each batch has a prefill and a forward pass a token."""
    memory = placement.gpu_bytes if spec.can_use_gpu else local_memory()[0]
    rows = spec.batch_size or offload_rows(placement.need, load_of(plan), memory)
    passes = (plan.calls + plan.output_tokens) / rows
    return passes * offload.seconds_per_pass / 3600


def _placement_data(placement: Placement) -> dict[str, Any]:
    fields = {
        name: getattr(placement, name)
        for name in ("tensor_parallel", "replicas", "batch_size", "bytes_per_gpu", "gpu_bytes")
    }
    return {**fields, "gpus": placement.gpus, "need": asdict(placement.need)}


def _cards() -> list[int]:
    return [*filter(None, local_gpus())] or [ASSUMED_GPU_BYTES] * _ASSUMED_GPUS
