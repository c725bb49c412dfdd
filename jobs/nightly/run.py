"""The nightly run: run changed pairs of model and benchmark in one output, and compare them with earlier nights."""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from cluster.errors import ClusterError
from cluster.lazy import open_cluster
from jobs.nightly.budget import Budget, PlannedPair, code_fingerprint, due_pairs, plan_due
from jobs.nightly.history import PAGE, History, Pair, run_name
from jobs.nightly.items import Items, ItemScores, ScoreKey, entry_items
from jobs.nightly.judge_drift import Usage, cost, judged_entries, measure_drift, token_difference, usage
from jobs.nightly.page import PAGE_MARK, history_page
from jobs.nightly.records import NightlyResult, PairStatus, gone_metrics, metric_pairs
from jobs.nightly.regressions import compare_runs
from jobs.nightly.summary import row_notes, summary
from models.errors import ModelError
from pipelines.benchmarks import benchmark_names
from pipelines.benchmarks.records import is_person
from pipelines.errors import (
    CostLimitReachedError,
    DamagedPartError,
    DatasetError,
    LockedError,
    ModelUnavailableError,
    UsageError,
)
from pipelines.ingest.human_files import check_human
from pipelines.plan.context import prune_plans
from pipelines.plan.run_manifest import PATH, load_run, save_run
from pipelines.plan.run_spec import RunSpec, Stage
from pipelines.predict.status import write_counts
from pipelines.progress import NullProgress, ProgressListener
from pipelines.storage.lock import run_lock
from pipelines.storage.parts import part_folder
from pipelines.storage.store import Store, put_named
from pipelines.sweep.evaluate import open_sweep, score_and_report
from pipelines.sweep.import_predictions import add_human_entries
from pipelines.sweep.result import SweepResult
from pipelines.sweep.revisions import pin_newest
from pipelines.sweep.run import run_sweep
from pipelines.sweep.status import failure_reasons

_STAGING = "staging"
_SHARED = ("captions", "judgements")  # folders that models share
_ANSWERS = ("predictions", "scores")


class JointOutput:
    """The output of all nights under `spec.out`, and the staging folder of this version of the code."""

    def __init__(self, spec: RunSpec) -> None:
        self.spec = replace(spec, cost_limit=None)
        self.out = Store(spec.out)
        self.staging = self.out.sub(f"{_STAGING}/{code_fingerprint()}")

    def delete_stale(self) -> None:
        """Delete what other versions of the code left in their staging folders."""
        self.out.delete_all(_STAGING, {f"{_STAGING}/{code_fingerprint()}/{file.path}" for file in self.staging.list()})

    def prepare(self, due: Sequence[PairStatus]) -> None:
        """Prepare the staging folder for the due pairs of one model."""
        self.staging.delete(PATH)  # or earlier models would be scored and reported again
        for status in due:
            marker = f"{part_folder('pairs', status.benchmark, status.model)}/fingerprint"
            if not _holds(self.staging, marker, status.fingerprint):
                self._delete_answers(status)
                self.staging.put(marker, status.fingerprint.encode())
            for kind in _SHARED:
                _copy(self.out, self.staging, f"{kind}/benchmark={status.benchmark}", again=False)

    def items(self) -> dict[ScoreKey, ItemScores]:
        """Return the scores in the staging folder by sample."""
        entries = load_run(self.staging).entries
        return {key: scores for entry in entries for key, scores in entry_items(self.staging, entry).items()}

    def promote(self, due: Sequence[PairStatus]) -> None:
        """Replace the pairs' answers in the joint output by those of the staging folder."""
        with run_lock(self.out):
            for status in due:
                for kind in _SHARED:
                    _copy(self.staging, self.out, f"{kind}/benchmark={status.benchmark}")
                for kind in _ANSWERS:
                    folder = part_folder(kind, status.benchmark, status.model)
                    self.out.delete_all(folder, _copy(self.staging, self.out, folder))
            self._record()

    def clear(self, statuses: Iterable[PairStatus]) -> None:
        """Delete the pairs' answers from the staging folder, so that their next run measures them anew."""
        for status in statuses:
            self._delete_answers(status)

    def report(self, progress: ProgressListener, left_out: set[tuple[str, str]], notes: Sequence[str]) -> SweepResult:
        """Report all pairs, but those `left_out` by (model, benchmark); import people's files first."""
        with open_sweep(self.spec, (Stage.SCORE, Stage.REPORT), progress=progress) as sweep:
            run, people = add_human_entries(sweep.context, sweep.earlier)
            warnings = list(notes)
            if people:  # with the judge, which their own words may need
                scoring = replace(sweep, stages=frozenset([Stage.SCORE]))
                scored = score_and_report(scoring, replace(run, entries=tuple(people)))
                warnings += [*scored.warnings, *scored.unavailable]
            prune_plans(sweep.context, run.entries)
            installed = benchmark_names()  # a plug-in may have been removed since its pairs were measured
            shown = tuple(
                entry
                for entry in run.entries
                if entry.benchmark in installed and (entry.model, entry.benchmark) not in left_out
            )
            # Labels of pairs that still wait are no error.
            without_files = replace(sweep.context, spec=replace(sweep.context.spec, human=()))
            reporting = replace(sweep, stages=frozenset([Stage.REPORT]), context=without_files)
            result = score_and_report(reporting, replace(run, entries=shown), warnings=warnings)
            write_counts(self.out, result.counts)
        return result

    def pairs(self) -> set[tuple[str, str]]:
        """Return (model, benchmark) of what was measured."""
        return {(each.model, each.benchmark) for each in load_run(self.out).entries if not is_person(each.model)}

    def _record(self) -> None:
        staged, earlier = load_run(self.staging), load_run(self.out)
        entries = {(entry.benchmark, entry.model): entry for entry in earlier.entries}
        entries |= {(entry.benchmark, entry.model): entry for entry in staged.entries}
        save_run(
            self.out,
            earlier,
            replace(staged, sweep=self.spec.record(), entries=tuple(entries[key] for key in sorted(entries))),
        )

    def _delete_answers(self, status: PairStatus) -> None:
        for kind in _ANSWERS:
            self.staging.delete_all(part_folder(kind, status.benchmark, status.model))


