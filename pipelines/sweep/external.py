"""Answers made elsewhere: a file of outputs becomes predictions like our own, and is scored, reduced and reported."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from cluster.connect import joined
from pipelines.benchmarks import benchmark, benchmark_names
from pipelines.benchmarks.base import Rejection
from pipelines.ingest.dataset import Dataset
from pipelines.ingest.human_files import check_human
from pipelines.plan.requests import Asker
from pipelines.plan.run_manifest import Entry, left_behind, load_run, merge_entries, save_run
from pipelines.plan.run_spec import RunSpec
from pipelines.plan.selection import Cell, cells_of, check_names
from pipelines.predict.status import write_counts
from pipelines.progress import Watcher
from pipelines.storage.lock import held
from pipelines.storage.parts import PREDICTIONS, healthy_parts, part_folder, read_parquet, table_bytes
from pipelines.storage.store import Store
from pipelines.sweep.run import Outcome, score_and_report

log = logging.getLogger(__name__)

REQUIRED = ("benchmark", "model", "task", "setting", "sample_id", "output")
GIVEN = ("bertscore_f1", "bertscore_0", "bertscore_1", "bleurt", "human")
"""Columns that stand in for a scorer's output or a person's label; others of the file are ignored."""
PART_ROWS = 4096

_Key = tuple[str, str, str, str]


def score_external(spec: RunSpec, path: Path, *, watcher: Watcher) -> Outcome:
    """Score, reduce and report the answers of a file.

    Args:
        spec: data, out, judge and scorers; its models are ignored, its benchmarks, tasks and settings filter.
        path: `.jsonl` or `.parquet` with the columns benchmark, model, task, setting, sample_id, variant, output.
        watcher: is told of progress.

    Raises:
        LockedError: another run writes this output.
        ValueError: the file cannot be read, lacks a column, names what does not exist, or holds no usable row.
    """
    out = Store(spec.out)
    out.check_writable()
    check_human(spec.human, Store(spec.data))
    with held(out) as lock:
        return _score(replace(spec, lock=lock), out, path, watcher)


def _score(spec: RunSpec, out: Store, path: Path, watcher: Watcher) -> Outcome:
    rejections, groups = usable_rows(spec, path)
    entries = []
    for (name, model), rows in sorted(groups.items()):
        entry = import_rows(spec, out, name, model, rows, path, rejections)
        entries += [entry] if entry else []
    out.put("rejected.jsonl", b"".join(json.dumps(asdict(r), ensure_ascii=True).encode() + b"\n" for r in rejections))
    if not entries:
        first = f"; the first: {rejections[0].item}: {rejections[0].reason}" if rejections else ""
        raise ValueError(f"{path}: no row can be used{first}")
    if rejections:
        log.warning("%d rows of %s not used, listed in %s/rejected.jsonl", len(rejections), path, out.uri)
    return _run(spec, out, entries, watcher)


def usable_rows(
    spec: RunSpec, path: Path
) -> tuple[list[Rejection], dict[tuple[str, str], list[tuple[int, dict[str, Any]]]]]:
    """What of a file cannot be read, and the rest that the spec asks for, with line numbers, by benchmark and model.

    Raises:
        ValueError: the file cannot be read, lacks a column, or names what does not exist.
    """
    rejections: list[Rejection] = []
    groups: dict[tuple[str, str], list[tuple[int, dict[str, Any]]]] = {}
    for line, row in _rows(path, rejections):
        _check_names(row, path, line)
        if row["benchmark"] in spec.benchmarks:
            groups.setdefault((row["benchmark"], row["model"]), []).append((line, row))
    return rejections, {key: [*_filtered(spec, rows)] for key, rows in groups.items()}


def _run(spec: RunSpec, out: Store, entries: Sequence[Entry], watcher: Watcher) -> Outcome:
    earlier = load_run(out)
    datasets = {e.benchmark: {"fingerprint": e.parsed_asker().dataset_fingerprint} for e in entries}
    run = save_run(
        out,
        earlier,
        sweep={**spec.describe(), "benchmarks": sorted(datasets)},
        entries=merge_entries(earlier.get("entries", []), entries),
        parts={
            "models": {entry.model: {"engine": "external"} for entry in entries}
            | ({spec.judge[0]: spec.judge[1].model_dump(mode="json", exclude_defaults=True)} if spec.judge else {}),
            "datasets": datasets,
            "prompts": {},
        },
    )
    from pipelines.sweep.human_entries import with_people

    run, _ = with_people(spec, out, run)
    outcome = Outcome(warnings=left_behind(earlier.get("entries", []), entries))
    with joined(spec.address) as cluster:
        score_and_report(spec, run, cluster, outcome, watcher=watcher)
    write_counts(out, outcome.counts)
    models = {entry.model for entry in entries}
    outcome.counts = [count for count in outcome.counts if count.model in models]
    return outcome


def _rows(path: Path, rejections: list[Rejection]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Rows with their line or row numbers; a line that is no object, or lacks a column, is rejected."""
    for line, row in _parquet(path) if path.suffix == ".parquet" else _jsonl(path):
        missing = [name for name in REQUIRED if name not in row] if isinstance(row, dict) else list(REQUIRED)
        if isinstance(row, Exception) or missing:
            reason = f"not JSON: {row}" if isinstance(row, Exception) else f"no column {', '.join(missing)}"
            rejections.append(Rejection(file=path.name, item=f"line {line}", reason=reason))
            continue
        wrong = [name for name in REQUIRED[:-1] if not isinstance(row[name], str) or not row[name]]
        if wrong or not isinstance(row["output"], str | None):
            what = wrong[0] if wrong else "output"
            rejections.append(Rejection(file=path.name, item=f"line {line}", reason=f"{what} is no text"))
            continue
        yield line, {**row, "variant": _variant(row.get("variant"))}


