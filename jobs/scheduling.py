"""When each model of a sweep would run, for how long and for how much: what a dry run tells of time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cluster.schedule import Fleet, ModelWork, lower_bound, play
from models.spec import ModelSpec
from pipelines.estimating import works_of
from pipelines.plan import Plan

__all__ = ["Schedule", "fleet_for", "schedule", "schedule_told"]


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
