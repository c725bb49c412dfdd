"""Open the output of a sweep; score, reduce and report all its entries."""

import contextlib
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import compress
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from cluster.lazy import LazyCluster, open_cluster
from models.spec import ModelSpec
from pipelines.benchmarks import benchmark
from pipelines.benchmarks.human import OutputKey
from pipelines.benchmarks.known_tables import known_tables
from pipelines.benchmarks.records import is_person
from pipelines.errors import DatasetError, UsageError
from pipelines.ingest.dataset import Datasets
from pipelines.ingest.human_files import HumanFile, check_human
from pipelines.plan.context import SweepContext
from pipelines.plan.run_manifest import ManifestEntry, RunManifest, load_run, record_work
from pipelines.plan.run_spec import RunSpec, Stage
from pipelines.plan.selection import selected_groups
from pipelines.predict.concurrent_judges import ConcurrentJudges, RunJobs
from pipelines.predict.cost_tracker import CostTracker
from pipelines.predict.records import TaskCount
from pipelines.predict.stage import ModelRuns
from pipelines.progress import ProgressListener
from pipelines.registry import extension
from pipelines.score.stage import judge_rounds, score_parts
from pipelines.storage.backend import is_remote
from pipelines.storage.lock import owns_lock, run_lock
from pipelines.storage.parts import iter_parts, part_folder, score_path
from pipelines.storage.store import Store
from pipelines.sweep.result import SweepResult
from pipelines.sweep.revisions import pin_revisions


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """A sweep whose output this process has locked."""

    context: SweepContext
    stages: frozenset[Stage]
    earlier: RunManifest  # `run.json` as earlier runs left it
    warnings: tuple[str, ...]  # revisions that could not be resolved, a sentence each
    cluster: LazyCluster
    costs: CostTracker

    def record_work(self, run: RunManifest) -> None:
        """Add to `run.json` what this run cost, if anything and while it holds the output."""
        if self.costs.tokens and owns_lock(self.context.out, self.context.lock_token):
            record_work(self.context.out, run, self.costs.record(), self.costs.warnings)


@contextlib.contextmanager
def open_sweep(
    spec: RunSpec,
    stages: Collection[Stage] = tuple(Stage),
    *,
    benchmarks: Collection[str] | None = None,
    progress: ProgressListener | None = None,
) -> Iterator[Sweep]:
    """Open the output of a sweep for some stages, whose checkpoints get the commits that the output was begun with.

    `benchmarks` are those whose data must be there; None for all of the spec.

    Raises:
        DatasetError, StoreError, ClusterError: data, output or cluster are unavailable.
        LockedError: another run writes the same output.
        UsageError: a row of a human file cannot be used.
        UnknownRevisionError: the hub does not know a model or its revision.
    """
    out, datasets = Store(spec.out), Datasets()
    if not is_remote(out.uri):  # the lock of an object store is written anyway
        out.check_writable()
    for name in spec.benchmarks if benchmarks is None else benchmarks:
        if selected_groups(benchmark(name), spec.tasks, spec.settings):
            datasets.open(spec.data, name)
    check_human(spec.human, Store(spec.data))
    with run_lock(out) as lock_token, _without_temporary_files(out):
        earlier = load_run(out)
        pinned = pin_revisions(spec, earlier, stages)
        context = SweepContext.open(pinned.spec, datasets=datasets, lock_token=lock_token, progress=progress)
        with open_cluster(spec.address) as cluster:
            yield Sweep(
                context=context,
                stages=frozenset(stages),
                earlier=earlier,
                warnings=pinned.warnings,
                cluster=cluster,
                costs=CostTracker(spec.cost_limit),
            )


@contextlib.contextmanager
def _without_temporary_files(out: Store) -> Iterator[None]:
    """Delete unfinished files of killed writers, before and after the run."""
    out.remove_temporary()
    try:
        yield
    finally:
        out.remove_temporary()


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
        from pipelines.report.reduce import reduce_all
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


def _total(counts: Iterable[TaskCount]) -> list[TaskCount]:
    """Add up the counts of each task and setting over sets of prompts."""
    totals: dict[tuple[str, ...], TaskCount] = {}
    for count in counts:
        key = (count.benchmark, count.model, count.task, count.setting)
        total = totals.get(key)
        numbers = {name: getattr(total, name, 0) + getattr(count, name) for name in _COUNTS}
        totals[key] = replace(count, **numbers)
    return list(totals.values())


def score_human_entries(sweep: Sweep, entries: Sequence[ManifestEntry]) -> None:
    """Score new answers of people without judge and scorers, where only the report is wanted."""
    for name in sorted({entry.benchmark for entry in entries}):
        benchmark_entries = [entry for entry in entries if entry.benchmark == name]
        score_parts(sweep.context, benchmark_entries, sweep.cluster, (), ())


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
        scorers, benchmark_entries = (
            context.spec.scorers_for(name),
            [each for each in entries if each.benchmark == name],
        )
        texts = score_parts(context, benchmark_entries, cluster, replies, scorers, defers_defaults=defers_defaults)
        problems += [f"{name}: {text}" for text in texts]
    return problems, gone


