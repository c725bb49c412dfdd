"""Import answers made elsewhere as prediction parts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any

from pipelines.benchmarks import benchmark
from pipelines.benchmarks.records import Rejection, is_person
from pipelines.ingest.dataset import Dataset
from pipelines.plan.context import SweepContext
from pipelines.plan.prompt_plan import PromptPlan
from pipelines.plan.requests import ModelTarget
from pipelines.plan.run_manifest import ManifestEntry
from pipelines.plan.selection import TaskSetting, all_cells
from pipelines.schemas import PREDICTIONS
from pipelines.storage.parts import iter_parts, part_folder, to_parquet
from pipelines.storage.store import Store

GIVEN = ("bertscore_f1", "bertscore_f1_rescaled", "bertscore_0", "bertscore_1", "bleurt", "human")
"""Columns that stand in for a scorer's output or a person's label; others of the file are ignored."""


OTHER_VERDICT = ("their_correct", "their_answer", "their_rule")
"""Columns of the verdict of the harness that logged an answer."""

PART_ROWS = 4096
_Key = tuple[str, str, str, str]
"""Task, setting, sample id, variant."""


def import_rows(
    context: SweepContext,
    name: str,
    model: str,
    rows: Sequence[tuple[int, dict[str, Any]]],
    rejections: list[Rejection],
    *,
    file_name: str,
) -> ManifestEntry | None:
    """Write one model's answers to one benchmark as prediction parts; return the entry, None where no row is usable.

    `rows` are numbered by line. Rows that match no request, or answer one again, are added to `rejections`. A
    person's entry covers the samples that the person answered.
    """
    dataset = context.datasets.open(context.spec.data, name)
    target = _external_target(dataset, name, model, context.spec.seed)
    answered = {TaskSetting(row["task"], row["setting"]) for _, row in rows}
    target = target.with_prompts(task_settings=tuple(cell for cell in target.prompts.task_settings if cell in answered))
    planned = {
        (row.task, row.setting, row.sample_id, row.variant): row
        for row in context.plans.open(dataset, target.prompts).iter_columns()
    }
    predictions: dict[_Key, Mapping[str, Any]] = {}
    for line, row in rows:
        key = (row["task"], row["setting"], row["sample_id"], row["variant"])
        problem = "" if key in planned else f"{name} has no such sample or variant"
        if key in predictions:
            problem = "a second answer to the same request; the first stays"
        if problem:
            rejections.append(
                Rejection(file=row.get("file") or file_name, item=f"line {line}: {'/'.join(key)}", reason=problem)
            )
        else:
            predictions[key] = row
    if not predictions:
        return None
    answered = {TaskSetting(task, setting) for task, setting, _, _ in predictions}
    folder = part_folder("predictions", name, model)
    earlier = _earlier_rows(context.out, folder, target.prompts.dataset_fingerprint, answered)
    new = (_prediction(target.columns(planned[key]), row) for key, row in predictions.items())
    _write_parts(context.out, folder, chain(earlier, new))  # a part at a time: complete rows take the most memory
    target = target.with_prompts(task_settings=tuple(cell for cell in target.prompts.task_settings if cell in answered))
    ids = tuple(sorted({key[2] for key in predictions})) if is_person(model) else ()
    return ManifestEntry(
        benchmark=name, model=model, data=context.spec.data, target=target, sample_ids=ids, external=True
    )


def _external_target(dataset: Dataset, name: str, model: str, seed: int) -> ModelTarget:
    prompts = PromptPlan(
        benchmark_name=name,
        dataset_fingerprint=dataset.manifest.dataset_fingerprint,
        task_settings=tuple(all_cells(benchmark(name))),
        seed=seed,
        table=dataset.manifest.table,
    )
    return ModelTarget(prompts=prompts, model=model, fingerprint={"engine": "external", "model": model})


def _earlier_rows(
    out: Store, folder: str, dataset_fingerprint: str, answered: set[TaskSetting]
) -> list[dict[str, Any]]:
    """Return answers of earlier files to the same data under other tasks and settings than this file's."""
    return [
        row
        for path, table in iter_parts(out, folder, repair=True)
        if path.rpartition("/")[2].startswith("external-")
        for row in table.to_pylist()
        if TaskSetting(row["task"], row["setting"]) not in answered
        and row["dataset_fingerprint"] == dataset_fingerprint
    ]


def _prediction(columns: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
    scorer_values = [(name, float(row[name])) for name in GIVEN if _is_number(row.get(name))]
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
        "given": scorer_values,
        **{name: row.get(name) for name in OTHER_VERDICT},
    }


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _write_parts(out: Store, folder: str, rows: Iterator[dict[str, Any]]) -> None:
    """Replace the model's answers from an earlier file."""
    written: set[str] = set()
    while content := [*islice(rows, PART_ROWS)]:
        part = f"{folder}/external-{len(written):05d}.parquet"
        out.put(part, to_parquet(content, PREDICTIONS))
        written.add(part)
    out.delete_all(folder, written, "external-*.parquet")
