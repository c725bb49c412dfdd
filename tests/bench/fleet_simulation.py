"""Simulate the papers' whole sweep on fleets of 8 to 1,024 GPUs: `python -m tests.bench.fleet_simulation --data DATA`.

Any ingested data will do, including the demo's: each benchmark is lengthened to its published size by repeating its
samples under new names and with media of their own, and the planner plans it like any other. One plan a benchmark is
used for every model of the catalog that runs on local GPUs. The table shows, for each fleet size: makespan, the share
of paid GPU time that computed, price, weight loads, and the distance from a bound that no schedule can beat; then the
same on spot machines that are taken back, and with one model at a time.

`--save` writes the workload, a list of `{name, gpus, load_s, units: [seconds, ...]}`, which `--workload` reads.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cluster.scheduling.gpu_scheduler import GpuScheduler, run_schedule
from cluster.scheduling.simulator import simulate
from cluster.scheduling.workload import Fleet, ModelWorkload, SimulationResult, lower_bound
from models.catalog_loader import load_models
from models.spec import ModelSpec
from pipelines.benchmarks import benchmark_names
from pipelines.benchmarks.records import Sample
from pipelines.errors import DatasetError
from pipelines.ingest.dataset import Dataset, Datasets
from pipelines.plan.cost_model import GpuProfile, model_workloads
from pipelines.plan.plan_store import PlanStore
from pipelines.plan.planner import plan_model
from pipelines.plan.records import CompletedRequests, ModelPlan
from pipelines.plan.requests import model_targets
from pipelines.plan.run_spec import RunSpec
from pipelines.storage.store import Store

SIZES = (8, 16, 32, 64, 128, 256, 512, 1024)
SPOT_PRICE = 0.4
"""Of the price on demand; spot prices move, this is a middle."""
PUBLISHED_SAMPLES = {"vague": 1677, "vflute": 723, "maia": 2400, "mate": 5500, "unpie": 1000}
"""Samples of each benchmark's test set, as its paper counts them."""

