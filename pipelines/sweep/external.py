"""Imported answers: a file of outputs becomes predictions, which are scored, reduced and reported."""

import json
import logging
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from pipelines.benchmarks.records import REJECTION_MARK, is_person
from pipelines.errors import UsageError
from pipelines.plan.context import SweepContext
from pipelines.plan.plan_store import ALL_SAMPLES, iter_selected_samples
from pipelines.plan.prune import prune_plans
from pipelines.plan.run_manifest import ManifestEntry, RecordedDataset, RunManifest, save_run
from pipelines.plan.run_spec import RunSpec, Stage
from pipelines.predict.status import write_counts
from pipelines.progress import ProgressListener
from pipelines.storage.published_files import put_named
from pipelines.sweep.answer_spool import AnswerSpool
from pipelines.sweep.entry_merge import dropped_from_report, merge_entries
from pipelines.sweep.evaluate import score_and_report
from pipelines.sweep.human_entries import add_human_entries
from pipelines.sweep.import_predictions import import_rows
from pipelines.sweep.predictions_file import read_answers
from pipelines.sweep.record import model_fields
from pipelines.sweep.result import SweepResult
from pipelines.sweep.revisions import recorded_scorers
from pipelines.sweep.session import Sweep, open_sweep

log = logging.getLogger(__name__)


def score_external(spec: RunSpec, path: Path, *, progress: ProgressListener, tool: str | None = None) -> SweepResult:
    """Score, reduce and report the answers of a file; the models of `spec` are ignored, its other names filter.

    `path` is `.jsonl` or `.parquet` with the columns benchmark, model, task, setting, sample_id, variant, output; or a
    file or folder in the form in which a benchmark's authors distribute predictions; or logs of another harness, which
    `tool` names where they are not recognised.

    Raises:
        LockedError: another run writes this output.
        UsageError: the file cannot be read, lacks a column, names what does not exist, or holds no usable row.
        UnknownRevisionError: the hub does not know the judge or its revision.
    """
    with AnswerSpool.temporary() as answers:
        read_answers(spec, path, answers, tool)
        names = sorted({name for name, _ in answers.groups()})
        with open_sweep(spec, (Stage.SCORE, Stage.REPORT), benchmarks=names, progress=progress) as sweep:
            return _evaluate(sweep, _import_rows(sweep.context, path, answers))


def _import_rows(context: SweepContext, path: Path, answers: AnswerSpool) -> list[ManifestEntry]:
    out, selection, entries = context.out, context.spec.selection, list[ManifestEntry]()
    for name, model in answers.groups():
        selected = None
        if selection != ALL_SAMPLES:
            dataset = context.datasets.open(context.spec.data, name)
            selected = {sample.sample_id for sample in iter_selected_samples(dataset, selection)}
        entry = import_rows(context, name, model, answers, selected=selected)
        if entry and not is_person(model):
            entry = replace(entry, limit=context.spec.limit, sample_ids=selection.sample_ids)
        entries += [entry] if entry else []
    rejections = answers.rejections
    lines = [json.dumps(asdict(rejection), ensure_ascii=True).encode() + b"\n" for rejection in rejections]
    put_named(out, "rejected.jsonl", b"".join(lines), REJECTION_MARK)
    if not entries:
        first = f"; the first: {rejections[0].item}: {rejections[0].reason}" if rejections else ""
        where = " of the samples that --limit or --sample-id selects" if selection != ALL_SAMPLES else ""
        raise UsageError(f"{path}: no row{where} can be used{first}")
    if rejections:
        log.warning("%d rows of %s not used, listed in %s/rejected.jsonl", len(rejections), path, out.uri)
    return entries


def _evaluate(sweep: Sweep, entries: Sequence[ManifestEntry]) -> SweepResult:
    context, earlier = sweep.context, sweep.earlier
    spec, out = context.spec, context.out
    datasets = {e.benchmark: RecordedDataset(fingerprint=e.prompts.dataset_fingerprint) for e in entries}
    models: dict[str, dict[str, Any]] = {entry.model: {"engine": "external"} for entry in entries}
    models |= {name: model_fields(judge) for name, judge in spec.judges}
    addition = RunManifest(
        sweep=replace(spec.record(), benchmarks=tuple(sorted(datasets))),
        models=models,
        scorers=recorded_scorers(spec),
        datasets=datasets,
        entries=merge_entries(earlier.entries, entries),
    )
    run = save_run(out, earlier, addition)
    prune_plans(context, run.entries)
    run, _ = add_human_entries(context, run)
    warnings = [*sweep.warnings, *dropped_from_report(earlier.entries, entries)]
    try:
        result = score_and_report(sweep, run, warnings=warnings)
    finally:
        sweep.record_work(run)
    write_counts(out, result.counts)
    names = {entry.model for entry in entries}
    return replace(result, counts=[count for count in result.counts if count.model in names])
