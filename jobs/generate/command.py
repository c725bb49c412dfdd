"""`vlmsweep generate`: a synthetic benchmark, a fresh twin of one or a sample table; `vlmsweep twin` compares runs."""

import re
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Annotated, Final

from jobs.shared.commands import listed
from jobs.shared.options import Json, RunOptions, refuse
from jobs.shared.output import print_result, table
from models.guards.regular_files import NotRegularError
from pipelines.errors import UsageError
from pipelines.flags import Argument, Flag

_GAP_HEADS: Final = ("model", "task", "setting", "published", "twin", "gap", "95%", "n", "paired", "reading")
_MAX_ROWS = 10_000  # of a sample table
_RANGE = re.compile(r"(\d{1,4})(?:-(\d{1,4}))?")


@listed("Set up", "generate mate --examples 100 --out mate")
def generate(
    benchmark: Annotated[str, Argument("mate, a benchmark in that style; or table, rows to start from.")],
    out: Annotated[str, Flag("A local folder, empty or new.", "Output", kind="location")],
    examples: Annotated[
        int | None, Flag("For mate: number of scenes, two questions each. For table: number of rows, 20 by default.")
    ] = None,
    origin: Annotated[
        str | None, Flag("For table: benchmark whose drawn scenes the rows ask about. [mate]", name="--from")
    ] = None,
    like: Annotated[
        str | None,
        Flag(
            "For mate: ingested data (a folder or s3://bucket/key) to draw a fresh counterpart of, scene by scene. "
            "--examples N takes the first N.",
            kind="location",
        ),
    ] = None,
    objects: Annotated[
        str | None, Flag("For mate: objects per scene: A-B, taken in turn, or one number. [3-10]")
    ] = None,
    seed: Annotated[int, Flag("The same seed makes the same bytes.")] = 42,
    workers: Annotated[int | None, Flag("For mate: number of processes; the result is the same. [1]")] = None,
    json: Json = False,
) -> None:
    """Generate a MATE-style benchmark, or a sample table, ready for `ingest`."""
    from pipelines.benchmarks import unknown_name

    if benchmark not in ("mate", "table"):
        raise unknown_name("benchmark to generate", benchmark, ["mate", "table"])
    if "://" in out:
        raise UsageError(f"--out {out}: give a local folder; `ingest` takes it from there to any store")
    if origin not in (None, "mate"):
        raise unknown_name("origin of a table", origin, ["mate"])
    if benchmark == "table":
        refuse({"like": like, "objects": objects, "workers": workers}, "only of `generate mate`")
    else:
        refuse({"from": origin}, "only of `generate table`")
    processes = 1 if workers is None else workers
    try:
        if benchmark == "table":
            _sample_table(Path(out), 20 if examples is None else examples, seed, as_json=json)
        elif like is not None:
            refuse({"objects": objects}, "the scenes of --like say how many objects there are")
            _counterpart(Path(out), like, examples, seed, processes, as_json=json)
        else:
            _scenes(Path(out), "3-10" if objects is None else objects, examples, seed, processes, as_json=json)
    except OSError as error:
        place = error.filename if isinstance(error, NotRegularError) else out
        raise UsageError(f"--out {place}: {error.strerror or error}") from error


def _scenes(out: Path, objects: str, examples: int | None, seed: int, workers: int, *, as_json: bool) -> None:
    from jobs.generate.generate import generate as generate_mate

    if examples is None:
        raise UsageError("generate mate: give the number of scenes, such as --examples 100")
    summary = generate_mate(out, _range(objects), examples, seed, workers)
    text = f"{summary.scenes} scenes, {sum(summary.rows.values())} rows in {len(summary.rows)} files -> {out}"
    print_result(as_json, {**asdict(summary), "out": str(out), "seed": seed}, text)


def _sample_table(out: Path, rows: int, seed: int, *, as_json: bool) -> None:
    from jobs.generate.sample_table import write_sample_table

    if not 1 <= rows <= _MAX_ROWS:
        raise UsageError(f"--examples {rows}: give 1 to {_MAX_ROWS:,}")
    pictures = write_sample_table(out, rows, seed)
    result = {"out": str(out), "rows": rows, "pictures": pictures, "seed": seed}
    print_result(as_json, result, f"{rows} rows, {pictures} pictures -> {out}")


def _counterpart(out: Path, like: str, examples: int | None, seed: int, workers: int, *, as_json: bool) -> None:
    from jobs.generate.twin import generate_counterpart
    from pipelines.ingest.dataset import Dataset
    from pipelines.storage.store import Store

    if examples is not None and examples < 1:
        raise UsageError(f"examples: 1 or more (got {examples})")
    dataset = Dataset.open(Store(like), "mate")
    samples = islice(dataset.samples(), examples)
    summary = generate_counterpart(out, samples, dataset.manifest.dataset_fingerprint, seed, workers)
    text = (
        f"{summary.scenes} scenes, {sum(summary.rows.values())} rows -> {out}; as many linking attributes in "
        f"{summary.equal_links}, the same wording in {summary.equal_wording}"
    )
    print_result(as_json, {**asdict(summary), "out": str(out), "seed": seed}, text)


def _range(text: str) -> tuple[int, int]:
    """Parse the lowest and highest number of objects."""
    match = _RANGE.fullmatch(text.strip())
    if not match:
        raise UsageError(f"--objects {text}: give a range such as 3-10, or one number")
    low = int(match[1])
    return low, int(match[2] or low)


@listed("Understand", "twin out TWIN_OUT")
def twin(
    out: Annotated[str, Argument("The --out of a run on published MATE.", kind="location")],
    fresh: Annotated[
        str, Argument("The --out of a run of the same models on its twin.", kind="location", metavar="TWIN_OUT")
    ],
    json: Json = False,
) -> None:
    """Measure the gap between published scenes and fresh ones of equal parameters, and write it into the report."""
    from jobs.generate.twin_gap import MEANING, measure_gap, save_gap
    from jobs.shared.spec_builder import report_spec
    from pipelines.storage.store import Store
    from pipelines.sweep.run import report_again

    record = measure_gap(Store(out), Store(fresh))
    save_gap(Store(out), record)
    report_again(report_spec(RunOptions(out=out)))
    rows = [
        [
            *(row.model, row.task, row.setting, f"{row.published:.3f}", f"{row.twin:.3f}", f"{row.gap:+.3f}"),
            *(f"[{row.ci_low:+.3f}, {row.ci_high:+.3f}]", f"{row.n:,}", "yes" if row.is_paired else "no", row.reading),
        ]
        for row in record.gaps
    ]
    result = {**asdict(record), "gaps": [{**asdict(row), "reading": row.reading} for row in record.gaps]}
    print_result(json, result, table(_GAP_HEADS, rows), *MEANING)