def _holds(store: Store, path: str, text: str) -> bool:
    try:
        return store.get(path).decode("utf-8", "replace") == text
    except FileNotFoundError:
        return False


def _copy(source: Store, target: Store, folder: str, *, again: bool = True) -> set[str]:
    """Copy the files of a folder, existing ones `again`; return the paths."""
    existing = set() if again else {file.path for file in target.list(folder)}
    paths = {file.path for file in source.list(folder)}
    for path in sorted(paths - existing):
        target.put(path, source.get(path))
    return paths


log = logging.getLogger(__name__)

_ERRORS_OF_ONE_MODEL = (
    *(ModelUnavailableError, ModelError, ClusterError),
    *(UsageError, DatasetError, DamagedPartError, LockedError),
)  # any other error, such as an unreachable store or a bug, ends the night


Specs = Sequence[RunSpec]
"""Parts of a configuration with models and settings of their own; the first one's output and people's files count."""


def _statuses(
    specs: Specs, history: History, refresh_days: float | None, now: datetime | None = None
) -> tuple[Specs, list[PairStatus], list[str]]:
    """Return a configuration with today's commits, its pairs with why each is due, and what a reader should know.

    Where the hub is unreachable, commits are those of the last nights. A branch that moved changes its model, which is
    run again.
    """
    history_page(history)  # reads the nights that are shown
    missing, run = history.check(), load_run(Store(specs[0].out))
    pinned = [pin_newest(spec, run) for spec in specs]
    specs = [part.spec for part in pinned]
    statuses = [each for spec in specs for each in due_pairs(spec, history, refresh_days=refresh_days, now=now)]
    return specs, statuses, [*dict.fromkeys([*missing, *(warning for part in pinned for warning in part.warnings)])]