SWEEP, SPOT, SEQUENTIAL = "as a run does it", "same, on spot", "one model at a time"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One fleet size under one way of running."""

    gpus: int
    way: str
    hours: float
    over_bound: float
    """Makespan over the lower bound."""
    utilisation: float
    price_usd: float
    loads: int
    lost_nodes: int


class LengthenedDataset(Dataset):
    """A dataset repeated to a length; every copy has its own names and media, so that copies share nothing."""

    def __init__(self, base: Dataset, samples: int) -> None:
        originals = list(base.samples())
        copies = -(-samples // len(originals))
        shard = replace(base.manifest.shards[0], path="samples/lengthened.parquet", rows=samples)
        super().__init__(base.store, replace(base.manifest, samples=samples, shards=(shard,)))
        self._samples = [sample for copy in range(copies) for sample in _copies(originals, copy)][:samples]

    def read_shard(self, path: str) -> list[Sample]:
        del path
        return self._samples


def _copies(samples: Sequence[Sample], copy: int) -> Iterator[Sample]:
    for sample in samples:
        yield replace(
            sample,
            sample_id=f"{sample.sample_id}#{copy}",
            cluster=f"{sample.cluster}#{copy}",
            media=tuple(replace(ref, sha256=f"{copy:04x}{ref.sha256[4:]}") for ref in sample.media),
        )


def plan_published_sweep(data: str) -> list[ModelPlan]:
    """Plan every ingested benchmark at its published length.

    Raises:
        ValueError: no benchmark is ingested under `data`.
    """
    spec = RunSpec(data=data, out="", models={"any": load_models()["random"]}, benchmarks=tuple(benchmark_names()))
    plans = []
    with TemporaryDirectory() as folder:
        for name in spec.benchmarks:
            try:
                ((target, dataset),) = model_targets(replace(spec, benchmarks=(name,)), "any", Datasets())
            except DatasetError:
                continue
            lengthened = LengthenedDataset(dataset, PUBLISHED_SAMPLES[name])
            plan = PlanStore(Store(folder)).write(lengthened, target.prompts)
            plans.append(plan_model(plan, target, CompletedRequests()))
    if not plans:
        raise ValueError(f"--data {data}: no ingested benchmark; `vlmsweep demo` leaves some in demo-out/data")
    return plans


def published_workloads(
    plans: Sequence[ModelPlan], specs: Mapping[str, ModelSpec], gpu: GpuProfile | None = None
) -> list[ModelWorkload]:
    """Return the workload of every model that needs GPUs, with an unlimited number of replicas."""
    unlimited = {
        name: spec.model_copy(update={"replicas": spec.replicas.model_copy(update={"max": 1_000_000})})
        for name, spec in specs.items()
        if spec.replica_gpus
    }
    return model_workloads(dict.fromkeys(unlimited, plans), unlimited, gpu)


def simulate_sizes(
    workloads: Sequence[ModelWorkload], base: Fleet, sizes: Iterable[int] = SIZES, spot_loss: float = 0.05
) -> list[Row]:
    """Simulate every fleet size three ways.

    Args:
        workloads: one a model.
        base: price, start time and seed; its number of GPUs is replaced.
        sizes: numbers of GPUs.
        spot_loss: losses a node-hour on spot.
    """
    rows = []
    for gpus in sizes:
        fleet = replace(base, gpus=gpus)
        spot = replace(fleet, losses_per_hour=spot_loss, gpu_hour_usd=base.gpu_hour_usd * SPOT_PRICE)
        bound, schedule = lower_bound(workloads, fleet), run_schedule(workloads, fleet.nodes)
        sequential = GpuScheduler(workloads, fleet.nodes, together=False)
        rows += [
            _row(SWEEP, gpus, simulate(schedule, fleet), bound),
            _row(SPOT, gpus, simulate(schedule, spot), bound),
            _row(SEQUENTIAL, gpus, simulate(sequential, fleet), bound),
        ]
    return rows


def _row(way: str, gpus: int, result: SimulationResult, bound: float) -> Row:
    return Row(
        gpus=gpus,
        way=way,
        hours=result.makespan_s / 3600,
        over_bound=result.makespan_s / bound,
        utilisation=result.utilisation(),
        price_usd=result.price_usd,
        loads=sum(result.loads.values()),
        lost_nodes=result.lost_nodes,
    )


def format_rows(rows: Sequence[Row]) -> str:
    """Return the rows as a plain table."""
    head = f"{'GPUs':>5}  {'models':<20}{'hours':>8}{'x bound':>9}{'used':>7}{'price':>11}{'loads':>7}{'lost':>6}"
    lines = [
        f"{r.gpus:>5}  {r.way:<20}{r.hours:>8.2f}{r.over_bound:>9.2f}{r.utilisation:>7.0%}"
        f"{'$' + format(r.price_usd, ',.0f'):>11}{r.loads:>7}{r.lost_nodes:>6}"
        for r in rows
    ]
    return "\n".join([head, *lines])


def parse_workloads(text: str) -> list[ModelWorkload]:
    """Parse a saved workload; raise ValueError when it is malformed."""
    try:
        entries: list[dict[str, Any]] = json.loads(text)
        return [ModelWorkload(**{**entry, "units": tuple(float(s) for s in entry["units"])}) for entry in entries]
    except (TypeError, KeyError, ValueError) as error:
        raise ValueError(f"not a workload ({error}); expected [{{name, gpus, load_s, units}}, ...]") from error


def workloads_to_json(workloads: Iterable[ModelWorkload]) -> str:
    """Return the text that `parse_workloads` reads."""
    return json.dumps(
        [
            {"name": w.name, "gpus": w.gpus, "load_s": w.load_s, "units": [round(s, 3) for s in w.units]}
            for w in workloads
        ]
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.fleet_simulation", description=__doc__)
    parser.add_argument("--data", default="demo-out/data", help="ingested data of any length")
    parser.add_argument("--workload", type=Path, help="a saved workload, instead of --data")
    parser.add_argument("--models-file", type=Path, nargs="*", default=[])
    parser.add_argument("--gpus", type=int, nargs="*", default=list(SIZES))
    parser.add_argument("--gpus-a-node", type=int, default=8)
    parser.add_argument("--gpu-hour-usd", type=float, default=2.5)
    parser.add_argument("--spot-loss", type=float, default=0.05, help="losses a node-hour")
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--save", type=Path, help="write the workload for --workload")
    options = parser.parse_args(arguments)
    fleet = Fleet(gpus=8, gpus_per_node=options.gpus_a_node, gpu_hour_usd=options.gpu_hour_usd, seed=options.seed)
    try:
        summary, workloads = _load(options)
        if options.save:
            options.save.write_text(workloads_to_json(workloads), encoding="utf-8")
        table = format_rows(simulate_sizes(workloads, fleet, options.gpus, options.spot_loss))
    except (OSError, ValueError) as error:
        sys.stderr.write(f"{options.workload or options.data}: {error}\n")
        return 2
    sys.stdout.write(
        f"{summary}\n{table}\n"
        "x bound: makespan over a bound that no schedule can beat. used: share of paid GPU time that computed.\n"
        f"{SEQUENTIAL}: each model on all GPUs that pay. lost: nodes taken back.\n"
        "Times follow from the arithmetic in pipelines/plan/cost_model.py, which is assumed and not measured.\n"
    )
    return 0


def _load(options: argparse.Namespace) -> tuple[str, list[ModelWorkload]]:
    if options.workload:
        workloads = parse_workloads(options.workload.read_text(encoding="utf-8"))
        return f"{len(workloads)} models", workloads
    plans = plan_published_sweep(str(Store(options.data).uri))
    models = load_models(options.models_file)
    fitting = {name: spec for name, spec in models.items() if spec.replica_gpus <= options.gpus_a_node}
    workloads = published_workloads(plans, fitting)
    names = ", ".join(plan.prompts.benchmark_name for plan in plans)
    requests, units = sum(plan.total for plan in plans), sum(len(plan.units) for plan in plans)
    return f"{len(workloads)} models on {names}: {requests:,} requests in {units:,} units each", workloads


if __name__ == "__main__":
    sys.exit(main())
