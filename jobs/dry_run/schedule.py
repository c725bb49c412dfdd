"""The simulated schedule of a sweep for dry runs: when each model runs, how long and at what price."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from cluster.connection import connect
from cluster.hardware import local_gpus
from cluster.placement import gpus_of_nodes
from cluster.scheduling.gpu_scheduler import run_schedule
from cluster.scheduling.simulator import simulate
from cluster.scheduling.workload import Fleet, ModelWorkload, lower_bound
from jobs.shared.output import results_only_on_stdout
from models.spec import ModelSpec
from pipelines.plan.cost_model import model_workload, model_workloads
from pipelines.plan.records import ModelPlan
from pipelines.plan.run_spec import RunSpec

ASSUMED: Final = "assumed: no --address is given and no GPU is found here"
"""What the nodes are where there are none."""


def schedule(workloads: Sequence[ModelWorkload], fleet: Fleet, cost_limit: float | None = None) -> dict[str, Any]:
    """Simulate a sweep on a fleet as a run schedules it; with a cost limit models run one after the other.

    Of `unplaced` models no node can hold a replica: a run reports them and continues without them. `gpu_hours` are paid
    ones of the whole, and of computing of a model.
    """
    result = simulate(run_schedule(workloads, fleet.nodes, cost_limit), fleet)
    placed = sorted((work for work in workloads if work.name in result.ends), key=lambda work: result.starts[work.name])
    return {
        "hours": round(result.makespan_s / 3600, 3),
        "bound_hours": round(lower_bound(placed, fleet) / 3600, 3),
        "gpu_hours": round(result.held_gpu_s / 3600, 2),
        "price_usd": round(result.price_usd, 2),
        "gpu_hour_usd": fleet.gpu_hour_usd,
        "unplaced": [work.name for work in workloads if work.gpus and work.units and work not in placed],
        "models": [
            {
                "model": work.name,
                "gpus_a_replica": work.gpus,
                "begins_s": round(result.starts[work.name], 2),
                "ends_s": round(result.ends[work.name], 2),
                "loads": result.loads[work.name],
                "gpu_hours": round(work.gpus * work.seconds / 3600, 2),
            }
            for work in placed
        ],
    }


def describe_fleet(
    address: str | None, workloads: Sequence[ModelWorkload], specs: Mapping[str, ModelSpec]
) -> tuple[Fleet, str]:
    """Return the nodes of a run, and what they are: the cluster's, at full scale if it autoscales, or this machine.

    Without a cluster or a local GPU, nodes are assumed: as few as fit all replicas of the model with the most GPUs, of
    eight GPUs each for several models.
    """
    if address:
        with results_only_on_stdout(), connect(address) as cluster:
            if nodes := cluster.max_gpu_nodes:
                return Fleet(gpus=sum(nodes), gpus_by_node=nodes), f"the cluster at {address} at full scale"
            return _running(gpus_of_nodes()), f"the cluster at {address} as it is"
    if gpus := len(local_gpus()):
        return _running([gpus]), "this machine"
    max_gpus = max(specs[work.name].max_gpus for work in workloads)
    node = max(8 if len(workloads) > 1 else 1, *(work.gpus for work in workloads))
    count = -(-max_gpus // node)
    fleet = Fleet(gpus=count * node, gpus_by_node=(node,) * count)
    return fleet, ASSUMED


def _running(nodes: Sequence[int]) -> Fleet:
    return Fleet(gpus=sum(nodes), gpus_by_node=tuple(nodes), node_start_s=0.0)


def schedule_summary(spec: RunSpec, plans: Mapping[str, Sequence[ModelPlan]]) -> dict[str, object] | None:
    """Return the schedule of the pending work, for a dry run; None if no model runs on local GPUs."""
    on_gpus = model_workloads(plans, spec.models)
    if not on_gpus:
        return None
    fleet, description = describe_fleet(spec.address, on_gpus, spec.models)
    if not fleet.nodes:
        return {"gpus": 0, "on": description, "models": []}
    workloads = [
        model_workload(name, model_plans, spec.models[name])
        for name, model_plans in plans.items()
        if any(plan.units for plan in model_plans)
    ]
    result = schedule(workloads, fleet, spec.cost_limit)
    rows = [_of_replicas(row, spec.models[row["model"]]) for row in result["models"]]
    return {"gpus": fleet.gpus, "on": description, **result, "models": rows}


def _of_replicas(row: dict[str, Any], spec: ModelSpec) -> dict[str, Any]:
    """Return a model's row for its replicas: a schedule counts those that share a GPU as one."""
    per_gpu = spec.replicas_per_gpu
    return row if per_gpu == 1 else {**row, "gpus_a_replica": spec.replica_gpus, "loads": row["loads"] * per_gpu}
