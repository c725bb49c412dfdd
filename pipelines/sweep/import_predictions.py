"""TODO doc."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pipelines.benchmarks import benchmark
from pipelines.benchmarks.records import Rejection
from pipelines.ingest.dataset import Dataset
from pipelines.plan.requests import RequestBuilder
from pipelines.plan.run_manifest import ManifestEntry
from pipelines.plan.run_spec import RunSpec
from pipelines.plan.selection import TaskSetting, cells_of
from pipelines.schemas import PREDICTIONS
from pipelines.storage.parts import iter_parts, part_folder, to_parquet
from pipelines.storage.store import Store

GIVEN = ("bertscore_f1", "bertscore_0", "bertscore_1", "bleurt", "human")
"""Columns that stand in for a scorer's output or a person's label; others of the file are ignored."""


PART_ROWS = 4096


_Key = tuple[str, str, str, str]


def import_rows(  # noqa: PLR0913, PLR0917  one call, each argument from another place
    spec: RunSpec,
    out: Store,
    name: str,
    model: str,
    rows: Sequence[tuple[int, dict[str, Any]]],
    path: Path,
    rejections: list[Rejection],
) -> ManifestEntry | None:
    """Write one model's answers to one benchmark as prediction parts."""
    dataset = Dataset.open(Store(spec.data), name)
    answered = {TaskSetting(row["task"], row["setting"]) for _, row in rows}
    asker = RequestBuilder(
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
    answered = {TaskSetting(key[0], key[1]) for key in made}
    folder = part_folder("predictions", name, model)
    _write_parts(out, folder, [*_kept(out, folder, asker, answered), *made.values()])
    cells = tuple(cell for cell in asker.cells if cell in answered)
    asker = replace(asker, cells=cells)
    return ManifestEntry(benchmark=name, model=model, data=spec.data, asker=asker.to_json(), external=True)


def _kept(out: Store, folder: str, asker: RequestBuilder, answered: set[TaskSetting]) -> list[dict[str, Any]]:
    """Answers of earlier files to the same data in cells that this file says nothing about."""
    return [
        row
        for path, table in iter_parts(out, folder, repair=True)
        if path.rpartition("/")[2].startswith("external-")
        for row in table.to_pylist()
        if TaskSetting(row["task"], row["setting"]) not in answered
        and row["dataset_fingerprint"] == asker.dataset_fingerprint
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
        out.put(part, to_parquet(rows[start : start + PART_ROWS], PREDICTIONS))
        written.add(part)
    for info in out.list(folder, "external-*.parquet"):
        if info.path not in written:
            out.delete(info.path)