def _variant(value: Any) -> str:
    """A variant as text; tables with gaps turn `3` into 3.0 and '' into a missing number."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _jsonl(path: Path) -> Iterator[tuple[int, Any]]:
    try:
        with path.open(encoding="utf-8-sig") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    try:
                        yield number, json.loads(line)
                    except json.JSONDecodeError as error:
                        yield number, error
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"--predictions {path}: cannot be read ({error})") from error


def _parquet(path: Path) -> Iterator[tuple[int, Any]]:
    try:
        table = read_parquet(path.read_bytes())
    except (OSError, pa.ArrowException) as error:
        raise ValueError(f"--predictions {path}: cannot be read as Parquet ({str(error)[:200]})") from error
    missing = [name for name in REQUIRED if name not in table.column_names]
    if missing:
        raise ValueError(
            f"--predictions {path}: no column {', '.join(missing)}; there are {', '.join(table.column_names)}"
        )
    yield from enumerate(table.to_pylist(), start=1)


def _check_names(row: Mapping[str, Any], path: Path, line: int) -> None:
    try:
        check_names("benchmark", [row["benchmark"]], benchmark_names())
        one = benchmark(row["benchmark"])
        check_names("task", [row["task"]], list(one.tasks))
        check_names("setting", [row["setting"]], list(one.tasks[row["task"]]))
    except ValueError as error:
        raise ValueError(f"{path.name}, line {line}: {error}") from error


def _filtered(spec: RunSpec, rows: Sequence[tuple[int, dict[str, Any]]]) -> Iterator[tuple[int, dict[str, Any]]]:
    for line, row in rows:
        if (not spec.tasks or row["task"] in spec.tasks) and (not spec.settings or row["setting"] in spec.settings):
            yield line, row


def import_rows(  # noqa: PLR0913, PLR0917  one call, each argument from another place
    spec: RunSpec,
    out: Store,
    name: str,
    model: str,
    rows: Sequence[tuple[int, dict[str, Any]]],
    path: Path,
    rejections: list[Rejection],
) -> Entry | None:
    """Write one model's answers to one benchmark as prediction parts."""
    dataset = Dataset.open(Store(spec.data), name)
    answered = {Cell(row["task"], row["setting"]) for _, row in rows}
    asker = Asker(
        benchmark_name=name,
        dataset_fingerprint=dataset.manifest.dataset_fingerprint,
        model=model,
        model_fingerprint={"engine": "external", "model": model},
        generation={},
        cells=tuple(cell for cell in cells_of(benchmark(name), [], []) if cell in answered),
        prompts={},
        instead={},
        seed=spec.seed,
    )
    asked: dict[_Key, dict[str, Any]] = {}
    for sample in dataset.samples():
        for one in asker.ask(sample):
            c = one.columns
            asked[c["task"], c["setting"], c["sample_id"], c["variant"]] = c
    made: dict[_Key, dict[str, Any]] = {}
    for line, row in rows:
        key = (row["task"], row["setting"], row["sample_id"], row["variant"])
        problem = "" if key in asked else f"{name} has no such sample or variant"
        if key in made:
            problem = "a second answer to the same request; the first stays"
        if problem:
            rejections.append(Rejection(file=path.name, item=f"line {line}: {'/'.join(key)}", reason=problem))
        else:
            made[key] = _prediction(asked[key], row)
    if not made:
        return None
    answered = {Cell(key[0], key[1]) for key in made}
    folder = part_folder("predictions", name, model)
    _write_parts(out, folder, [*_kept(out, folder, asker, answered), *made.values()])
    cells = tuple(cell for cell in asker.cells if cell in answered)
    asker = replace(asker, cells=cells)
    return Entry(benchmark=name, model=model, data=spec.data, asker=asker.to_json(), external=True)


def _kept(out: Store, folder: str, asker: Asker, answered: set[Cell]) -> list[dict[str, Any]]:
    """Answers of earlier files to the same data in cells that this file says nothing about."""
    return [
        row
        for path, table in healthy_parts(out, folder, mend=True)
        if path.rpartition("/")[2].startswith("external-")
        for row in table.to_pylist()
        if Cell(row["task"], row["setting"]) not in answered and row["dataset_fingerprint"] == asker.dataset_fingerprint
    ]


def _prediction(columns: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
    given = [(name, float(row[name])) for name in GIVEN if _is_number(row.get(name))]
    ok = row["output"] is not None
    return {
        **columns,
        "model_revision": "",
        "prompt_version": "",
        "output": row["output"].encode("utf-8", "replace").decode() if ok else None,
        "status": "ok" if ok else "error",
        "error_type": "" if ok else "no_output",
        "error": "" if ok else "the file holds no output for this request",
        "finish_reason": "",
        "steps": [],
        "given": given,
    }


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _write_parts(out: Store, folder: str, rows: Sequence[dict[str, Any]]) -> None:
    """Replace the model's answers from an earlier file."""
    written = set()
    for start in range(0, len(rows), PART_ROWS):
        part = f"{folder}/external-{start // PART_ROWS:05d}.parquet"
        out.put(part, table_bytes(rows[start : start + PART_ROWS], PREDICTIONS))
        written.add(part)
    for info in out.list(folder, "external-*.parquet"):
        if info.path not in written:
            out.delete(info.path)
