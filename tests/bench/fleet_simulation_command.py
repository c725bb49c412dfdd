"""`python -m tests.bench.fleet_simulation_command`: the papers' whole sweep on fleets of 8 to 1,024 GPUs, by the planner's own units.

Any ingested data will do, the demo's sample data as well: each benchmark is made as long as it was published, by
repeating its samples under new names and with media of their own, and the planner plans it as it plans any other. A
plan is made once a benchmark and used for every model of the catalog that runs on GPUs of ours.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from cluster.scheduling.workload import Fleet, ModelWorkload
from models.catalog_loader import load_models
from models.spec import ModelSpec
from pipelines.benchmarks import benchmark_names
from pipelines.benchmarks.records import Sample
from pipelines.ingest.dataset import Dataset, DatasetError
from pipelines.plan.cost_model import GpuProfile, model_workloads, replica_gpus
from pipelines.plan.planner import plan_requests
from pipelines.plan.records import CompletedRequests, Plan
from pipelines.plan.run_spec import RunSpec
from pipelines.storage.store import Store
from tests.bench.fleet_simulation import SIZES, rows, shown, workload_json

__all__ = ["PUBLISHED", "Lengthened", "papers_plans", "papers_works"]

PUBLISHED = {"vague": 1677, "vflute": 723, "maia": 2400, "mate": 5500, "unpie": 1000}
"""Samples of each benchmark's test set, as its paper counts them."""


class Lengthened(Dataset):
    """A dataset repeated to a length: each copy has names and media of its own, so that nothing is shared anew."""

    def __init__(self, base: Dataset, samples: int) -> None:
        own = list(base.samples())
        copies = -(-samples // len(own))
        shard = replace(base.manifest.shards[0], path="samples/lengthened.parquet", rows=samples)
        super().__init__(base.store, replace(base.manifest, samples=samples, shards=(shard,)))
        self._made = [made for copy in range(copies) for made in _copied(own, copy)][:samples]

    def read_shard(self, path: str) -> list[Sample]:
        """All samples."""
        del path
        return self._made


def _copied(samples: Sequence[Sample], copy: int) -> Iterator[Sample]:
    for sample in samples:
        yield replace(
            sample,
            sample_id=f"{sample.sample_id}#{copy}",
            cluster=f"{sample.cluster}#{copy}",
            media=tuple(replace(ref, sha256=f"{copy:04x}{ref.sha256[4:]}") for ref in sample.media),
        )


def papers_plans(data: str) -> list[Plan]:
    """One plan a benchmark that there is data of, at its published length.

    Raises:
        ValueError: there is data of none.
    """
    spec = RunSpec(data=data, out="", models={"any": load_models()["random"]}, benchmarks=tuple(benchmark_names()))
    plans = []
    for name in spec.benchmarks:
        try:
            ((asker, dataset),) = replace(spec, benchmarks=(name,)).askers("any")
        except DatasetError:
            continue
        plans.append(plan_requests(Lengthened(dataset, PUBLISHED[name]), asker, CompletedRequests()))
    if not plans:
        raise ValueError(f"--data {data}: no ingested benchmark; `vlmsweep demo` leaves some in demo-out/data")
    return plans


def papers_works(
    plans: Sequence[Plan], specs: Mapping[str, ModelSpec], card: GpuProfile | None = None
) -> list[ModelWorkload]:
    """What every model that runs on GPUs of ours has to do; replicas as many as are of use."""
    wide = {
        name: spec.model_copy(update={"replicas": spec.replicas.model_copy(update={"max": 1_000_000})})
        for name, spec in specs.items()
        if replica_gpus(spec)
    }
    return model_workloads(dict.fromkeys(wide, plans), wide, card)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.fleet_simulation_command", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--data", default="demo-out/data", help="ingested data of any length")
    parser.add_argument("--models-file", type=Path, nargs="*", default=[])
    parser.add_argument("--gpus", type=int, nargs="*", default=list(SIZES))
    parser.add_argument("--gpu-hour-usd", type=float, default=2.5)
    parser.add_argument("--spot-loss", type=float, default=0.05, help="losses a node-hour")
    parser.add_argument("--save", type=Path, help="write the workload for `python -m tests.bench.fleet_simulation`")
    given = parser.parse_args(arguments)
    try:
        plans = papers_plans(str(Store(given.data).uri))
        works = papers_works(plans, load_models(given.models_file))
        if given.save:
            given.save.write_text(workload_json(works), encoding="utf-8")
        table = shown(rows(works, Fleet(gpus=8, gpu_hour_usd=given.gpu_hour_usd), given.gpus, given.spot_loss))
    except (OSError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    units = sum(len(plan.units) for plan in plans)
    requests = sum(plan.total for plan in plans)
    names = ", ".join(plan.asker.benchmark_name for plan in plans)
    sys.stdout.write(
        f"{len(works)} models on {names}: {requests:,} requests in {units:,} units each\n{table}\n"
        "x bound: makespan over a bound that no schedule can beat. used: GPU time that computed, of that paid.\n"
        "in turn: each model on all GPUs that pay, the next when it has ended. lost: nodes taken back.\n"
        "Times follow from the arithmetic in pipelines/plan/cost_model.py, which is assumed and not measured.\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
