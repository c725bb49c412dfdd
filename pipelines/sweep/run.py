"""A sweep from plan to report: the page that reads from entry to result."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from cluster.connect import ClusterInfo, connect, refresh
from models.fingerprint import is_unpinned, resolved_revision
from models.spec import ModelSpec
from pipelines.benchmarks import benchmark
from pipelines.errors import DatasetError, ModelUnavailableError
from pipelines.ingest.dataset import Dataset
from pipelines.ingest.human_files import check_human
from pipelines.plan.captions import load_captions
from pipelines.plan.planner import load_completed, plan_requests
from pipelines.plan.records import Plan
from pipelines.plan.requests import RequestBuilder
from pipelines.plan.run_manifest import ManifestEntry, dropped_from_report, load_run, merge_entries, save_run
from pipelines.plan.run_spec import RunSpec
from pipelines.predict.cost_tracker import CostTracker, note_spending
from pipelines.predict.records import CellCount, Job
from pipelines.predict.stage import caption, predict, run_job
from pipelines.predict.status import StatusWriter
from pipelines.progress import NullProgress, ProgressListener
from pipelines.report.stage import publish, reduce_all
from pipelines.score.stage import judge_rounds, score_parts
from pipelines.storage.lock import owns_lock, run_lock
from pipelines.storage.store import Store

STAGES = ("predict", "score", "report")


@dataclass(slots=True)
class SweepResult:
    """How a run ended."""

    counts: list[CellCount] = field(default_factory=list)
    """What became of the requests of this run's models, cell by cell."""
    metrics: list[dict[str, Any]] = field(default_factory=list)
    judge_failed: int = 0
    unavailable: list[str] = field(default_factory=list)
    """Models that could not be had, one sentence each; the others went on."""
    warnings: list[str] = field(default_factory=list)
    report: str = ""
    """Where the page is; '' when none was made."""
    spending: CostTracker = field(default_factory=CostTracker)
    """Tokens and dollars of this run."""

    @property
    def failed(self) -> int:
        """Rows that failed, the judge's among them."""
        return sum(count.error for count in self.counts) + self.judge_failed

    @property
    def requests(self) -> int:
        """Rows of the plan."""
        return sum(count.requests for count in self.counts)


def _captions_there(spec: RunSpec, asker: RequestBuilder, dataset: Dataset) -> Mapping[str, str]:
    del dataset
    return load_captions(Store(spec.out), asker.benchmark_name, asker.captioner)


def plan_sweep(
    spec: RunSpec, captions: Callable[[RunSpec, RequestBuilder, Dataset], Mapping[str, str]] = _captions_there
) -> dict[str, list[Plan]]:
    """The plan of every model, benchmark by benchmark, without what is done already.

    What is damaged or doubled in the output is mended by a run that holds its lock; a dry run only reads.

    Args:
        spec: the sweep.
        captions: gives what prompts can hold of captions, by picture hash; those that are in the output.
    """
    out = Store(spec.out)
    return {
        model: [
            plan_requests(
                dataset,
                asker,
                load_completed(out, asker.benchmark_name, model, mend=bool(spec.lock)),
                limit=spec.limit,
                sample_ids=spec.sample_ids,
                captions=captions(spec, asker, dataset),
                replicas=spec.models[model].replicas.max,
            )
            for asker, dataset in spec.askers(model)
        ]
        for model in spec.models
    }


def run_sweep(spec: RunSpec, *, stages: Sequence[str] = STAGES, watcher: ProgressListener | None = None) -> SweepResult:
    """Run a sweep's stages; what is done already is not done again.

    Args:
        spec: the sweep.
        stages: of `predict`, `score`, `report`.
        watcher: is told of progress.

    Raises:
        DatasetError, StoreError, ClusterError: as their texts say.
        LockedError: another run writes the same output.
        UsageError: a row of a file of people's work cannot be used.
        ModelUnavailableError: the judge, a named scorer, or every model of the sweep cannot be had.
    """
    from pipelines.sweep.human_entries import with_people  # it imports what imports this page

    watcher = watcher or NullProgress()
    out = Store(spec.out)
    out.check_writable()
    spec.check_data()
    check_human(spec.human, Store(spec.data))
    outcome = SweepResult(warnings=[*_unpinned(spec), *_own_captions(spec)], spending=CostTracker(spec.cost_limit))
    with run_lock(out) as lock, _tidied(out), connect(spec.address) as cluster:
        spec = replace(spec, lock=lock)
        plans = plan_sweep(spec)
        if "predict" in stages and caption(spec, cluster, watcher, outcome.spending):
            plans = plan_sweep(spec)  # prompts hold captions, and ids hash prompts
        run = _record(spec, out, plans, outcome.warnings)
        board = StatusWriter(out, plans)
        try:
            if "predict" in stages:
                outcome.unavailable = predict(spec, cluster, plans, board, watcher, outcome.spending)
            if len(outcome.unavailable) == len(spec.models):
                raise ModelUnavailableError("; ".join(outcome.unavailable))
            run, people = with_people(spec, out, run)
            if "score" not in stages:
                _score_people(people, out, cluster, watcher)
            score_and_report(spec, run, cluster, outcome, stages=stages, watcher=watcher)
        finally:
            board.close()
            if owns_lock(out, lock):
                note_spending(out, run, outcome.spending)
    outcome.counts = [count for count in outcome.counts if count.model in spec.models] or board.counts()
    return outcome


@contextlib.contextmanager
def _tidied(out: Store) -> Iterator[None]:
    """Without what killed writers left in the middle: those of an earlier run, and its own when its cluster ended."""
    out.remove_temporary()
    try:
        yield
    finally:
        out.remove_temporary()


