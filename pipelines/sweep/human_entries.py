"""People's answers become entries of an output, scored and reduced like a model's on the samples that they answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pipelines.benchmarks.records import Rejection
from pipelines.errors import UsageError
from pipelines.ingest.human_files import check_human, human_rows, is_person, load_human_files, store_human
from pipelines.plan.run_manifest import ManifestEntry, load_run, save_run
from pipelines.plan.run_spec import RunSpec
from pipelines.storage.store import Store
from pipelines.sweep.import_predictions import import_rows


def with_people(spec: RunSpec, out: Store, run: Mapping[str, Any]) -> tuple[dict[str, Any], list[ManifestEntry]]:
    """Keep the files of `--human` in the output and take in the answers in them.

    Returns:
        The run with an entry a person, and those entries that came new; an unchanged file brings none.

    Raises:
        UsageError: a row of a file cannot be used.
    """
    if not spec.human:
        return dict(run), []
    check_human(spec.human, Store(spec.data))
    changed = store_human(out, spec.human)
    entries: Sequence[ManifestEntry] = run["entries"]
    kept = [entry for entry in entries if entry.benchmark not in changed or not is_person(entry.model)]
    new = [entry for name in sorted(changed) for entry in _entries(spec, out, name)]
    if not changed:
        return dict(run), []
    made = save_run(
        out,
        load_run(out),
        sweep=run["sweep"],
        entries=sorted([*kept, *new], key=lambda entry: (entry.benchmark, entry.model)),
        parts={
            "models": {entry.model: {"engine": "external"} for entry in new},
            "datasets": run["datasets"],
            "prompts": {},
        },
    )
    return made, new


def _entries(spec: RunSpec, out: Store, name: str) -> list[ManifestEntry]:
    found = []
    for person, rows in sorted(human_rows(name, load_human_files(out, name)).items()):
        rejections: list[Rejection] = []
        entry = import_rows(spec, out, name, person, list(enumerate(rows, start=1)), Path("people"), rejections)
        if rejections:
            raise UsageError(f"{name}, {person}: {rejections[0].item}: {rejections[0].reason}")
        if entry:
            found.append(replace(entry, sample_ids=tuple(sorted({row["sample_id"] for row in rows}))))
    return found
