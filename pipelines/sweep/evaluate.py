"""Score, reduce and report all entries of an output."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from cluster.lazy import LazyCluster
from pipelines.errors import DatasetError
from pipelines.plan.context import SweepContext
from pipelines.plan.run_manifest import ManifestEntry, RunManifest
from pipelines.predict.records import CellCount, Job
from pipelines.predict.stage import run_job
from pipelines.report.stage import publish, reduce_all
from pipelines.score.stage import judge_rounds, score_parts
from pipelines.sweep.result import SweepResult

STAGES = ("predict", "score", "report")
_COUNTS = ("requests", "ok", "error", "excluded", "missing")


def score_and_report(
    context: SweepContext,
    run: RunManifest,
    cluster: LazyCluster,
    result: SweepResult,
    *,
    stages: Sequence[str] = STAGES,
) -> None:
    """Score and report all entries of an output, where that is among the `stages`; fill in the result."""
    if not {"score", "report"} & {*stages}:
        return
    if "predict" in stages:
        context.datasets = context.datasets.again()  # as they are now: predicting may have taken hours
    entries = _usable_entries(context, run.entries, result)
    if "score" in stages:
        for name in sorted({entry.benchmark for entry in entries}):
            _score(context, [entry for entry in entries if entry.benchmark == name], cluster, result)
    if "report" in stages:
        context.progress.phase("report", len(entries))
        reduced = reduce_all(context, entries, cluster)
        spent = "; ".join(result.spending.lines())
        warnings = [*result.warnings, *result.unavailable]
        publish(context.out, run, reduced, warnings, spent=spent)
        context.progress.advance(len(entries), 0)
        result.counts = _total(count for entry in reduced for count in (*entry.counts, *entry.counts_by_prompt_set))
        result.metrics = [row for results in reduced for row in results.metrics]
        result.judge_failed = sum(results.judge_failed for results in reduced)
        result.report = f"{context.out.uri}/report/index.html"


def _total(counts: Iterable[CellCount]) -> list[CellCount]:
    """Add up the counts of each task and setting over sets of prompts."""
    totals: dict[tuple[str, ...], CellCount] = {}
    for count in counts:
        key = (count.benchmark, count.model, count.task, count.setting)
        total = totals.get(key)
        numbers = {name: getattr(total, name, 0) + getattr(count, name) for name in _COUNTS}
        totals[key] = replace(count, **numbers)
    return list(totals.values())


def score_human_entries(context: SweepContext, entries: Sequence[ManifestEntry], cluster: LazyCluster) -> None:
    """Score new answers of people without judge and scorers, where only the report is wanted."""
    for name in sorted({entry.benchmark for entry in entries}):
        of_benchmark = [entry for entry in entries if entry.benchmark == name]
        score_parts(context, of_benchmark, cluster, judges=(), scorers=[])


def _score(context: SweepContext, entries: Sequence[ManifestEntry], cluster: LazyCluster, result: SweepResult) -> None:
    """Send the judges what is open, then score every prediction part whose scores are missing or out of date."""
    name, spec = entries[0].benchmark, context.spec

    def run(title: str, job: Job) -> None:
        run_job(title, job, cluster, context.progress, result.spending)

    judges = [judge_rounds(context, judge, entries, run) for judge in spec.judges]
    problems = score_parts(context, entries, cluster, judges=judges, scorers=spec.scorers_for(name))
    result.warnings += [f"{name}: {problem}" for problem in problems]


def _usable_entries(
    context: SweepContext, entries: Sequence[ManifestEntry], result: SweepResult
) -> list[ManifestEntry]:
    """Return the entries whose data is unchanged; an earlier model's may have moved or changed since."""
    spec, usable = context.spec, []
    for entry in entries:
        try:
            manifest = context.datasets.open(entry.data, entry.benchmark).manifest
        except DatasetError as error:
            if entry.model in spec.models and entry.benchmark in spec.benchmarks:
                raise
            result.warnings.append(f"{entry.model} on {entry.benchmark} is skipped in this report: {error}")
            continue
        if manifest.dataset_fingerprint == entry.prompts.dataset_fingerprint:
            usable.append(entry)
        else:
            result.warnings.append(
                f"{entry.model} on {entry.benchmark} is skipped in this report: the data at {entry.data} has changed "
                "since its predictions were made; run this model again"
            )
    return usable
