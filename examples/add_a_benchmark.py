"""Add a benchmark from another package: functions that read its data, write its prompts and read answers.

    python examples/add_a_benchmark.py [OUT]

A package brings the benchmark to vlmsweep, on every machine where it is installed, by an entry point:

    [project.entry-points."vlmsweep.benchmarks"]
    sums = "add_a_benchmark"

Accuracy with intervals, a table and a figure come with it. Further capabilities (scorers, a judge, tables in a paper's
layout) are fields of `BenchmarkDefinition`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from models import Generation, Step, user
from pipelines import (
    BenchmarkDefinition,
    Prompt,
    PromptInput,
    RawSample,
    Reading,
    Rejection,
    Row,
    Source,
    SourceWarning,
)


def read_source(source: Source, _column_map: Mapping[str, str]) -> Iterator[RawSample | Rejection | SourceWarning]:
    """Read `sums.jsonl`; a row without a number as its answer is rejected with the reason."""
    for number, line in enumerate(source.read_bytes("sums.jsonl").splitlines(), start=1):
        row = json.loads(line)
        if isinstance(row.get("answer"), int):
            yield RawSample(sample_id=row["id"], file="sums.jsonl", media=(), data=row)
        else:
            yield Rejection(file="sums.jsonl", item=f"line {number}", reason="`answer` is no number")


def prompts(query: PromptInput) -> Iterator[Prompt]:
    """Yield one request per sample."""
    text = query.texts.fill("sums-v1", sum=query.sample.data["sum"])
    step = Step(turns=(user(text),), generation=Generation(max_new_tokens=8), choices=("1", "2", "3"))
    yield Prompt(version=query.texts.version("sums-v1"), steps=(step,))


def read_answer(row: Row) -> Reading:
    """Read the number that the model wrote."""
    answer = (row.output or "").strip()
    is_correct = answer == str(row.sample.data["answer"])
    return Reading(answer=answer, rule="text", values={"correct": float(is_correct)})


BENCHMARK = BenchmarkDefinition(
    name="sums",
    version="1",
    title="Sums",
    citation="an example",
    tasks={"sum": ("words",)},
    prompt_texts={"sums-v1": "How much is {sum}? Answer with a number."},
    source=read_source,
    prompts=prompts,
    read=read_answer,
)


def main(out: Path) -> None:
    """Register this module as an installed package would, then ingest and run the benchmark."""
    metadata, source = out / "site" / "sums-1.0.dist-info", out / "source"
    metadata.mkdir(parents=True, exist_ok=True)
    source.mkdir(exist_ok=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: sums\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[vlmsweep.benchmarks]\nsums = add_a_benchmark\n")
    rows = [{"id": f"sum{n}", "sum": f"{n % 2} + {n % 3}", "answer": n % 2 + n % 3} for n in range(1, 21)]
    (source / "sums.jsonl").write_text("\n".join(json.dumps(row) for row in rows if row["answer"]))
    folders = [str(metadata.parent), str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]  # noqa: TID251
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}  # noqa: TID251
    data, results = str(out / "data"), str(out / "results")
    for arguments in (
        ["ingest", "sums", str(source), "--data", data],
        ["run", "--models", "random", "--benchmarks", "sums", "--data", data, "--out", results],
    ):
        subprocess.run([sys.executable, "-m", "jobs.cli", *arguments], env=environment, check=True)  # noqa: S603
    print(f"report: {results}/report/index.html")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="vlmsweep-")).absolute())