def run_nightly(
    specs: Specs,
    history: History,
    *,
    budget: Budget | None = None,
    refresh_days: float | None = None,
    progress: ProgressListener | None = None,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> NightlyResult:
    """Run the due pairs that the budget can pay, compare their scores, and record the night.

    All nights share one output, whose report shows every pair as it was last measured. A night that was killed resumes.
    Raises DatasetError if a benchmark was never ingested, UsageError for an unusable file of people's work, LockedError
    if another night is running, StoreError and ClusterError.
    """
    history.store.check_writable()
    check_human(specs[0].human, Store(specs[0].data))
    start = clock()
    result = NightlyResult(name=run_name(start))
    with run_lock(history.store, flag="--history"):  # two concurrent nights would each miss the other's result
        specs, statuses, warnings = _statuses(specs, history, refresh_days, start)
        result.warnings += warnings
        due = [status for status in statuses if status.why]
        with open_cluster(specs[0].address) if due or specs[0].human else nullcontext():
            night = _NightlyRun(specs, history, budget or Budget(), result, progress or NullProgress())
            night.check_judge()
            night.run(statuses, due)
            night.compare(statuses)
            night.report(statuses)
        night.record(statuses)
    return result


def planned_pairs(
    specs: Specs, history: History, budget: Budget, refresh_days: float | None = None
) -> list[PlannedPair]:
    """Return all pairs, the due ones first and in the order of a night, without running any."""
    specs, statuses, warnings = _statuses(specs, history, refresh_days)
    for warning in warnings:
        log.warning("%s", warning)
    due = [status for status in statuses if status.why]
    planned = plan_due(specs, due, JointOutput(specs[0]).staging.uri, budget)
    return [*planned, *(PlannedPair(status, "") for status in statuses if not status.why)]


class _NightlyRun:
    """One night while it runs."""

    def __init__(
        self, specs: Specs, history: History, budget: Budget, result: NightlyResult, progress: ProgressListener
    ) -> None:
        self.specs, self.history, self.budget, self.result, self.progress = specs, history, budget, result, progress
        self.joint = JointOutput(specs[0])
        self._start = time.monotonic()
        self._items: dict[ScoreKey, ItemScores] = {}

    def run(self, statuses: Sequence[PairStatus], due: Sequence[PairStatus]) -> None:
        """Run the due pairs model by model, in the order of their first pairs."""
        name = self.result.name
        self.result.pairs = [kept_pair(name, status, "unchanged") for status in statuses if not status.why]
        if due:
            self.joint.delete_stale()
        planned = plan_due(self.specs, due, self.joint.staging.uri, self.budget)
        self.result.pairs += [kept_pair(name, pair.status, "waiting", pair.why) for pair in planned if pair.is_waiting]
        ready = [pair for pair in planned if not pair.is_waiting]
        for model in dict.fromkeys(pair.status.model for pair in ready):
            model_pairs = [pair for pair in ready if pair.status.model == model]
            seconds = sum(pair.estimate.seconds for pair in model_pairs if pair.estimate)
            if self.budget.allows(time.monotonic() - self._start + seconds, self.result.cost_usd):
                self._run_model(model, [pair.status for pair in model_pairs])
            else:
                late = "waits: earlier models took more of the budget than estimated"
                self.result.pairs += [
                    kept_pair(name, pair.status, "waiting", f"{pair.why}; {late}") for pair in model_pairs
                ]

    def check_judge(self) -> None:
        """Measure how far the judge decides otherwise than in the nights that judged what the output holds."""
        spec = replace(self.specs[0], cost_limit=self._cost_limit())
        if not (spec.judges and spec.judge_checks and judged_entries(spec)):
            return
        try:
            with open_sweep(spec, (Stage.SCORE,), benchmarks=(), progress=self.progress) as sweep:
                to = self.history.store.sub(f"judged_again/{self.result.name}")
                self.result.drifts = measure_drift(sweep, self.result.name, to, self.history.judge_checks())
                self.result.judging_usd = sweep.costs.total
        except _ERRORS_OF_ONE_MODEL as error:
            self.result.warnings.append(f"the judge was not checked: {error}")

    def _run_model(self, model: str, due: Sequence[PairStatus]) -> None:
        """Run one model on its due benchmarks; an error is recorded in its pairs and stops no other model."""
        benchmarks = tuple(status.benchmark for status in due)
        spec = next(spec for spec in self.specs if model in spec.models)
        part = spec.part([model], benchmarks)
        sweep = replace(part, out=self.joint.staging.uri, cost_limit=self._cost_limit())
        self.joint.prepare(due)
        before, start = usage(sweep), time.monotonic()
        try:
            result = run_sweep(sweep, progress=self.progress)
            if result.unavailable:  # the judge: verdicts of the last measurement stay
                raise ModelUnavailableError("; ".join(result.unavailable))
            costs = self._costs(sweep, result, before, time.monotonic() - start)
            items = self.joint.items()
            is_complete = spec.allows(result.failed, max(result.requests, 1))
            reasons = [] if is_complete else failure_reasons(self.joint.staging, result.counts)
            self.joint.promote(due)
        except _ERRORS_OF_ONE_MODEL as error:
            if not isinstance(error, ModelUnavailableError):  # the sweep has logged that one
                log.error("%s: %s", model, error)  # noqa: TRY400  the message is for people
            costs = self._costs(sweep, None, before, time.monotonic() - start)
            night, why = self.result.name, str(error)
            for status in due:
                if isinstance(error, CostLimitReachedError):
                    record = kept_pair(night, status, "waiting", why)
                else:
                    record = ran_pair(night, status, "failed", why)
                self.result.pairs.append(replace(record, **costs[status.benchmark]))
            return
        self._items |= items
        # With answers from before, its time is not that of all requests.
        is_resumed = any(sum(n) for (kind, _, name), n in before.items() if (kind, name) == ("predictions", model))
        for status in due:
            requests, fields = requests_of(result, status.benchmark), costs[status.benchmark]
            if is_complete and requests and not is_resumed:  # for the estimates of later nights
                usd = fields["cost_usd"]
                fields["seconds_per_request"] = fields["seconds"] / requests
                fields["usd_per_request"] = None if usd is None else usd / requests
            fields |= {
                "fingerprint": status.fingerprint if is_complete else "",
                "measured": self.result.name,
                "requests": requests,
                "failed": sum(count.error for count in result.counts if count.benchmark == status.benchmark),
                "out": spec.out,
            }
            self.result.pairs.append(ran_pair(self.result.name, status, "ran", status.why, **fields))
        self.result.over_budget += [] if is_complete else [model]
        self.result.metrics += [row for row in result.metrics if row.benchmark in benchmarks]
        warnings = (*(f"failed rows of {each.cause}; {each.remedy}" for each in reasons), *result.warnings)
        self.result.warnings += [warning for warning in warnings if warning not in self.result.warnings]

    def _cost_limit(self) -> float | None:
        """Return what is left of the budget and of `--cost-limit`, in dollars."""
        limits = [limit for limit in (self.specs[0].cost_limit, self.budget.usd) if limit is not None]
        return max(min(limits) - self.result.cost_usd, 1e-9) if limits else None

    def _costs(
        self, sweep: RunSpec, result: SweepResult | None, before: Usage, seconds: float
    ) -> dict[str, dict[str, Any]]:
        """Return seconds, tokens and dollars by benchmark; seconds by requests, or evenly if the sweep failed."""
        used = {key: token_difference(tokens, before[key]) for key, tokens in usage(sweep).items()}
        costs = {}
        for name in sweep.benchmarks:
            share = requests_of(result, name) / max(result.requests, 1) if result else 1 / len(sweep.benchmarks)
            costs[name] = {
                "seconds": round(seconds * share, 3),
                "input_tokens": sum(tokens[0] for key, tokens in used.items() if key[1] == name),
                "output_tokens": sum(tokens[1] for key, tokens in used.items() if key[1] == name),
                "cost_usd": cost(sweep, name, used, seconds * share, self.budget.gpu_hour_usd),
            }
        return costs

    def compare(self, statuses: Sequence[PairStatus]) -> None:
        """Compare tonight's scores and metrics with those of earlier nights."""
        night, history = self.result, self.history
        ran = {(pair.model, pair.benchmark) for pair in night.pairs_in("ran")}
        bases = {(s.model, s.benchmark): s.basis for s in statuses if (s.model, s.benchmark) in ran}
        levels = history.levels()
        pairs = metric_pairs(night, statuses, history, {level.pair: level.basis for level in levels})
        night.comparison = compare_runs(night.name, self._items, levels, self._items_of, bases=bases, metrics=pairs)
        night.gone = list(gone_metrics(night, statuses, history))
        since = max((status.before.measured for status in statuses if status.before), default="")
        drifts = [drift.change(since) for drift in night.drifts if drift.is_alarm]
        night.comparison = replace(night.comparison, changes=[*night.comparison.changes, *drifts])

    def _items_of(self, night: str) -> Items:
        return self._items if night == self.result.name else self.history.items(night)

    def report(self, statuses: Sequence[PairStatus]) -> None:
        """Report all pairs together, if one ran, people's files are given, or the judge has drifted."""
        night = self.result
        is_new = night.pairs_in("ran") or self.specs[0].human or any(drift.is_alarm for drift in night.drifts)
        if not is_new or not (measured := self.joint.pairs()):
            return
        bases = {(status.model, status.benchmark): status.basis for status in statuses}
        stale = {level.pair for level in night.comparison.levels if bases.get(level.pair, level.basis) != level.basis}
        try:
            others = measured - {(pair.model, pair.benchmark) for pair in night.pairs}
            last = self.history.last_pairs(others).values()
            earlier = [replace(pair, state="not configured") for pair in last if pair.measured]
            result = self.joint.report(self.progress, stale, row_notes(night, stale, earlier))
        except _ERRORS_OF_ONE_MODEL as error:
            night.warnings.append(f"the joint report was not made: {error}")
            log.error("the joint report: %s", error)  # noqa: TRY400  the message is for people
        else:
            night.report = result.report
            night.warnings += self._missing_answers(statuses, result)

    def _missing_answers(self, statuses: Sequence[PairStatus], result: SweepResult) -> Iterator[str]:
        """Yield which unchanged pairs lack answers in the joint output, a sentence each."""
        for status in statuses:
            model, name = status.model, status.benchmark
            counts = [count for count in result.counts if (count.model, count.benchmark) == (model, name)]
            missing = sum(count.missing for count in counts)
            if status.before and status.before.measured and not status.why and (missing or not counts):
                yield (
                    f"{model} on {name}: {missing or 'all'} answers that an earlier night measured are missing in "
                    f"{self.joint.out.uri}; `vlmsweep nightly` with --refresh-days 0 measures them again"
                )

    def record(self, statuses: Sequence[PairStatus]) -> None:
        """Write the night's summary, its records, and the page of all nights."""
        night, history = self.result, self.history
        night.summary = summary(
            night, {name for s in self.specs for name, model in s.models.items() if model.is_random}
        )
        history.write(night.name, night.pairs, night.metrics, night.summary, night.comparison)
        put_named(history.store, PAGE, history_page(history).encode(), PAGE_MARK)
        # Not before the night is recorded: one that is killed finds its finished models again. What failed is retried.
        ran = {(pair.model, pair.benchmark) for pair in night.pairs_in("ran") if pair.fingerprint}
        self.joint.clear(status for status in statuses if (status.model, status.benchmark) in ran)


def requests_of(result: SweepResult, name: str) -> int:
    """Return the requests of a sweep on one benchmark."""
    return sum(count.requests for count in result.counts if count.benchmark == name)


def kept_pair(night: str, status: PairStatus, state: str, why: str = "") -> Pair:
    """Return the record of a pair that was not run, with what the last night recorded of it."""
    before = status.before or Pair(night=night, model=status.model, benchmark=status.benchmark, state=state)
    fields: dict[str, Any] = {"night": night, "state": state, "why": _one_line(why), "seconds": 0.0, "cost_usd": 0.0}
    return replace(before, **fields, input_tokens=0, output_tokens=0)


def ran_pair(night: str, status: PairStatus, state: str, why: str, **fields: Any) -> Pair:
    """Return the record of a pair that was run; without a fingerprint, it runs again the next night."""
    if before := status.before:
        rates = ("seconds_per_request", "usd_per_request")
        fields = {"measured": before.measured, **{name: getattr(before, name) for name in rates}, **fields}
    names = {"night": night, "model": status.model, "benchmark": status.benchmark, "state": state}
    return Pair(**{**names, "why": _one_line(why), "parts": status.parts, **fields})


def _one_line(message: str) -> str:
    return " ".join(message.split())[:500]
