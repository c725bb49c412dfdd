"""What Ray itself costs: the pipeline of predictions with the same rows, tasks and sizes, and stages that do nothing.

    python -m tests.bench.floor --requests 10000,100000 --runs 3

`one` is the stage of an engine that cannot die (the guessing model), `three` are those of all others: load, answer in
one replica, commit. The start of Ray is listed by itself. The difference between two sizes is Ray's cost of a request.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from cluster.lazy import open_cluster
from pipelines.plan.batches import ExclusiveGroups, batch_units
from pipelines.plan.units import MAX_UNIT_REQUESTS, MediaGroupSlice, WorkUnit
from pipelines.predict.executor import COMMIT_CPUS, ENGINE_CPUS, LOAD_CPUS
from pipelines.predict.records import Receipt
from pipelines.predict.serialization import pack_batch, pack_receipts, unpack_batch
from pipelines.ray_data import quiet_ray_data, run_rows
from tests.bench.processes import used
from tests.bench.results import record, show, spread

GROUP = 20
LOADED_BYTES, ANSWERED_BYTES = 2300, 450
"""What a request of `tests.bench.pipeline` takes of the object store, without pixels."""
CORES = 2
_EACH_ROW = {"batch_size": 1, "batch_format": "pyarrow"}


def _units(requests: int) -> list[WorkUnit]:
    return [
        WorkUnit(
            benchmark="maia",
            part=f"predictions/benchmark=maia/model=none/{start:024x}.parquet",
            slices=tuple(
                MediaGroupSlice(
                    "plan/benchmark=maia/part-0.parquet", f"video:{row:064x}:1", tuple(range(row, row + GROUP))
                )
                for row in range(start, start + MAX_UNIT_REQUESTS, GROUP)
            ),
            requests=min(MAX_UNIT_REQUESTS, requests - start),
        )
        for start in range(0, requests, MAX_UNIT_REQUESTS)
    ]


def _receipts(requests: list[int]) -> pa.Table:
    return pack_receipts([Receipt(part="p", counts={("vsv", "1-frame", "ok"): count}) for count in requests])


def answer_nothing(batch: Any) -> Any:
    """Return receipts without work."""
    units, _ = unpack_batch(batch)
    return _receipts([unit.requests for unit in units])


def load_nothing(batch: Any) -> Any:
    """Return as many bytes as a loader would."""
    units, _ = unpack_batch(batch)
    sizes = [unit.requests for unit in units]
    return pa.table({"sizes": [sizes], "payload": pa.array([bytes(LOADED_BYTES * sum(sizes))], pa.large_binary())})


class AnswerNothing:
    """Returns as many rows and bytes as a replica would."""

    def __call__(self, batch: Any) -> Iterator[Any]:
        for size in batch["sizes"][0].as_py():
            yield pa.table({"size": [size], "payload": pa.array([bytes(ANSWERED_BYTES * size)], pa.large_binary())})


def commit_nothing(batch: Any) -> Any:
    """Return receipts without work."""
    return _receipts(batch["size"].to_pylist())


def _pipeline(requests: int, stages: str) -> Any:
    import ray.data as rd

    quiet_ray_data()
    batches = batch_units(_units(requests), CORES if stages == "one" else 1)
    exclusive = ExclusiveGroups(batches)
    items = [{"batch": pack_batch(batch, exclusive.of(batch))} for batch in batches]
    rows = rd.from_items(items, override_num_blocks=len(items))
    pool = rd.TaskPoolStrategy(size=CORES)
    if stages == "one":
        return rows.map_batches(answer_nothing, **_EACH_ROW, num_cpus=ENGINE_CPUS, compute=pool)
    return (
        rows.map_batches(load_nothing, **_EACH_ROW, num_cpus=LOAD_CPUS, compute=pool)
        .map_batches(
            AnswerNothing, **_EACH_ROW, num_cpus=ENGINE_CPUS, compute=rd.ActorPoolStrategy(min_size=1, max_size=1)
        )
        .map_batches(commit_nothing, **_EACH_ROW, num_cpus=COMMIT_CPUS, compute=pool)
    )


def measure_process(requests: int, stages: str) -> dict[str, Any]:
    """Run one empty pipeline in this process and measure it."""
    phase = "start"
    with used(lambda: phase) as usage, open_cluster(None) as cluster:
        cluster.connect()
        phase, began = "pipeline", time.perf_counter()
        done = sum(
            cell["rows"]
            for row in run_rows(_pipeline(requests, stages))
            for r in row["receipts"]
            for cell in r["counts"]
        )
        seconds, phase = time.perf_counter() - began, "end"
    if done != requests:
        raise RuntimeError(f"{done} of {requests} requests passed")
    table = usage.by_phase()
    cpu_s = sum(table["pipeline"].values())
    return {
        "seconds": seconds,
        "start_cpu_s": sum(table["start"].values()),
        "cpu_s": cpu_s,
        "cpu_ms_per_request": 1000 * cpu_s / requests,
        "driver_mb": max(usage.driver_mb),
        "processes": table["pipeline"],
    }


def main() -> None:
    """Measure and write the results file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", default="10000,100000", help="sizes, comma-separated")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--measure", nargs=2, metavar=("REQUESTS", "STAGES"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        print(json.dumps(measure_process(int(args.measure[0]), args.measure[1])))
        return
    cases = [(size, stages) for size in args.requests.split(",") for stages in ("one", "three")]
    runs: dict[tuple[str, str], list[dict[str, Any]]] = {case: [] for case in cases}
    for _ in range(args.runs):
        for case in cases:
            command = [sys.executable, "-m", "tests.bench.floor", "--measure", *case]
            process = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
            runs[case].append(json.loads(process.stdout.splitlines()[-1]))
            print(case, runs[case][-1], flush=True)
    names = ("seconds", "start_cpu_s", "cpu_s", "cpu_ms_per_request", "driver_mb")
    sums = {case: {name: spread([run[name] for run in runs[case]]) for name in names} for case in cases}
    record("floor", {f"{size} {stages}": {**sums[size, stages], "runs": runs[size, stages]} for size, stages in cases})
    show(
        "empty pipeline on Ray",
        ["requests", "stages", "seconds", "CPU s to start", "CPU s", "CPU ms a request", "driver MB"],
        [[*case, *(sums[case][name]["median"] for name in names)] for case in cases],
    )


if __name__ == "__main__":
    main()
