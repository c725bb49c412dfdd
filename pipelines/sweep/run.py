"""A sweep from plan to report."""

import json
import logging
from collections.abc import Collection, Sequence
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path
from typing import Any

from pipelines.benchmarks.records import REJECTION_MARK, is_person
from pipelines.errors import ModelUnavailableError, UsageError
from pipelines.plan.context import SweepContext, prune_plans
from pipelines.plan.plan_store import ALL_SAMPLES, iter_selected_samples
from pipelines.plan.planner import plan_sweep, repair_output, store_plans
from pipelines.plan.run_manifest import ManifestEntry, RecordedDataset, RunManifest, save_run
from pipelines.plan.run_spec import RunSpec, Stage
from pipelines.predict.stage import caption, predict
from pipelines.predict.status import StatusWriter, write_counts
from pipelines.progress import ProgressListener
from pipelines.storage.store import put_named
from pipelines.sweep.answer_spool import AnswerSpool
from pipelines.sweep.entry_merge import dropped_from_report, merge_entries
from pipelines.sweep.evaluate import Sweep, concurrent_judges, open_sweep, score_and_report, score_human_entries
from pipelines.sweep.import_predictions import add_human_entries, import_rows
from pipelines.sweep.predictions_file import read_answers
from pipelines.sweep.record import model_fields, record_sweep, sweep_warnings, warn_of_unjudged_metrics
from pipelines.sweep.result import SweepResult
from pipelines.sweep.revisions import recorded_scorers
from pipelines.sweep.until.loop import forget_stopped, predict_until

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


def run_sweep(
    spec: RunSpec, *, stages: Collection[Stage] = tuple(Stage), progress: ProgressListener | None = None
) -> SweepResult:
    """Run the `stages` of a sweep; completed work is not repeated.

    Raises:
        DatasetError, StoreError, ClusterError: data, output or cluster are unavailable.
        LockedError: another run writes the same output.
        UsageError: no model is named, or a row of a human file cannot be used.
        UnknownRevisionError: the hub does not know a model or its revision.
        ModelUnavailableError: a named scorer, or every model of the sweep is unavailable.
    """
    if not spec.models:
        raise UsageError("this sweep names no model: give `models` at least one; see `vlmsweep list models`")
    with open_sweep(spec, stages, progress=progress) as sweep:
        return _run(sweep)


def report_again(spec: RunSpec, *, progress: ProgressListener | None = None) -> SweepResult:
    """Report all that an output holds, with the files of people's work in `spec`; raise as `run_sweep`."""
    people = {file.benchmark for file in spec.human}
    with open_sweep(spec, (Stage.REPORT,), benchmarks=people, progress=progress) as sweep:
        run, human_entries = add_human_entries(sweep.context, sweep.earlier)
        score_human_entries(sweep, human_entries)
        result = score_and_report(sweep, run, warnings=sweep.warnings)
        write_counts(sweep.context.out, result.counts)
    return result


def _run(sweep: Sweep) -> SweepResult:
    context, cluster, costs, stages = sweep.context, sweep.cluster, sweep.costs, sweep.stages
    out, models = context.out, context.spec.models
    earlier = sweep.earlier
    if Stage.PREDICT in stages:
        earlier = forget_stopped(sweep)
        caption(context, cluster, costs)  # first: prompts hold captions, and ids hash prompts
    plans = store_plans(context) if stages == {Stage.REPORT} else plan_sweep(context)
    repair_output(out, chain.from_iterable(plans.values()))
    if Stage.SCORE in stages:
        warn_of_unjudged_metrics(context.spec)
    run, dropped = record_sweep(context, earlier, plans)
    prune_plans(context, run.entries)
    status = StatusWriter(out, plans, is_new=sweep.earlier.is_new)
    try:
        problems: dict[str, str] = {}
        if Stage.PREDICT in stages and context.spec.until:
            run, problems = predict_until(sweep, run, plans, status)
        elif Stage.PREDICT in stages:
            problems = predict(context, cluster, plans, status, costs, judges=concurrent_judges(sweep, run))
        unavailable = list(problems.values())
        if problems.keys() >= models.keys():
            raise ModelUnavailableError("; ".join(unavailable))
        run, human_entries = add_human_entries(context, run)
        if Stage.SCORE not in stages:
            score_human_entries(sweep, human_entries)
        warnings = [*sweep.warnings, *sweep_warnings(context.spec), *dropped]
        result = score_and_report(sweep, run, warnings=warnings, unavailable=unavailable)
    finally:
        status.close()
        sweep.record_work(run)
    return replace(result, counts=[count for count in result.counts if count.model in models] or status.counts())
