"""Score, reduce and report all entries of an output."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial

from models.spec import ModelSpec
from pipelines.benchmarks.known_tables import known_tables
from pipelines.benchmarks.records import is_person
from pipelines.errors import DatasetError
from pipelines.plan.context import SweepContext
from pipelines.plan.run_manifest import ManifestEntry, RunManifest
from pipelines.plan.run_spec import Stage
from pipelines.predict.beside import JudgesBeside, RunJobs
from pipelines.predict.records import CellCount
from pipelines.predict.stage import ModelRuns
from pipelines.registry import extension
from pipelines.score.stage import judge_rounds, score_parts
from pipelines.sweep.label_check import check_labels
from pipelines.sweep.result import SweepResult
from pipelines.sweep.session import Sweep
from pipelines.sweep.unscored import cut_notes, unscored_notes

_COUNTS = ("requests", "ok", "error", "excluded", "missing")


def score_and_report(
    sweep: Sweep, run: RunManifest, *, warnings: Sequence[str] = (), unavailable: Sequence[str] = ()
) -> SweepResult:
    """Score and report all entries of `run`, where that is among the sweep's stages.

    The report shows the `warnings`, and why models, judges too, are `unavailable`. Raises UsageError, before it, for
    labels of `--human` whose answers no judge has judged.
    """
    notes, missing = list(warnings), list(unavailable)
    result = SweepResult(warnings=notes, unavailable=missing, spending=sweep.costs)
    if not {Stage.SCORE, Stage.REPORT} & sweep.stages:
        notes += run.with_warnings(sweep.costs.warnings).notes()
        return result
    if Stage.PREDICT in sweep.stages:  # data as they are now: predicting may have taken hours
        sweep = replace(sweep, context=replace(sweep.context, datasets=sweep.context.datasets.again()))
    context = sweep.context
    entries, skipped = _usable_entries(context, run.entries)
    notes += skipped
    problems, gone = score_entries(sweep, entries) if Stage.SCORE in sweep.stages else ([], [])
    missing += [text for text in gone if text not in missing]
    notes += run.with_warnings(sweep.costs.warnings).notes()  # the judges' too
    if Stage.REPORT in sweep.stages:
        from pipelines.report.reduce_all import reduce_all
        from pipelines.report.stage import Remarks, publish

        if not gone:  # else the answers to labels have no verdicts because of them
            check_labels(context.out, entries, context.spec.human)
        notes += [] if Stage.SCORE in sweep.stages else unscored_notes(context, entries)
        context.progress.phase("report", len(entries))
        reduced = reduce_all(context, entries, sweep.cluster)
        notes += cut_notes(count for results in reduced for count in results.counts)
        remarks, explain = (
            Remarks([*notes, *missing], problems),
            partial(extension("explain_published"), context.out, run),
        )
        publish(context.out, run, reduced, remarks, costs=sweep.costs, explain=explain)
        context.progress.advance(len(entries), 0)
        result = replace(
            result,
            counts=_total(count for entry in reduced for count in (*entry.counts, *entry.counts_by_prompt_set)),
            metrics=[row for results in reduced for row in results.metrics],
            judge_failed=sum(results.judge_failed for results in reduced),
            report=f"{context.out.uri}/report/index.html",
        )
    return result


def _total(counts: Iterable[CellCount]) -> list[CellCount]:
    """Add up the counts of each task and setting over sets of prompts."""
    totals: dict[tuple[str, ...], CellCount] = {}
    for count in counts:
        key = (count.benchmark, count.model, count.task, count.setting)
        total = totals.get(key)
        numbers = {name: getattr(total, name, 0) + getattr(count, name) for name in _COUNTS}
        totals[key] = replace(count, **numbers)
    return list(totals.values())


def score_human_entries(sweep: Sweep, entries: Sequence[ManifestEntry]) -> None:
    """Score new answers of people without judge and scorers, where only the report is wanted."""
    for name in sorted({entry.benchmark for entry in entries}):
        of_benchmark = [entry for entry in entries if entry.benchmark == name]
        score_parts(sweep.context, of_benchmark, sweep.cluster, (), ())


def score_entries(
    sweep: Sweep, entries: Sequence[ManifestEntry], *, defers_defaults: bool = False
) -> tuple[list[str], list[str]]:
    """Send the judges what is open, then score every prediction part whose scores are missing or out of date.

    Return why default scorers did not run and why judges are unavailable, a sentence each; `defers_defaults` leaves
    the default scorers to a later call.
    """
    context, cluster, problems = sweep.context, sweep.cluster, list[str]()
    judges, gone = judge_rounds(
        context, dict(context.spec.judges), entries, lambda *job: ModelRuns(context, cluster, sweep.costs, *job).run()
    )
    for name, replies in judges.items():
        scorers, of_benchmark = context.spec.scorers_for(name), [each for each in entries if each.benchmark == name]
        texts = score_parts(context, of_benchmark, cluster, replies, scorers, defers_defaults=defers_defaults)
        problems += [f"{name}: {text}" for text in texts]
    return problems, gone


def judges_beside(sweep: Sweep, run: RunManifest) -> JudgesBeside | None:
    """Return what judges the entries of models that have ended while others answer, if the sweep is to be scored."""
    if Stage.SCORE not in sweep.stages or not sweep.context.spec.judges:
        return None
    models = [entry for entry in run.entries if not is_person(entry.model)]  # people's answers may be replaced yet
    judged = defaultdict[str, set[str]](set)  # models by judge

    def judge_ended(unfinished: Collection[str], can_run: Callable[[ModelSpec], bool], run_jobs: RunJobs) -> None:
        context = replace(sweep.context, datasets=sweep.context.datasets.again())  # of this thread alone
        for name, spec in context.spec.judges:
            entries = [entry for entry in models if entry.model not in {*unfinished, *judged[name]}]
            if entries and can_run(spec):
                usable, _ = _usable_entries(context, entries)
                if not judge_rounds(context, {name: spec}, usable, run_jobs, rounds=1)[1]:
                    judged[name].update(entry.model for entry in entries)

    return JudgesBeside(judge_ended)


def _usable_entries(context: SweepContext, entries: Sequence[ManifestEntry]) -> tuple[list[ManifestEntry], list[str]]:
    """Return the entries whose data is unchanged, and why others are skipped: an earlier model's may be gone."""
    spec, usable, skipped = context.spec, list[ManifestEntry](), list[str]()
    for entry in entries:
        skips = f"{entry.model} on {entry.benchmark} is skipped in this report: "
        try:
            manifest = context.datasets.open(entry.data, entry.benchmark).manifest
        except DatasetError as error:
            if entry.model in spec.models and entry.benchmark in spec.benchmarks:
                raise
            skipped.append(f"{skips}{error}")
            continue
        named, table = known_tables().get(entry.benchmark), entry.prompts.table
        if named and table and named.differences(table):
            skipped.append(f"{skips}its data at {entry.data} are another table benchmark of that name")
        elif manifest.dataset_fingerprint == entry.prompts.dataset_fingerprint:
            usable.append(entry)
        else:
            skipped.append(
                f"{skips}the data at {entry.data} has changed since its predictions were made; run this model again"
            )
    return usable, skipped
