"""Guard against slower stages: processor time of each stage, as a multiple of a fixed job's in the same process.

    python -m tests.bench.quick            # compare with the last record; exit 1 where a stage is 1.3 times slower
    python -m tests.bench.quick --record   # also add the result to docs/benchmarks.json and draw docs/benchmarks.svg

Each repeat is a process of its own: one sweep of the guessing model without Ray, from shards to the report, imports
included. The fixed job runs before and after it, so that the speed of the machine and its other work cancel out.
"""

from __future__ import annotations

import argparse
import io
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import pipelines.predict.executor
import pipelines.report.reduce
import pipelines.score.stage
from models.spec import ModelSpec
from pipelines.benchmarks.figures import Lines, Series
from pipelines.plan.run_spec import RunSpec
from pipelines.progress import NullProgress
from pipelines.rendering.figures.svg import to_svg_bytes
from pipelines.sweep.run import run_sweep
from tests.bench.many import write_many
from tests.bench.results import show
from tests.support.paths import ROOT

STAGES = ("plan", "predict", "score", "report")
SLOWER = 1.3
RECORDS = ROOT / "docs" / "benchmarks.json"
CHART = ROOT / "docs" / "benchmarks.svg"
REQUESTS_PER_CLIP = 20


class StageClock(NullProgress):
    """Measures the processor seconds of each stage."""

    def __init__(self) -> None:
        self._marks = [("plan", time.process_time())]

    def phase(self, title: str, total: int) -> None:
        """Begin a phase, named by the first word of its title."""
        del total
        self._marks.append((title.split(maxsplit=1)[0], time.process_time()))

    def seconds(self) -> dict[str, float]:
        """Return the seconds of each stage until now."""
        ends = [mark for _, mark in self._marks[1:]] + [time.process_time()]
        totals = dict.fromkeys(STAGES, 0.0)
        for (stage, start), end in zip(self._marks, ends, strict=True):
            totals[stage] += end - start
        return totals


def reference_job() -> float:
    """Return the processor seconds of a fixed job of the kinds that a sweep consists of: numpy, Parquet, JSON, text."""
    start = time.process_time()
    numbers = np.random.default_rng(0).random((600, 600))
    for _ in range(6):
        numbers = np.sort(numbers @ numbers / 600, axis=1)
    rows = [{"id": f"{index:08x}", "text": f"answer {index % 977} of the model"} for index in range(60_000)]
    table = pa.Table.from_pylist(json.loads(json.dumps(rows)))
    sink = io.BytesIO()
    pq.write_table(table, sink)
    texts = [row["text"].split() for row in pq.read_table(io.BytesIO(sink.getvalue())).to_pylist()]
    assert len(texts) == len(rows)
    return time.process_time() - start


def run_stages_here() -> None:
    """Let all stages run in this process, whatever their size."""
    for module, limit in (
        (pipelines.score.stage, "MAX_PARTS_HERE"),
        (pipelines.report.reduce, "MAX_ROWS_HERE"),
    ):
        setattr(module, limit, sys.maxsize)


def measure(data: Path) -> dict[str, float]:
    """Return each stage's processor time in this process, in multiples of the reference job's, and that job's."""
    run_stages_here()
    before = reference_job()
    with tempfile.TemporaryDirectory() as out:
        clock = StageClock()
        spec = RunSpec(
            data=str(data),
            out=out,
            models={"chance": ModelSpec(engine="random")},
            benchmarks=("maia",),
            settings=("1-frame",),
        )
        result = run_sweep(spec, progress=clock)
        seconds = clock.seconds()
    if result.failed or not result.metrics:
        raise RuntimeError(f"{result.failed} requests failed, {len(result.metrics)} metrics were computed")
    reference = (before + reference_job()) / 2
    return {**{stage: spent / reference for stage, spent in seconds.items()}, "reference_s": reference}


def run_repeats(requests: int, repeats: int) -> list[dict[str, float]]:
    """Measure in processes of their own."""
    with tempfile.TemporaryDirectory() as folder:
        write_many(Path(folder), max(1, requests // REQUESTS_PER_CLIP), requests)
        command = [sys.executable, "-m", "tests.bench.quick", "--measure", folder]
        runs = [subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True) for _ in range(repeats)]
    return [json.loads(run.stdout.splitlines()[-1]) for run in runs]


def medians(runs: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the median of each number."""
    return {name: round(statistics.median(run[name] for run in runs), 4) for name in runs[0]}


def slower_stages(measured: Mapping[str, float], recorded: Mapping[str, float]) -> list[str]:
    """Return a sentence for each stage that takes more than `SLOWER` times what was recorded."""
    return [
        f"{stage} takes {measured[stage] / recorded[stage]:.2f} times what was recorded"
        for stage in STAGES
        if measured[stage] > SLOWER * recorded[stage]
    ]


def last_record(records: Sequence[Mapping[str, Any]], requests: int) -> Mapping[str, Any] | None:
    """Return the newest record of the same size."""
    return next((entry for entry in reversed(records) if entry["requests"] == requests), None)


def chart(records: Sequence[Mapping[str, Any]]) -> bytes:
    """Draw each stage's time over the records."""
    series = [Series(label=stage, values=tuple(entry["stages"][stage] for entry in records)) for stage in STAGES]
    figure = Lines(
        id="benchmarks",
        title="Processor time of a sweep's stages, guessing model",
        x=tuple(float(number) for number in range(1, len(records) + 1)),
        series=tuple(series),
        x_label="record, as listed in benchmarks.json",
        y_label="multiples of the reference job",
        y_range=(0.0, max(entry["stages"][stage] for entry in records for stage in STAGES)),
    )
    return to_svg_bytes(figure)


def main() -> int:
    """Measure, compare and record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure)))
        return 0
    runs = run_repeats(options.requests, options.repeats)
    measured = medians(runs)
    records = json.loads(RECORDS.read_text()) if RECORDS.is_file() else []
    recorded = last_record(records, options.requests)
    before = recorded["stages"] if recorded else {}
    show(
        f"{options.requests} requests, multiples of the reference job",
        ["stage", "now", "lowest", "highest", "recorded"],
        [
            [stage, measured[stage], min(r[stage] for r in runs), max(r[stage] for r in runs), before.get(stage)]
            for stage in STAGES
        ],
    )
    problems = slower_stages(measured, before) if before else []
    for problem in problems:
        print(problem, file=sys.stderr)
    if options.record:
        commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True)
        entry = {
            "date": time.strftime("%Y-%m-%d", time.gmtime()),
            "commit": commit.stdout.strip(),
            "requests": options.requests,
            "reference_s": measured.pop("reference_s"),
            "stages": measured,
        }
        records.append(entry)
        RECORDS.write_text(json.dumps(records, indent=1) + "\n")
        CHART.write_bytes(chart(records))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
