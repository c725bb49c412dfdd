"""Planning at growing sizes: processor time a request, memory, requests to the store; each size in its own process.

    python -m tests.bench.scale.planning --requests 100000,1000000,10000000

Three steps: write the plan, plan a model on it, and plan the model again when all but one of a hundred requests are
completed. What an earlier run completed is held as 16 bytes a request; the rest must not grow.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from itertools import compress, cycle
from tempfile import TemporaryDirectory
from typing import Any

import psutil

from models.spec import ModelSpec
from pipelines.plan.id_set import IdSet
from pipelines.plan.plan_store import PlanStore
from pipelines.plan.planner import plan_model
from pipelines.plan.records import CompletedRequests
from tests.bench.results import show
from tests.bench.scale.synthetic import CountingStore, SyntheticDataset, make_target, peak_mb, samples_for

PENDING = 100
"""One of so many requests is pending in the resumed plan."""


def measure(requests: int) -> dict[str, Any]:
    """Plan once in this process."""
    with TemporaryDirectory() as folder:
        store = CountingStore(folder)
        dataset = SyntheticDataset(store, "planning", samples_for(requests))
        target = make_target(dataset, "chance", ModelSpec(engine="random"))
        plan_model(
            PlanStore(store).write(SyntheticDataset(store, "first", 9), target.prompts),
            target,
            CompletedRequests(),
        )
        process, before_mb = psutil.Process(), peak_mb()
        start = time.process_time()
        plan = PlanStore(store).write(dataset, target.prompts)
        written, written_mb = time.process_time(), peak_mb()
        work = plan_model(plan, target, CompletedRequests())
        planned, planned_mb = time.process_time(), peak_mb()
        ids = (target.request_id(key) for part in plan.parts for key in plan.read_columns(part).request_keys())
        finished = IdSet(compress(ids, cycle([True] * (PENDING - 1) + [False])))
        began = time.process_time()
        resumed = plan_model(plan, target, CompletedRequests(finished))
        resumed_s = time.process_time() - began
    assert work.to_do == plan.rows
    assert resumed.to_do == plan.rows - len(finished)
    return {
        "requests": plan.rows,
        "units": len(work.units),
        "write_us": 1e6 * (written - start) / plan.rows,
        "plan_us": 1e6 * (planned - written) / plan.rows,
        "resume_us": 1e6 * resumed_s / plan.rows,
        "before_mb": before_mb,
        "written_mb": written_mb,
        "planned_mb": planned_mb,
        "resumed_mb": peak_mb(),
        "now_mb": process.memory_info().rss / 2**20,
        "store_requests": sum(store.requests.values()),
    }


def main() -> None:
    """Measure each size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", default="100000,1000000", help="sizes, comma-separated")
    parser.add_argument("--measure", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        print(json.dumps(measure(args.measure)))
        return
    rows = []
    for size in args.requests.split(","):
        command = [sys.executable, "-m", "tests.bench.scale.planning", "--measure", size]
        process = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
        rows.append(json.loads(process.stdout.splitlines()[-1]))
        print(rows[-1], flush=True)
    show("planning", list(rows[0]), [list(row.values()) for row in rows])


if __name__ == "__main__":
    main()
