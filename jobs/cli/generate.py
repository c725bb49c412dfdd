"""`vlmsweep generate`: a synthetic benchmark in the distributed format, ready for `ingest`."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jobs.config_file import ConfigFile
from jobs.flags import Json, Verbose
from jobs.output import print_json, print_line
from pipelines.errors import UsageError

if TYPE_CHECKING:
    from pipelines.benchmarks.mate.generator.generate import GeneratedSummary

_RANGE = re.compile(r"(\d{1,4})(?:-(\d{1,4}))?")


def generate(
    benchmark: Annotated[str, typer.Argument(help="The style: mate.")],
    examples: Annotated[int, typer.Option("--examples", help="Number of scenes; each has two questions.")],
    out: Annotated[str, typer.Option("--out", help="A local folder, empty or new.")],
    objects: Annotated[str, typer.Option("--objects", help="Objects per scene: A-B, taken in turn, or one number.")] = (
        "3-10"
    ),
    seed: Annotated[int, typer.Option("--seed", help="The same seed makes the same bytes.")] = 42,
    workers: Annotated[
        int, typer.Option("--workers", help="Number of processes; the result does not depend on it.")
    ] = 1,
    config: ConfigFile = None,
    verbose: Verbose = False,
    json: Json = False,
) -> None:
    """Generate a MATE-style benchmark, ready for `ingest`."""
    from pipelines.benchmarks import unknown_name
    from pipelines.benchmarks.mate.generator.generate import generate as generate_mate

    del config  # read by its callback before the other flags
    logging.getLogger().setLevel(logging.INFO if verbose else logging.WARNING)
    if benchmark != "mate":
        raise unknown_name("benchmark to generate", benchmark, ["mate"])
    if "://" in out:
        raise UsageError(f"--out {out}: give a local folder; `ingest` takes it from there to any store")
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