def _score_people(people: Sequence[ManifestEntry], out: Store, cluster: ClusterInfo, watcher: ProgressListener) -> None:
    """Where only the report is wanted, people's answers that are new are read and scored without judge and scorers."""
    for name in sorted({entry.benchmark for entry in people}):
        own = [entry for entry in people if entry.benchmark == name]
        score_parts(own, out, judge=None, scorers=[], cluster=cluster, watcher=watcher)


def score_and_report(
    spec: RunSpec,
    run: Mapping[str, Any],
    cluster: ClusterInfo,
    outcome: SweepResult,
    *,
    stages: Sequence[str] = STAGES,
    watcher: ProgressListener,
) -> None:
    """Score and report all entries of an output; fills the outcome in."""
    out, cluster = Store(spec.out), refresh(cluster)
    entries = _usable(spec, run["entries"], outcome)
    if "score" in stages:
        for name in sorted({entry.benchmark for entry in entries}):
            outcome.warnings += _score(
                spec, name, [e for e in entries if e.benchmark == name], cluster, watcher, outcome.spending
            )
    if "report" in stages:
        watcher.phase("report", len(entries))
        reduced = reduce_all(entries, out)
        spent = "; ".join(outcome.spending.lines())
        publish(out, {**run, "spent": spent}, reduced, [*outcome.warnings, *outcome.unavailable])
        watcher.advance(len(entries), 0)
        outcome.counts = [count for one in reduced for count in one.counts]
        outcome.metrics = [row for one in reduced for row in one.metrics]
        outcome.judge_failed = sum(one.judge_failed for one in reduced)
        outcome.report = f"{out.uri}/report/index.html"


def _usable(spec: RunSpec, entries: Sequence[ManifestEntry], outcome: SweepResult) -> list[ManifestEntry]:
    """Entries whose data is still what they were asked about; an earlier model's may have moved or changed since."""
    kept = []
    for entry in entries:
        try:
            manifest = Dataset.open(Store(entry.data), entry.benchmark).manifest
        except DatasetError as error:
            if entry.model in spec.models and entry.benchmark in spec.benchmarks:
                raise
            outcome.warnings.append(f"{entry.model} on {entry.benchmark} is left out of this report: {error}")
            continue
        if manifest.dataset_fingerprint == entry.parsed_asker().dataset_fingerprint:
            kept.append(entry)
        else:
            outcome.warnings.append(
                f"{entry.model} on {entry.benchmark} is left out of this report: the data at {entry.data} has changed "
                "since it was asked; run this model again"
            )
    return kept


def entries_of(spec: RunSpec, askers: Iterable[RequestBuilder]) -> list[ManifestEntry]:
    """The entries of a sweep's own models, before they are joined with those of earlier runs."""
    return [
        ManifestEntry(
            benchmark=asker.benchmark_name,
            model=asker.model,
            data=spec.data,
            asker=asker.to_json(),
            limit=spec.describe()["limit"],
            sample_ids=spec.sample_ids,
        )
        for asker in askers
    ]


def _record(spec: RunSpec, out: Store, plans: Mapping[str, Sequence[Plan]], warnings: list[str]) -> dict[str, Any]:
    """Write `run.json` before the work, so that an output always says what it is; warns of what leaves the report."""
    earlier = load_run(out)
    askers = [(model, plan.asker) for model, own in plans.items() for plan in own]
    entries = entries_of(spec, [asker for _, asker in askers])
    warnings += dropped_from_report(earlier.get("entries", []), entries)
    helpers = [pair for pair in (spec.judge, spec.captioner) if pair]
    return save_run(
        out,
        earlier,
        sweep=spec.describe(),
        entries=merge_entries(earlier.get("entries", []), entries),
        parts={
            "models": {name: _shown(model) for name, model in {**dict(helpers), **spec.models}.items()},
            "datasets": {asker.benchmark_name: {"fingerprint": asker.dataset_fingerprint} for _, asker in askers},
            "prompts": {
                asker.benchmark_name: {**benchmark(asker.benchmark_name).prompt_texts, **asker.prompts}
                for _, asker in askers
            },
        },
    )


def _unpinned(spec: RunSpec) -> list[str]:
    helpers = [pair for pair in (spec.judge, spec.captioner) if pair]
    names = [name for name, model in {**spec.models, **dict(helpers)}.items() if is_unpinned(model)]
    return [
        f"model {name}: its revision is not pinned, so the hub may serve others tomorrow; give `revision` a commit"
        for name in names
    ]


def _own_captions(spec: RunSpec) -> list[str]:
    if not spec.own_captions:
        return []
    return [f"{', '.join(spec.models)}: captions in place of pictures are the model's own (captioner: self)"]


def _shown(spec: ModelSpec) -> dict[str, Any]:
    return {**spec.model_dump(mode="json", exclude_defaults=True), "revision": resolved_revision(spec)}


def _score(  # noqa: PLR0917  what a run consists of
    spec: RunSpec,
    name: str,
    entries: Sequence[ManifestEntry],
    cluster: ClusterInfo,
    watcher: ProgressListener,
    spending: CostTracker,
) -> list[str]:
    """Ask the judge what is open, then score every prediction part whose scores are not there or not up to date."""
    out = Store(spec.out)
    judge = None
    if spec.judge:

        def ask(title: str, job: Job) -> None:
            run_job(title, replace(job, lock=spec.lock), cluster, watcher, spending)

        judge = judge_rounds(spec.judge, entries, out, ask)
    problems = score_parts(entries, out, judge=judge, scorers=spec.scorers_for(name), cluster=cluster, watcher=watcher)
    return [f"{name}: {problem}" for problem in problems]
