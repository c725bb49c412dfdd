"""Estimate what a model's units cost in seconds on GPUs, from the plan: the input of a schedule.

A roofline with assumed efficiencies: prefill is bound by arithmetic, decoding by memory bandwidth. It orders models and
units and does not predict hours; `GpuProfile` takes measured numbers.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cluster.scheduling.gpu_scheduler import ModelWorkload
from models.engine_choice import repeated_prefix_reason
from models.entry_fields import Price
from models.gpu_memory import format_bytes
from models.spec import ModelSpec
from pipelines.plan.records import ModelPlan
from pipelines.plan.units import WorkUnit


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuProfile:
    """One GPU and the efficiency of its use."""

    flops: float = 990e12  # per second in bfloat16; an H100 SXM
    memory_bytes_per_s: float = 3.35e12
    prefill_efficiency: float = 0.4
    decode_efficiency: float = 0.6
    parallel_efficiency: float = 0.85  # share of each of these that remains when ranks communicate
    load_bytes_per_s: float = 1.5e9  # from a node's disk into its GPUs
    start_s: float = 30.0  # processes, libraries and the first kernel of a replica
    batch_rows: int = 64  # answers generated at once
    answer_share: float = 0.25  # share of the allowed tokens that is generated: most answers end early


def describe_load(spec: ModelSpec, seconds: float, gpu: GpuProfile | None = None) -> str:
    """Return how fast weights of at least 1 GB were loaded, and how fast the plan expects it; '' for others."""
    gpu, size = gpu or GpuProfile(), spec.parameters_b and _weight_bytes(spec)
    if not spec.runs_locally or not size or size < 1e9:
        return ""
    planned = gpu.start_s + size / gpu.load_bytes_per_s
    speed = format_bytes(size / seconds)
    return f": {format_bytes(size)} in {seconds:.0f} s, {speed}/s; the plan counts {planned:.0f} s"


def model_workloads(
    plans: Mapping[str, Sequence[ModelPlan]], specs: Mapping[str, ModelSpec], gpu: GpuProfile | None = None
) -> list[ModelWorkload]:
    """Return the workloads of the models that run on local GPUs; a model of unknown size counts as 8B."""
    return [
        model_workload(name, model_plans, specs[name], gpu)
        for name, model_plans in plans.items()
        if specs[name].replica_gpus and any(plan.units for plan in model_plans)
    ]


def model_workload(
    name: str, plans: Sequence[ModelPlan], spec: ModelSpec, gpu: GpuProfile | None = None
) -> ModelWorkload:
    """Return the workload of one model; the seconds are meaningless if it needs no local GPU.

    Replicas that share a GPU count as one: what they gain is not estimated.
    """
    gpu = gpu or GpuProfile()
    units = tuple(unit_seconds(plan, unit, spec, gpu) for plan in plans for unit in plan.units)
    return ModelWorkload(
        name=name,
        gpus=math.ceil(spec.replica_gpus),
        load_s=gpu.start_s + _weight_bytes(spec) / gpu.load_bytes_per_s,
        units=units,
        max_replicas=-(-min(spec.replicas.max, len(units) or 1) // spec.replicas_per_gpu),
    )


def _parameters(spec: ModelSpec) -> float:
    return (spec.parameters_b or 8.0) * 1e9


def _weight_bytes(spec: ModelSpec) -> float:
    return _parameters(spec) * (4 if spec.dtype == "float32" else 2)


def prompt_tokens(plan: ModelPlan, spec: ModelSpec) -> int:
    """Estimate the prompt tokens of the pending requests, with the entry's `tokens_per_picture` if it has one."""
    if spec.tokens_per_picture is None:
        return plan.prompt_tokens
    return round(plan.prompt_tokens - plan.shared_tokens + plan.pictures * spec.tokens_per_picture)


def saved_tokens(plan: ModelPlan, spec: ModelSpec) -> int:
    """Return the prompt tokens that a shared prefix saves; none if the engine computes it with every question."""
    if repeated_prefix_reason(spec):
        return 0
    return round((plan.shared_tokens - plan.distinct_media_tokens) * _media_factor(plan, spec))


def planned_dollars(plan: ModelPlan, spec: ModelSpec, price: Price, *, is_cached: bool = False) -> float:
    """Estimate what the pending requests cost, if the provider's cache holds what they share or not."""
    factor = _media_factor(plan, spec) if is_cached else 0.0
    written, cacheable = factor * plan.distinct_cacheable_tokens, factor * plan.cacheable_tokens
    output = plan.output_tokens + plan.calls * (spec.thinking_tokens or 0)
    return price.dollars(prompt_tokens(plan, spec), output, cacheable - written, written)


def _media_factor(plan: ModelPlan, spec: ModelSpec) -> float:
    """Return how many tokens of pictures and clips the provider bills for each that is estimated by pixels."""
    if spec.tokens_per_picture is None or not plan.shared_tokens:
        return 1.0
    return plan.pictures * spec.tokens_per_picture / plan.shared_tokens


def unit_seconds(plan: ModelPlan, unit: WorkUnit, spec: ModelSpec, gpu: GpuProfile) -> float:
    """Estimate the seconds of one unit on one replica: each medium prefilled once, questions as suffixes, answers.

    Where prefixes are not shared, each question prefills its medium.
    """
    is_shared = not repeated_prefix_reason(spec)
    groups = len({media_slice.group for media_slice in unit.slices if media_slice.group}) if is_shared else 0
    media_tokens = plan.distinct_media_tokens / max(1, plan.groups)
    text_tokens = (plan.prompt_tokens - (plan.shared_tokens if is_shared else 0)) / max(1, plan.to_do)
    answer_tokens = plan.output_tokens / max(1, plan.to_do) * gpu.answer_share
    ranks = spec.tensor_parallel * (gpu.parallel_efficiency if spec.tensor_parallel > 1 else 1.0)
    tokens = groups * media_tokens + unit.requests * text_tokens
    prefill_s = 2 * _parameters(spec) * tokens / (gpu.flops * gpu.prefill_efficiency * ranks)
    steps = math.ceil(unit.requests / gpu.batch_rows) * max(1.0, answer_tokens)
    decode_s = steps * _weight_bytes(spec) / (gpu.memory_bytes_per_s * gpu.decode_efficiency * ranks)
    return prefill_s + decode_s
