"""People's answers become entries of an output, scored and reduced like a model's on the samples that they answered."""

from collections.abc import Sequence
from contextlib import closing

from pipelines.benchmarks import benchmark
from pipelines.errors import UsageError
from pipelines.ingest.human_files import check_human, human_rows, load_human_files, store_human
from pipelines.plan.context import SweepContext
from pipelines.plan.plan_store import iter_selected_samples
from pipelines.plan.run_manifest import ManifestEntry, RunManifest, load_run, save_run
from pipelines.plan.selection import human_groups
from pipelines.storage.store import Store
from pipelines.sweep.answer_spool import AnswerSpool
from pipelines.sweep.entry_merge import merge_entries
from pipelines.sweep.import_predictions import import_rows


def add_human_entries(context: SweepContext, run: RunManifest) -> tuple[RunManifest, list[ManifestEntry]]:
    """Store the files of `--human` in the output and import their answers; UsageError for an unusable row.

    Where `--settings` names a setting of people's answers in the data, these are imported too. Return the run with one
    entry per person, and the new entries; an unchanged file has none.
    """
    spec, out = context.spec, context.out
    check_human(spec.human, Store(spec.data))
    earlier_people = {
        (name, person)
        for name in {file.benchmark for file in spec.human}
        for person in human_rows(name, load_human_files(out, name))
    }
    changed = store_human(out, spec.human) if spec.human else set()
    data_entries = [entry for name in spec.benchmarks for entry in _import_data(context, name, run.entries)]
    if not changed and not data_entries:
        return run, []
    new = data_entries + [
        entry
        for name in sorted(changed)
        for person, rows in sorted(human_rows(name, load_human_files(out, name)).items())
        for entry in _import_person(context, name, person, rows)
    ]
    remaining = [e for e in run.entries if e.benchmark not in changed or (e.benchmark, e.model) not in earlier_people]
    addition = RunManifest(
        sweep=run.sweep,
        models={entry.model: {"engine": "external"} for entry in new},
        datasets=run.datasets,
        entries=merge_entries(remaining, new),
    )
    return save_run(out, load_run(out), addition), new


def _import_data(context: SweepContext, name: str, entries: Sequence[ManifestEntry]) -> list[ManifestEntry]:
    """Import the people's answers that the data hold, where `--settings` names their setting."""
    spec = context.spec
    if not human_groups(benchmark(name), spec.tasks, spec.settings):
        return []
    dataset = context.datasets.open(spec.data, name)
    fingerprint = dataset.manifest.dataset_fingerprint
    rows = benchmark(name).human.dataset_answers(iter_selected_samples(dataset, spec.selection))
    people: dict[str, list[dict[str, str]]] = {}
    for row in rows:
        people.setdefault(row["model"], []).append(row)
    imported = {
        (entry.model, entry.sample_ids)
        for entry in entries
        if entry.benchmark == name and entry.prompts.dataset_fingerprint == fingerprint
    }
    ids = {person: tuple(sorted({row["sample_id"] for row in rows})) for person, rows in people.items()}
    return [
        entry
        for person, rows in people.items()
        if (person, ids[person]) not in imported
        for entry in _import_person(context, name, person, rows)
    ]


def _import_person(
    context: SweepContext, name: str, person: str, rows: Sequence[dict[str, str]]
) -> list[ManifestEntry]:
    with closing(AnswerSpool(":memory:")) as answers:
        for line, row in enumerate(rows, start=1):
            answers.add(line, {**row, "benchmark": name, "model": person})
        entry = import_rows(context, name, person, answers)
    if answers.rejections:
        raise UsageError(f"{name}, {person}: {answers.rejections[0].item}: {answers.rejections[0].reason}")
    return [entry] if entry else []
