"""`vlmsweep generate`: a synthetic benchmark in the distributed format, or a sample table, ready for `ingest`."""

from __future__ import annotations

import re
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jobs.flags import Json
from jobs.output import print_json, print_line
from pipelines.errors import UsageError

if TYPE_CHECKING:
    from pipelines.benchmarks.mate.generator.generate import GeneratedSummary

_MAX_ROWS = 10_000  # of a sample table
_RANGE = re.compile(r"(\d{1,4})(?:-(\d{1,4}))?")


def generate(
    benchmark: Annotated[str, typer.Argument(help="mate, a benchmark in that style; or table, rows to start from.")],
    out: Annotated[str, typer.Option("--out", help="A local folder, empty or new.")],
    examples: Annotated[
        int | None,
        typer.Option(
            "--examples",
            help="For mate: number of scenes, two questions each. For table: number of rows, 20 by default.",
        ),
    ] = None,
    origin: Annotated[
        str, typer.Option("--from", help="For table: benchmark whose drawn scenes the rows ask about: mate.")
    ] = "mate",
    like: Annotated[
        str | None,
        typer.Option(
            "--like",
            help="For mate: ingested data (a folder or s3://bucket/key) whose MATE gets a fresh twin, scene by scene; "
            "--examples takes the first ones.",
        ),
    ] = None,
    objects: Annotated[str, typer.Option("--objects", help="Objects per scene: A-B, taken in turn, or one number.")] = (
        "3-10"
    ),
    seed: Annotated[int, typer.Option("--seed", help="The same seed makes the same bytes.")] = 42,
    workers: Annotated[
        int, typer.Option("--workers", help="Number of processes; the result does not depend on it.")
    ] = 1,
    json: Json = False,
) -> None:
    """Generate a MATE-style benchmark, or a sample table, ready for `ingest`."""
    from pipelines.benchmarks import unknown_name
    from pipelines.benchmarks.mate.generator.generate import generate as generate_mate

    if benchmark not in ("mate", "table"):
        raise unknown_name("benchmark to generate", benchmark, ["mate", "table"])
    if "://" in out:
        raise UsageError(f"--out {out}: give a local folder; `ingest` takes it from there to any store")
    if origin != "mate":
        raise unknown_name("origin of a table", origin, ["mate"])
    if benchmark == "table":
        _sample_table(Path(out), 20 if examples is None else examples, seed, as_json=json)
        return
    if like is not None:
        _twin(Path(out), like, examples, seed, workers, as_json=json)
        return
    if examples is None:
        raise UsageError("generate mate: give the number of scenes, such as --examples 100")
    try:
        summary = generate_mate(Path(out), _range(objects), examples, seed, workers)
    except OSError as error:
        raise UsageError(f"--out {out}: {error.strerror or error}") from error
    if json:
        print_json(_described(summary, seed))
    else:
        print_line(
            f"{summary.scenes} scenes, {sum(summary.rows.values())} rows in {len(summary.rows)} files -> {summary.out}"
        )


def _sample_table(out: Path, rows: int, seed: int, *, as_json: bool) -> None:
    from pipelines.ingest.sample_table import write_sample_table

    if not 1 <= rows <= _MAX_ROWS:
        raise UsageError(f"--examples {rows}: give 1 to {_MAX_ROWS:,}")
    try:
        pictures = write_sample_table(out, rows, seed)
    except OSError as error:
        raise UsageError(f"--out {out}: {error.strerror or error}") from error
    if as_json:
        print_json({"out": str(out), "rows": rows, "pictures": pictures, "seed": seed})
    else:
        print_line(f"{rows} rows, {pictures} pictures -> {out}")


def _twin(out: Path, like: str, examples: int | None, seed: int, workers: int, *, as_json: bool) -> None:
    from pipelines.benchmarks.mate.generator.twin import generate_twin
    from pipelines.ingest.dataset import Dataset
    from pipelines.storage.store import Store

    dataset = Dataset.open(Store(like), "mate")
    samples = islice(dataset.samples(), examples)
    try:
        summary = generate_twin(out, samples, dataset.manifest.dataset_fingerprint, seed, workers)
    except OSError as error:
        raise UsageError(f"--out {out}: {error.strerror or error}") from error
    if as_json:
        print_json({**asdict(summary), "out": str(out), "seed": seed})
    else:
        print_line(
            f"{summary.scenes} scenes, {sum(summary.rows.values())} rows -> {out}; as many linking attributes in "
            f"{summary.equal_links}, the same wording in {summary.equal_wording}"
        )


def _range(text: str) -> tuple[int, int]:
    """Parse the lowest and highest number of objects."""
    match = _RANGE.fullmatch(text.strip())
    if not match:
        raise UsageError(f"--objects {text}: give a range such as 3-10, or one number")
    low = int(match[1])
    return low, int(match[2] or low)


def _described(summary: GeneratedSummary, seed: int) -> dict[str, object]:
    return {
        "out": str(summary.out),
        "seed": seed,
        "scenes": summary.scenes,
        "rows": summary.rows,
        "tasks": summary.tasks,
        "links": summary.links,
    }
