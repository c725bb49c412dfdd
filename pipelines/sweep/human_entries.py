"""People's answers become entries of an output, scored and reduced like a model's on the samples that they answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pipelines.benchmarks.records import Rejection
from pipelines.errors import UsageError
from pipelines.ingest.human_files import check_human, human_rows, is_person, load_human_files, store_human
from pipelines.plan.context import SweepContext
from pipelines.plan.run_manifest import ManifestEntry, load_run, save_run
from pipelines.storage.store import Store
from pipelines.sweep.import_predictions import import_rows


def add_human_entries(context: SweepContext, run: Mapping[str, Any]) -> tuple[dict[str, Any], list[ManifestEntry]]:
    """Store the files of `--human` in the output and import their answers; UsageError for an unusable row.

    Return the run with an entry a person, and the new entries; an unchanged file has none.
    """
    spec, out = context.spec, context.out
    if not spec.human:
        return dict(run), []
    check_human(spec.human, Store(spec.data))
    changed = store_human(out, spec.human)
    if not changed:
        return dict(run), []
    entries: Sequence[ManifestEntry] = run["entries"]
    unchanged = [entry for entry in entries if entry.benchmark not in changed or not is_person(entry.model)]
    new = [entry for name in sorted(changed) for entry in _import_people(context, name)]
    saved = save_run(
        out,
        load_run(out),
        sweep=run["sweep"],
        entries=sorted([*unchanged, *new], key=lambda entry: (entry.benchmark, entry.model)),
        parts={
            "models": {entry.model: {"engine": "external"} for entry in new},
            "datasets": run["datasets"],
            "prompts": {},
        },
    )
    return saved, new


def _import_people(context: SweepContext, name: str) -> list[ManifestEntry]:
    entries = []
    for person, rows in sorted(human_rows(name, load_human_files(context.out, name)).items()):
        rejections: list[Rejection] = []
        entry = import_rows(context, name, person, list(enumerate(rows, start=1)), rejections, file_name="people")
        if rejections:
            raise UsageError(f"{name}, {person}: {rejections[0].item}: {rejections[0].reason}")
        if entry:
            entries.append(replace(entry, sample_ids=tuple(sorted({row["sample_id"] for row in rows}))))
    return entries
