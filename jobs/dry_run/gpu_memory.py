"""Hardware needs of models for `list models` and `--dry-run`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from cluster.hardware import local_gpus
from jobs.doctor import CheckResult, models_here
from models.fingerprint import is_unpinned
from models.gpu_memory import ASSUMED_GPU_BYTES, BatchShape, Placement, bytes_per_weight, model_size, plan_placement
from models.spec import ModelSpec
from pipelines.plan.records import ModelPlan

_ASSUMED_GPUS = 16
"""GPUs of a cluster that is not connected yet."""

MODEL_HEADS = (
    *("model", "engine", "checkpoint", "revision", "gpus a replica"),
    *("weights GB", "papers", "runs here", "why not"),
)


def model_rows(models: Mapping[str, ModelSpec]) -> list[list[str]]:
    """Return the rows of `list models`, with the columns of `MODEL_HEADS`."""
    return [
        _model_row(name, spec, results)
        for (name, spec), results in zip(models.items(), models_here(models), strict=True)
    ]


def _model_row(name: str, spec: ModelSpec, found: CheckResult) -> list[str]:
    size = model_size(spec)
    return [
        name,
        spec.engine,
        spec.model,
        "not pinned" if is_unpinned(spec) else (spec.revision or ""),
        str(spec.tensor_parallel) if spec.runs_locally else "0",
        f"{size.parameters * bytes_per_weight(spec) / 1e9:.1f}" if size else "",
        ", ".join(spec.papers),
        {"ok": "yes", "note": "not known"}.get(found.state, "no"),
        "" if found.state == "ok" else found.detail,
    ]


def load_of(plan: ModelPlan) -> BatchShape:
    """Return the average batch of a plan's calls: media are shared, text and answer are each row's own."""
    calls = max(plan.calls, 1)
    words = (plan.prompt_tokens - plan.shared_tokens + plan.output_tokens) / calls
    return BatchShape(prefix_tokens=round(plan.shared_tokens / calls), own_tokens=max(1, round(words)))


def placement_for(spec: ModelSpec, plan: ModelPlan, cards: Sequence[int] = ()) -> Placement | None:
    """Return a model's placement on GPUs of `cards` bytes, else this machine's or 80 GB; None for an unknown size."""
    size = model_size(spec)
    if size is None:
        return None
    known_names = list(cards) or _cards()
    return plan_placement(spec, size, known_names, batch=load_of(plan), tensor_parallel=spec.tensor_parallel)


def placement_summary(spec: ModelSpec, plan: ModelPlan, cards: Sequence[int] = ()) -> dict[str, Any] | None:
    """Describe the entry's placement and the estimated best one, as data and text."""
    size, placed = model_size(spec), placement_for(spec, plan, cards)
    if size is None or placed is None:
        return None
    known_names = list(cards) or _cards()
    best = plan_placement(spec, size, known_names, batch=load_of(plan))
    seen = "found here" if cards or local_gpus() else "assumed, none is found here"
    words = (
        f"{placed.tensor_parallel} GPU{'s' if placed.tensor_parallel > 1 else ''} a replica, "
        f"{placed.bytes_per_gpu / 1e9:.1f} GB each (weights {placed.need.weights / 1e9:.1f}, "
        f"activations {placed.need.activations / 1e9:.1f}, "
        f"cache {(placed.bytes_per_gpu - placed.need.without_cache) / 1e9:.1f} at {placed.batch_size} rows) "
        f"of {placed.gpu_bytes / 1e9:.0f} GB ({seen})"
    )
    if not placed.fits:
        words += f"; does not fit: {placed.reason}"
    if best.fits and best.tensor_parallel != placed.tensor_parallel:
        words += f"; the estimate proposes tensor_parallel {best.tensor_parallel}, batches of {best.batch_size}"
    return {
        "fits": placed.fits,
        "words": words,
        "stated": _shown(placed),
        "proposed": _shown(best) if best.fits else None,
    }


def _shown(one: Placement) -> dict[str, Any]:
    kept = {
        name: getattr(one, name) for name in ("tensor_parallel", "replicas", "batch_size", "bytes_per_gpu", "gpu_bytes")
    }
    return {**kept, "gpus": one.gpus, "need": asdict(one.need)}


def _cards() -> list[int]:
    return [card.total for card in local_gpus()] or [ASSUMED_GPU_BYTES] * _ASSUMED_GPUS
