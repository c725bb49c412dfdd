"""Entries of growing size through the reduction and the report: processor time and memory, each in its own process.

    python -m tests.bench.scale.reduction --requests 100000,1000000 --folder BIG
    python -m tests.bench.scale.reduction --requests 200000 --models 50 --folder BIG

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

ANSWERS: Final = (
    "la persona sposta una cosa sul tavolo",
    "sotto il letto della camera",
    "la persona esce dalla cucina",
)


def planned_entries(out: Store, requests: int, models: int) -> Iterator[PlannedEntry]:
    """Yield the entry of each model, of about so many requests; their plan is written where there is none."""
    dataset = SyntheticDataset(out, "reduction", samples_for(requests))
    for number in range(models):
        target = make_target(dataset, f"chance-{number:02}", ModelSpec(engine="random"))
        entry = ManifestEntry(benchmark="maia", model=target.model, data=out.uri, target=target)
        yield PlannedEntry(entry, [EntryPlan(entry, PlanStore(out).open(dataset, target.prompts), dataset)])


def write_answers(out: Store, planned: PlannedEntry) -> None:
    """Write a part of predictions and one of scores for each part of the plan."""
    (plan,) = planned.plans
    for number, part in enumerate(plan.plan.parts):
        path = f"{part_folder('predictions', 'maia', planned.entry.model)}/part-{number:024x}.parquet"
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
            **key._asdict(), "request_id": request_id, "benchmark": "maia", "model": plan.entry.model, "status": "ok",
            "dataset_fingerprint": "reduction", "output": answer, "answer": answer, "rule": "single", "flags": [],
            "finish_reason": "stop", "verdict_state": "absent", "values": list(values.items()), "input_tokens": 66,
            "output_tokens": 1, "cached_tokens": 0, "head_tokens": 0, "least_tokens": 66, "frames_used": 32,
            "latency_s": 0.01, "steps": [],
        }  # fmt: skip


def measure(folder: Path, requests: int, models: int) -> dict[str, Any]:
    """Reduce and report once in this process."""
    out = Store(str(folder))
    entries = list(planned_entries(out, requests, models))
    before_mb, start = peak_mb(), time.process_time()
    scores = EntryScores.read(out, entries[0].entry)
    rows = scores.join(EntryRequests.read(entries[0]).columns)
    joined_s, joined_mb, total = time.process_time() - start, peak_mb(), len(rows) * models
    del scores, rows
    start = time.process_time()
    results = [reduce_entry(planned, [], out) for planned in entries]
    reduced_s, reduced_mb = time.process_time() - start, peak_mb()
    start = time.process_time()
    publish(out, RunManifest(entries=tuple(planned.entry for planned in entries)), results, Remarks())
    return {
        "requests": total,
        "models": models,
        "join_us": 1e6 * joined_s * models / total,
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
    parser.add_argument("--requests", default="100000,1000000", help="sizes of an entry, comma-separated")
    parser.add_argument("--models", type=int, default=1, help="entries, one a model")
    parser.add_argument("--folder", type=Path, required=True, help="for the outputs, a folder a size")
    parser.add_argument("--measure", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        print(json.dumps(measure(args.folder / str(args.measure), args.measure, args.models)))
        return
    rows = []
    for size in map(int, args.requests.split(",")):
        out = Store(str(args.folder / str(size)))
        for planned in planned_entries(out, size, args.models):
            write_answers(out, planned)
        command = [sys.executable, "-m", "tests.bench.scale.reduction", "--folder", args.folder, "--measure", str(size)]
        command += ["--models", str(args.models)]
        process = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
        rows.append(json.loads(process.stdout.splitlines()[-1]))
        print(rows[-1], flush=True)
    show("reduction", list(rows[0]), [list(row.values()) for row in rows])


if __name__ == "__main__":
    main()
