"""From a plan to seconds on GPUs: what a schedule and a simulation are made of.

The arithmetic is a roofline with the efficiencies below, which are assumptions and not measurements: reading a prompt
is bound by arithmetic, writing an answer by the memory that the weights are read from. It orders models and units well
and is not a promise of hours; `Card` takes measured numbers where there are some.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cluster.schedule import Fleet, ModelWork, lower_bound, play
from models.spec import ModelSpec
from pipelines.plan import Plan, Unit

__all__ = ["Card", "Schedule", "fleet_for", "replica_gpus", "schedule", "schedule_told", "unit_seconds", "works_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """What `--dry-run` tells of time."""

    models: tuple[tuple[str, int, float, float, int, float], ...]
    """name, GPUs a replica, begins at (s), ends at (s), loads, GPU hours of computing."""
    seconds: float
    bound_s: float
    gpu_hours: float
    """Paid for."""
    price_usd: float


def replica_gpus(spec: ModelSpec) -> int:
    """GPUs of one replica; 0 where the model runs elsewhere or needs none."""
    return spec.tensor_parallel if spec.engine in ("transformers", "vllm") and spec.device != "cpu" else 0


def works_of(
    plans: Mapping[str, Sequence[Plan]], specs: Mapping[str, ModelSpec], card: Card | None = None
) -> list[ModelWork]:
    """What the models that run on GPUs of ours have to do; a model whose size is not known is taken for 8B."""
    card = card or Card()
    made = []
    for name, own in plans.items():
        spec = specs[name]
        gpus = replica_gpus(spec)
        units = tuple(unit_seconds(plan, unit, spec, card) for plan in own for unit in plan.units) if gpus else ()
        if units:
            load = card.start_s + _weight_bytes(spec) / card.load_bytes_a_second
            made.append(ModelWork(name=name, gpus=gpus, load_s=load, units=units, most_replicas=spec.replicas.max))
    return made


def _parameters(spec: ModelSpec) -> float:
    return (spec.parameters_b or 8.0) * 1e9


def _weight_bytes(spec: ModelSpec) -> float:
    return _parameters(spec) * (4 if spec.dtype == "float32" else 2)


def unit_seconds(plan: Plan, unit: Unit, spec: ModelSpec, card: Card) -> float:
    """Seconds of one unit on one replica: its media read once each, its questions as suffixes, its answers written.

    The plan knows tokens in sum; a unit has its share by requests and by media groups.
    """
    groups = len({piece.group for piece in unit.pieces if piece.group})
    media = plan.distinct_media_tokens / max(1, len(plan.groups))
    text = (plan.prompt_tokens - plan.shared_tokens) / max(1, plan.total)
    written = plan.output_tokens / max(1, plan.total) * card.answer_share
    ranks = spec.tensor_parallel * (card.parallel_use if spec.tensor_parallel > 1 else 1.0)
    tokens = groups * media + unit.requests * text
    reading = 2 * _parameters(spec) * tokens / (card.flops * card.prefill_use * ranks)
    steps = math.ceil(unit.requests / card.rows) * max(1.0, written)
    writing = steps * _weight_bytes(spec) / (card.bytes_a_second * card.decode_use * ranks)
    return reading + writing


def schedule(works: Sequence[ModelWork], fleet: Fleet) -> Schedule:
    """Play the rule of `cluster.schedule` on a fleet.

    Raises:
        ValueError: a model fits on no node.
    """
    played = play(works, fleet)
    return Schedule(
        models=tuple(
            (
                w.name,
                w.gpus,
                played.starts[w.name],
                played.ends[w.name],
                played.loads[w.name],
                w.gpus * w.seconds / 3600,
            )
            for w in sorted(works, key=lambda w: played.starts[w.name])
        ),
        seconds=played.makespan_s,
        bound_s=lower_bound(works, fleet),
        gpu_hours=played.held_gpu_s / 3600,
        price_usd=played.price_usd,
    )


def fleet_for(works: Sequence[ModelWork], specs: Mapping[str, ModelSpec]) -> Fleet:
    """The smallest fleet of whole nodes on which the model with the most replicas has all of them."""
    most = max(work.gpus * specs[work.name].replicas.max for work in works)
    node = max(8, *(work.gpus for work in works))
    return Fleet(gpus=-(-most // node) * node, gpus_a_node=node)


def schedule_told(plans: Mapping[str, Sequence[Plan]], specs: Mapping[str, ModelSpec]) -> dict[str, object] | None:
    """The schedule of what is to be done, for a dry run; None where no model runs on GPUs of ours."""
    works = works_of(plans, specs)
    if not works:
        return None
    fleet = fleet_for(works, specs)
    found = schedule(works, fleet)
    names = ("model", "gpus_a_replica", "begins_s", "ends_s", "loads", "gpu_hours")
    return {
        "gpus": fleet.gpus,
        "hours": round(found.seconds / 3600, 3),
        "bound_hours": round(found.bound_s / 3600, 3),
        "gpu_hours": round(found.gpu_hours, 2),
        "price_usd": round(found.price_usd, 2),
        "gpu_hour_usd": fleet.gpu_hour_usd,
        "models": [
            {
                name: round(value, 2) if isinstance(value, float) else value
                for name, value in zip(names, row, strict=True)
            }
            for row in found.models
        ],
    }
