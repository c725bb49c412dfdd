"""Import answers from files as prediction parts."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from models.scratch import scratch
from pipelines.benchmarks import benchmark
from pipelines.benchmarks.records import is_person
from pipelines.errors import UsageError
from pipelines.ingest.dataset import Dataset
from pipelines.ingest.human_files import check_human, human_rows, load_human_files, store_human
from pipelines.plan.context import SweepContext
from pipelines.plan.plan_store import IdSet, iter_selected_samples
from pipelines.plan.prompt_plan import PromptPlan
from pipelines.plan.requests import ModelTarget
from pipelines.plan.run_manifest import ManifestEntry, RunManifest, load_run, save_run
from pipelines.plan.selection import TaskSetting, all_groups, human_groups
from pipelines.schemas import PREDICTIONS
from pipelines.storage.parts import batched, iter_parts, list_parts, part_folder, score_path, to_parquet
from pipelines.storage.store import Store
from pipelines.sweep.answer_spool import AnswerSpool
from pipelines.sweep.entry_merge import merge_entries

PART_ROWS: Final = 4096
_PREFIX, _MAX_PARTS = "external-", 10**5
_SAME: Final = {"model_revision": "", "prompt_version": "", "finish_reason": "", "steps": ()}
"""Columns of every imported prediction."""


def import_rows(
    context: SweepContext, name: str, model: str, answers: AnswerSpool, *, selected: Collection[str] | None = None
) -> ManifestEntry | None:
    """Write one model's answers to one benchmark as prediction parts; return the entry, None where no row is usable.

    Answers that match no request are rejected; those to samples that are not `selected` are left out. A person's entry
    covers the samples that the person answered. Nothing of the output is replaced until every part is made.
    """
    dataset = context.datasets.open(context.spec.data, name)
    target = _external_target(dataset, name, model, context.spec.seed, answers.task_settings(name, model))
    answered: set[TaskSetting] = set()
    ids: set[str] = set()

    def predictions() -> Iterator[dict[str, Any]]:
        for row in context.plans.open(dataset, target.prompts).iter_columns():
            fields = answers.take(name, model, row)
            if fields is not None and (selected is None or row.sample_id in selected):
                answered.add(TaskSetting(row.task, row.setting))
                ids.update([row.sample_id] if is_person(model) else ())
                yield {**target.columns(row), **_SAME, **fields}

    with scratch() as folder:
        staged = _stage(folder / "new", predictions())
        answers.reject_rest(name, model)
        if not staged:
            return None
        out, model_folder = context.out, part_folder("predictions", name, model)
        staged += _stage(folder / "earlier", _earlier_rows(out, model_folder, dataset, answered))
        _commit(out, model_folder, staged)
    target = _external_target(dataset, name, model, context.spec.seed, answered)
    sample_ids = tuple(sorted(ids))
    return ManifestEntry(
        benchmark=name, model=model, data=context.spec.data, target=target, sample_ids=sample_ids, external=True
    )


def _external_target(
    dataset: Dataset, name: str, model: str, seed: int, groups: Collection[TaskSetting]
) -> ModelTarget:
    prompts = PromptPlan(
        benchmark_name=name,
        dataset_fingerprint=dataset.manifest.dataset_fingerprint,
        task_settings=tuple(group for group in all_groups(benchmark(name)) if group in groups),
        seed=seed,
        table=dataset.manifest.table,
    )
    return ModelTarget(prompts=prompts, model=model, fingerprint={"engine": "external", "model": model})


def _earlier_rows(
    out: Store, folder: str, dataset: Dataset, answered: Collection[TaskSetting]
) -> Iterator[dict[str, Any]]:
    """Yield answers of earlier files to the same data under other tasks and settings than this file's, each once."""
    ids = IdSet()
    for path, table in iter_parts(out, folder, repair=True):
        if _is_imported(path):
            columns = (table[name].to_pylist() for name in ("task", "setting", "dataset_fingerprint"))
            is_other = [
                fingerprint == dataset.manifest.dataset_fingerprint and TaskSetting(task, setting) not in answered
                for task, setting, fingerprint in zip(*columns, strict=True)
            ]
            other = table.filter(pa.array(is_other, pa.bool_()))
            is_new = ids.add(other["request_id"].to_pylist())  # a killed import left copies
            yield from other.filter(pa.array(is_new)).to_pylist()


def _is_imported(path: str) -> bool:
    return path.rpartition("/")[2].startswith(_PREFIX)


def _stage(folder: Path, rows: Iterable[dict[str, Any]]) -> list[Path]:
    """Write rows as parts to a scratch folder; return their paths."""
    folder.mkdir()
    paths = []
    for index, content in enumerate(batched(rows, PART_ROWS)):
        paths.append(folder / str(index))
        paths[-1].write_bytes(to_parquet(content, PREDICTIONS))
    return paths


def _commit(out: Store, folder: str, staged: Sequence[Path]) -> None:
    """Replace the model's answers from earlier files, of which none goes before all new ones are there."""
    earlier = [info for info in list_parts(out, folder) if _is_imported(info.path)]
    if len(earlier) == len(staged) and all(
        out.get_listed(info) == path.read_bytes() for info, path in zip(earlier, staged, strict=True)
    ):
        return  # their scores stay too
    last = max((int(info.path[-len("00000.parquet") : -len(".parquet")]) for info in earlier), default=-1)
    start = last + 1 if last + len(staged) < _MAX_PARTS else 0
    parts = [f"{folder}/{_PREFIX}{number:05d}.parquet" for number, _ in enumerate(staged, start)]
    for part, path in zip(parts, staged, strict=True):
        out.put(part, path.read_bytes())
    for info in earlier:
        if info.path not in parts:
            out.delete(info.path)
            out.delete(score_path(info.path))


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