def concurrent_judges(sweep: Sweep, run: RunManifest) -> ConcurrentJudges | None:
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

    return ConcurrentJudges(judge_ended)


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


_COLUMNS = ["model", "task", "setting", "sample_id", "variant", "cluster", "verdict_state", "values"]


def check_labels(out: Store, entries: Sequence[ManifestEntry], files: Sequence[HumanFile]) -> None:
    """Check that labels are of judged answers, in two clusters or more; the UsageError says what to do."""
    for file in files:
        definition = benchmark(file.benchmark)
        labelled = definition.human.output_labels({file.kind: file.text})
        keys = {key for key in labelled if key[1] in definition.judged_tasks}
        models = {entry.model for entry in entries if entry.benchmark == file.benchmark}
        if not keys:
            continue
        name = f"{file.uri} ({file.benchmark} {file.kind})"
        model_keys = {key for key in keys if key[0] in models}
        if not model_keys:
            raise UsageError(
                f"{name}: no rows in common: the labels are of {_names(key[0] for key in keys)}, and the models "
                f"are {_names(models)}"
            )
        clusters = dict(_judged(out, [entry for entry in entries if entry.benchmark == file.benchmark]))
        unjudged = sorted(model_keys - clusters.keys())
        if unjudged:
            raise UsageError(
                f"{name}: {len(unjudged):,} labels are of answers that no judge has judged, such as "
                f"{'/'.join(filter(None, unjudged[0]))}; run `vlmsweep score --judge NAME`, or leave them out"
            )
        if len({clusters[key] for key in model_keys}) < 2:
            raise UsageError(f"{name}: all labels are of one clip, picture or row; an interval needs at least two")


def _judged(out: Store, entries: Sequence[ManifestEntry]) -> Iterator[tuple[OutputKey, str]]:
    """Yield the outputs with a verdict, of a judge or by a rule, each with its cluster."""
    for entry in entries:
        for _, part in iter_parts(out, part_folder("scores", entry.benchmark, entry.model), _COLUMNS):
            for row in part.to_pylist():
                if row["verdict_state"] in ("ok", "invalid") or "accepted" in dict(row["values"]):
                    yield _key(row), row["cluster"] or row["sample_id"]


def _key(row: dict[str, Any]) -> OutputKey:
    return row["model"], row["task"], row["setting"], row["sample_id"], row["variant"]


def _names(names: Any) -> str:
    return ", ".join(sorted({*names})) or "none"


_STATUS = pa.schema([("request_id", pa.string()), ("status", pa.string())])


def unscored_notes(context: SweepContext, entries: Sequence[ManifestEntry]) -> list[str]:
    """Return how many answers of each entry have no scores and what its tables show for them, a sentence each."""
    notes = []
    for entry in entries:
        rows = _unscored(entry, context.out)
        if not rows.num_rows:
            continue
        is_planned = context.planned_ids(entry).contains(rows["request_id"].to_pylist())
        states = Counter(compress(rows["status_last_scored"].to_pylist(), is_planned))
        shown = [f"{n:,} count as the {state} rows that they replace" for state, n in states.items() if state]
        shown = [f"{states[None]:,} count as never run", *shown] if states[None] else shown
        if shown:
            text = f"{entry.model} on {entry.benchmark}: answers without scores: {', '.join(shown)}"
            notes.append(f"{text}; `vlmsweep score` scores them")
    return notes


def _unscored(entry: ManifestEntry, out: Store) -> pa.Table:
    """Return `request_id` of answers without a score; `status_last_scored`: of an older answer with one, or null."""
    predictions, scores = (
        dict(iter_parts(out, part_folder(kind, entry.benchmark, entry.model), _STATUS.names))
        for kind in ("predictions", "scores")
    )
    current = [scores[score_path(path)] for path in predictions if score_path(path) in scores]
    answers, scored = (  # where two parts hold a request, the later one counts
        pa.concat_tables([_STATUS.empty_table(), *parts])
        .group_by("request_id", use_threads=False)
        .aggregate([("status", "last")])
        for parts in (predictions.values(), current)
    )
    rows = answers.join(scored, "request_id", right_suffix="_scored")
    return rows.filter(pc.not_equal(rows["status_last"], pc.fill_null(rows["status_last_scored"], "")))


def cut_notes(counts: Iterable[TaskCount]) -> list[str]:
    """Return a sentence for each model whose replies the limit of tokens ended before an answer, with both numbers."""
    cut, answered = Counter[str](), Counter[str]()
    for count in counts:
        cut[count.model] += count.cut
        answered[count.model] += count.ok
    return [
        f"{model}: {number:,} of {answered[model]:,} replies were cut by the limit of tokens before an answer; raise "
        "max_new_tokens under `generation` of its entry, or let it think less"
        for model, number in cut.items()
        if number
    ]
