"""A large sweep without its answers: the real planner and scheduler, then a simulated cluster.

    python -m tests.bench.scale.fleet --models 500 --benchmarks 20 --requests 10000 --gpus 1000

Every pair of model and benchmark is planned with ids of its own; `--planned` bounds how many pairs are, and the others
get the units of a planned pair of the same benchmark. Models have the sizes of the catalog's, in turn, as far as they
fit one node. Prints planning time, the driver's memory, the requests to the store, and the simulated duration over a
bound that no schedule can beat.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from itertools import cycle, islice
from tempfile import TemporaryDirectory

from cluster.scheduling.gpu_scheduler import choose_schedule
from cluster.scheduling.simulator import simulate
from cluster.scheduling.workload import Fleet, ModelWorkload, lower_bound
from models.catalog_loader import load_models
from models.spec import ModelSpec
from pipelines.plan.completed import load_completed
from pipelines.plan.cost_model import GpuProfile, unit_seconds
from pipelines.plan.plan_store import PlanStore
from pipelines.plan.planner import plan_model
from pipelines.plan.records import ModelPlan
from pipelines.plan.unit_list import UnitFile
from tests.bench.scale.synthetic import CountingStore, SyntheticDataset, make_target, peak_mb, samples_for

REPLICAS = 16
"""For which units are cut."""


def plan_pairs(
    store: CountingStore, specs: dict[str, ModelSpec], benchmarks: int, requests: int, most: int
) -> list[list[ModelPlan]]:
    """Plan the first pairs, model by model; return each model's plans."""
    datasets = [SyntheticDataset(store, f"benchmark{index}", samples_for(requests)) for index in range(benchmarks)]
    first = next(iter(specs))
    stored = [
        PlanStore(store).write(dataset, make_target(dataset, first, specs[first]).prompts) for dataset in datasets
    ]
    file = UnitFile()
    plans: list[list[ModelPlan]] = []
    for name, spec in specs.items():
        if (len(plans) + 1) * benchmarks > max(most, benchmarks):
            break
        completed = load_completed(store, "maia", name)
        targets = [make_target(dataset, name, spec) for dataset in datasets]
        plans.append(
            [
                plan_model(plan, target, completed, replicas=REPLICAS, file=file)
                for plan, target in zip(stored, targets, strict=True)
            ]
        )
        if len(plans) % max(1, len(specs) // 20) == 0:
            print(f"  {len(plans) * benchmarks} pairs, at most {peak_mb():.0f} MB", flush=True)
    return plans


def workload(name: str, spec: ModelSpec, plans: Sequence[ModelPlan]) -> ModelWorkload:
    """Return the simulated work of a model."""
    gpu = GpuProfile()
    weights = (spec.parameters_b or 8.0) * 2e9
    return ModelWorkload(
        name=name,
        gpus=spec.replica_gpus,
        load_s=gpu.start_s + weights / gpu.load_bytes_per_s,
        units=tuple(unit_seconds(plan, unit, spec, gpu) for plan in plans for unit in plan.units),
    )


def main() -> None:
    """Plan, schedule, simulate, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=500)
    parser.add_argument("--benchmarks", type=int, default=20)
    parser.add_argument("--requests", type=int, default=10_000, help="of a pair")
    parser.add_argument("--gpus", type=int, nargs="*", default=[128, 1000])
    parser.add_argument("--planned", type=int, default=1_000_000_000, help="the most pairs that are planned")
    args = parser.parse_args()
    catalog = [spec for spec in load_models().values() if 0 < spec.replica_gpus <= Fleet(gpus=0).gpus_per_node]
    specs = {f"model{index}": spec for index, spec in enumerate(islice(cycle(catalog), args.models))}
    with TemporaryDirectory() as folder:
        store, before_mb, start = CountingStore(folder), peak_mb(), time.process_time()
        plans = plan_pairs(store, specs, args.benchmarks, args.requests, args.planned)
        planning_s, planned_mb = time.process_time() - start, peak_mb()
        rows = sum(plan.total for model_plans in plans for plan in model_plans)
        result = {
            "pairs": args.models * args.benchmarks,
            "planned_pairs": len(plans) * args.benchmarks,
            "planned_requests": rows,
            "planning_cpu_s": round(planning_s, 1),
            "us_a_request": round(1e6 * planning_s / rows, 2),
            "driver_mb_before": round(before_mb),
            "driver_mb_planned": round(planned_mb),
            "store_requests": dict(store.requests),
        }
        print(json.dumps(result, indent=1), flush=True)
        works = [
            workload(name, spec, model_plans)
            for (name, spec), model_plans in zip(specs.items(), cycle(plans), strict=False)
        ]
    units = sum(len(work.units) for work in works)
    print(f"{len(works)} models, {units:,} units, at most {peak_mb():.0f} MB with the simulation's own", flush=True)
    for gpus in args.gpus:
        fleet, start = Fleet(gpus=gpus), time.process_time()
        schedule = choose_schedule(works, fleet.nodes)
        chosen = time.process_time()
        simulated, bound = simulate(schedule, fleet), lower_bound(works, fleet)
        print(
            f"{gpus} GPUs: {simulated.makespan_s / 3600:.2f} h, {simulated.makespan_s / bound:.3f} of the bound, "
            f"{simulated.utilisation():.0%} of the paid GPU time computed, {sum(simulated.loads.values())} loads; "
            f"schedule in {chosen - start:.1f} s of processor time, simulation in {time.process_time() - chosen:.1f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
