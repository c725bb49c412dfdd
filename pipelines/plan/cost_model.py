"""What a model's units cost in seconds on GPUs, reckoned from the plan: what a schedule is made of.

The arithmetic is a roofline with the efficiencies below, which are assumptions and not measurements: reading a prompt
is bound by arithmetic, writing an answer by the memory that the weights are read from. It orders models and units well
and is not a promise of hours; `GpuProfile` takes measured numbers where there are some.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cluster.scheduling.workload import ModelWorkload
from models.spec import ModelSpec
from pipelines.plan.records import ModelPlan
from pipelines.plan.units import WorkUnit


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuProfile:
    """One GPU, and how well it is used."""

    flops: float = 990e12
    """A second in bfloat16; an H100 SXM."""
    bytes_a_second: float = 3.35e12
    prefill_use: float = 0.4
    decode_use: float = 0.6
    parallel_use: float = 0.85
    """Left of each of these when ranks talk to each other."""
    load_bytes_a_second: float = 1.5e9
    """From a node's disk into its GPUs."""
    start_s: float = 30.0
    """Processes, libraries and the first kernel of a replica."""
    rows: int = 64
    """Answers written at once."""
    answer_share: float = 0.25
    """Of the tokens that may be written, those that are: most answers end early."""


def replica_gpus(spec: ModelSpec) -> int:
    """GPUs of one replica; 0 where the model runs elsewhere or needs none."""
    return spec.replica_gpus


def model_workloads(
    plans: Mapping[str, Sequence[ModelPlan]], specs: Mapping[str, ModelSpec], card: GpuProfile | None = None
) -> list[ModelWorkload]:
    """What the models that run on GPUs of ours have to do; a model whose size is not known is taken for 8B."""
    wanted = (name for name, own in plans.items() if replica_gpus(specs[name]) and any(plan.units for plan in own))
    return [model_workload(name, plans[name], specs[name], card) for name in wanted]


def model_workload(
    name: str, plans: Sequence[ModelPlan], spec: ModelSpec, card: GpuProfile | None = None
) -> ModelWorkload:
    """What one model has to do; of one that needs no GPU of ours the seconds say nothing."""
    card = card or GpuProfile()
    return ModelWorkload(
        name=name,
        gpus=replica_gpus(spec),
        load_s=card.start_s + _weight_bytes(spec) / card.load_bytes_a_second,
        units=tuple(unit_seconds(plan, unit, spec, card) for plan in plans for unit in plan.units),
        max_replicas=spec.replicas.max,
    )


def _parameters(spec: ModelSpec) -> float:
    return (spec.parameters_b or 8.0) * 1e9


def _weight_bytes(spec: ModelSpec) -> float:
    return _parameters(spec) * (4 if spec.dtype == "float32" else 2)


def unit_seconds(plan: ModelPlan, unit: WorkUnit, spec: ModelSpec, card: GpuProfile) -> float:
    """Seconds of one unit on one replica: its media read once each, its questions as suffixes, its answers written.

    The plan knows tokens in sum; a unit has its share by requests and by media groups.
    """
    groups = len({media_slice.group for media_slice in unit.slices if media_slice.group})
    media = plan.distinct_media_tokens / max(1, len(plan.groups))
    text = (plan.prompt_tokens - plan.shared_tokens) / max(1, plan.to_do)
    written = plan.output_tokens / max(1, plan.to_do) * card.answer_share
    ranks = spec.tensor_parallel * (card.parallel_use if spec.tensor_parallel > 1 else 1.0)
    tokens = groups * media + unit.requests * text
    reading = 2 * _parameters(spec) * tokens / (card.flops * card.prefill_use * ranks)
    steps = math.ceil(unit.requests / card.rows) * max(1.0, written)
    writing = steps * _weight_bytes(spec) / (card.bytes_a_second * card.decode_use * ranks)
    return reading + writing
