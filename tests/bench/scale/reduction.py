"""One entry of growing size through the reduction and the report: processor time and memory, each in its own process.

    python -m tests.bench.scale.reduction --requests 100000,1000000,10000000 --folder BIG

The plan is the planner's; predictions and scores are written from its columns, as those of the guessing model
would be. Files that exist are kept, so that another version can be measured on them.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from models.spec import ModelSpec
from pipelines.plan.context import EntryPlan
from pipelines.plan.plan_store import PlanStore
from pipelines.plan.run_manifest import ManifestEntry, RunManifest
from pipelines.report.entry_frame import EntryRequests, EntryScores, PlannedEntry
from pipelines.report.reduce import reduce_entry
from pipelines.report.stage import Remarks, publish
from pipelines.schemas import PREDICTIONS, SCORES
from pipelines.storage.parts import part_folder, score_path, to_parquet
from pipelines.storage.store import Store
from tests.bench.results import show
from tests.bench.scale.synthetic import SyntheticDataset, make_target, peak_mb, samples_for

MODEL: Final = "chance"
ANSWERS: Final = (
    "la persona sposta una cosa sul tavolo",
    "sotto il letto della camera",
    "la persona esce dalla cucina",
)


def planned_entry(out: Store, requests: int) -> PlannedEntry:
    """Return an entry of about so many requests; its plan is written where there is none."""
    dataset = SyntheticDataset(out, "reduction", samples_for(requests))
    target = make_target(dataset, MODEL, ModelSpec(engine="random"))
    entry = ManifestEntry(benchmark="maia", model=MODEL, data=out.uri, target=target)
    return PlannedEntry(entry, [EntryPlan(entry, PlanStore(out).open(dataset, target.prompts), dataset)])


def write_answers(out: Store, planned: PlannedEntry) -> None:
    """Write a part of predictions and one of scores for each part of the plan."""
    (plan,) = planned.plans
    for number, part in enumerate(plan.plan.parts):
        path = f"{part_folder('predictions', 'maia', MODEL)}/part-{number:024x}.parquet"
        if out.exists(score_path(path)):
            continue
        rows = list(_rows(plan, plan.plan.read_columns(part)))
        out.put(path, to_parquet(pa.Table.from_pylist(rows, PREDICTIONS), PREDICTIONS))
        out.put(score_path(path), to_parquet(pa.Table.from_pylist(rows, SCORES), SCORES))


def _rows(plan: EntryPlan, columns: Any) -> Iterator[dict[str, Any]]:
    """Yield rows that have the columns of predictions and of scores."""
    for key in columns.request_keys():
        request_id = plan.entry.target.request_id(key)
        draw = int(request_id[:6], 16)
        if key.task == "vsv":
            answer, right = "AB"[draw % 2], float(draw // 2 % 2)
            values = {"correct": right, "correct_authors": right, "ts_at_a": float(draw // 4 % 2)}
        else:
            answer = f"{ANSWERS[draw % 3]} {draw % 1000}"
            values = dict.fromkeys(("rouge", "meteor", "rouge1", "meteor_wordnet"), draw % 100 / 100)
        yield {
            **key._asdict(), "request_id": request_id, "benchmark": "maia", "model": MODEL, "status": "ok",
            "dataset_fingerprint": "reduction", "output": answer, "answer": answer, "rule": "single", "flags": [],
            "finish_reason": "stop", "verdict_state": "absent", "values": list(values.items()), "input_tokens": 66,
            "output_tokens": 1, "cached_tokens": 0, "head_tokens": 0, "least_tokens": 66, "frames_used": 32,
            "latency_s": 0.01, "steps": [],
        }  # fmt: skip


def measure(folder: Path, requests: int) -> dict[str, Any]:
    """Reduce and report once in this process."""
    out = Store(str(folder))
    planned = planned_entry(out, requests)
    before_mb, start = peak_mb(), time.process_time()
    scores = EntryScores.read(out, planned.entry)
    rows = scores.join(EntryRequests.read(planned).columns)
    joined_s, joined_mb, total = time.process_time() - start, peak_mb(), len(rows)
    del scores, rows
    start = time.process_time()
    results = reduce_entry(planned, [], out)
    reduced_s, reduced_mb = time.process_time() - start, peak_mb()
    start = time.process_time()
    publish(out, RunManifest(entries=(planned.entry,)), [results], Remarks())
    return {
        "requests": total,
        "join_us": 1e6 * joined_s / total,
        "reduce_us": 1e6 * reduced_s / total,
        "publish_s": time.process_time() - start,
        "before_mb": before_mb,
        "joined_mb": joined_mb,
        "reduced_mb": reduced_mb,
        "reported_mb": peak_mb(),
    }


def main() -> None:
    """Write and measure each size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", default="100000,1000000", help="sizes, comma-separated")
    parser.add_argument("--folder", type=Path, required=True, help="for the outputs, a folder a size")
    parser.add_argument("--measure", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        print(json.dumps(measure(args.folder / str(args.measure), args.measure)))
        return
    rows = []
    for size in map(int, args.requests.split(",")):
        out = Store(str(args.folder / str(size)))
        write_answers(out, planned_entry(out, size))
        command = [sys.executable, "-m", "tests.bench.scale.reduction", "--folder", args.folder, "--measure", str(size)]
        process = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
        rows.append(json.loads(process.stdout.splitlines()[-1]))
        print(rows[-1], flush=True)
    show("reduction", list(rows[0]), [list(row.values()) for row in rows])


if __name__ == "__main__":
    main()
