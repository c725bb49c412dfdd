"""When each model of a sweep would run, for how long and for how much: what a dry run tells of time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cluster.connect import connect
from cluster.hardware import local_gpus
from cluster.placement import gpus_of_nodes
from cluster.scheduling.gpu_scheduler import run_schedule
from cluster.scheduling.simulator import simulate
from cluster.scheduling.workload import Fleet, ModelWorkload, lower_bound
from jobs.output import results_only_on_stdout
from models.spec import ModelSpec
from pipelines.plan.cost_model import model_workload, model_workloads
from pipelines.plan.records import ModelPlan
from pipelines.plan.run_spec import RunSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """What `--dry-run` tells of time."""

    models: tuple[tuple[str, int, float, float, int, float], ...]
    """name, GPUs a replica, begins at (s), ends at (s), loads, GPU hours of computing."""
    unplaced: tuple[str, ...]
    """Models of which no node can hold a replica: a run tells so and goes on without them."""
    seconds: float
    bound_s: float
    gpu_hours: float
    """Paid for."""
    price_usd: float


@dataclass(frozen=True, slots=True)
class FleetDescription:
    """Where a sweep is going to run."""

    nodes: tuple[int, ...]
    """GPUs of each node."""
    words: str
    node_start_s: float = 0.0
    """0: the nodes are there."""

    @property
    def fleet(self) -> Fleet:
        """To play on."""
        return Fleet(gpus=sum(self.nodes), gpus_by_node=self.nodes, node_start_s=self.node_start_s)


def schedule(works: Sequence[ModelWorkload], fleet: Fleet, cost_limit: float | None = None) -> Schedule:
    """Play a sweep on a fleet as a run does it.

    Args:
        works: of all models that the run asks, those that need no GPU too.
        fleet: on what.
        cost_limit: of the run, in dollars; models follow one another under one.
    """
    played = simulate(run_schedule(works, fleet.nodes, cost_limit), fleet)
    asked = [work for work in works if work.name in played.ends]
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
            for w in sorted(asked, key=lambda w: played.starts[w.name])
        ),
        unplaced=tuple(work.name for work in works if work.gpus and work.units and work not in asked),
        seconds=played.makespan_s,
        bound_s=lower_bound(asked, fleet),
        gpu_hours=played.held_gpu_s / 3600,
        price_usd=played.price_usd,
    )


def site_of(address: str | None, works: Sequence[ModelWorkload], specs: Mapping[str, ModelSpec]) -> FleetDescription:
    """The nodes that a run would have: the cluster's, or all that it may grow to, or this machine.

    Only where there is neither a cluster nor a GPU here are nodes made up: as few whole ones as give the model with the
    most replicas all of them.

    Args:
        address: of the cluster; None for none.
        works: of the models that need GPUs.
        specs: entries of those models.

    Raises:
        ClusterError: the cluster cannot be joined.
    """
    if address:
        with results_only_on_stdout(), connect(address) as cluster:
            if cluster.max_gpu_nodes:
                start_s = Fleet(gpus=0).node_start_s
                return FleetDescription(
                    cluster.max_gpu_nodes, f"all that the cluster at {address} may grow to", start_s
                )
            return FleetDescription(tuple(gpus_of_nodes()), f"the cluster at {address} as it is")
    if here := len(local_gpus()):
        return FleetDescription((here,), "this machine")
    most = max(work.gpus * specs[work.name].replicas.max for work in works)
    node = max(8, *(work.gpus for work in works))
    words = "made up: no --address is given and no GPU is seen here"
    return FleetDescription((node,) * -(-most // node), words, Fleet(gpus=0).node_start_s)


def schedule_summary(spec: RunSpec, plans: Mapping[str, Sequence[ModelPlan]]) -> dict[str, object] | None:
    """The schedule of what is to be done, for a dry run; None where no model runs on GPUs of ours.

    Raises:
        ClusterError: the run's cluster cannot be joined.
    """
    on_gpus = model_workloads(plans, spec.models)
    if not on_gpus:
        return None
    site = site_of(spec.address, on_gpus, spec.models)
    if not site.nodes:
        return {"gpus": 0, "on": site.words, "models": []}
    works = [
        model_workload(name, own, spec.models[name]) for name, own in plans.items() if any(plan.units for plan in own)
    ]
    found = schedule(works, site.fleet, spec.cost_limit)
    names = ("model", "gpus_a_replica", "begins_s", "ends_s", "loads", "gpu_hours")
    return {
        "gpus": site.fleet.gpus,
        "on": site.words,
        "hours": round(found.seconds / 3600, 3),
        "bound_hours": round(found.bound_s / 3600, 3),
        "gpu_hours": round(found.gpu_hours, 2),
        "price_usd": round(found.price_usd, 2),
        "gpu_hour_usd": site.fleet.gpu_hour_usd,
        "unplaced": list(found.unplaced),
        "models": [
            {
                name: round(value, 2) if isinstance(value, float) else value
                for name, value in zip(names, row, strict=True)
            }
            for row in found.models
        ],
    }
