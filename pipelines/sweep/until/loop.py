"""Ask clusters in a seeded order until the numbers are exact enough; what is left is recorded as stopped.

A run looks after fixed numbers of clusters, and each look depends on the answers to those clusters alone. A run that
is killed and started again finds them answered, decides the same at each look, and stops at the same place.
"""

import logging
import math
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from pipelines.benchmarks.judges import without_verdicts
from pipelines.benchmarks.metrics_kernel.definitions import Estimate, recorded_estimates
from pipelines.errors import UsageError
from pipelines.json_records import dump_checked
from pipelines.metrics.intervals import FloatArray, Interval, ratio
from pipelines.metrics.sequential import ALPHA, exact_interval, log_evidence_of_order, sequential_interval
from pipelines.plan.plan_store import iter_selected_samples
from pipelines.plan.planner import plan_sweep
from pipelines.plan.records import ModelPlan
from pipelines.plan.run_manifest import PATH, ManifestEntry, RunManifest
from pipelines.plan.run_spec import RunSpec
from pipelines.plan.selection import TaskSetting, selected_groups
from pipelines.plan.stopping.until import STOPPED, Cluster, Stop, StoppedNumber, Until, looks, ordered_clusters
from pipelines.plan.stored_plan import PlanReader
from pipelines.plan.units import WorkUnit
from pipelines.predict.clip_sharing import clip_sharing
from pipelines.predict.loader import excluded_row
from pipelines.predict.records import KeptReplicas, Receipt
from pipelines.predict.stage import predict
from pipelines.predict.status import StatusWriter
from pipelines.report.entry_frame import EntryRequests, EntryScores, PlannedEntry
from pipelines.schemas import PREDICTIONS, prediction_table
from pipelines.storage.lock import check_lock
from pipelines.storage.parts import iter_parts, part_folder, score_path, to_parquet
from pipelines.storage.store import Store
from pipelines.sweep.evaluate import Sweep, score_entries
from pipelines.sweep.record import sweep_entries

if TYPE_CHECKING:
    import pandas as pd


log = logging.getLogger(__name__)


DEFAULT_REACH = 0.02  # for which the bets of intervals are made where a ranking ends the run
Group: TypeAlias = tuple[str, str]
_DEVIATIONS: Final = 2.25
"""Standard deviations to either side of an exact interval at the look for which most of the error is spent."""
_ERROR: Final = 0.8 * ALPHA  # the error of exact intervals at all looks together: they hold more often than stated
_EARLY: Final = 0.95  # share of the error that is spent until then


@dataclass(frozen=True, slots=True, eq=False)
class Number:
    """One headline as sums by cluster, in the order in which clusters were asked."""

    metric: str
    totals: FloatArray
    sizes: FloatArray
    population: int  # clusters that the number has in the whole plan
    largest: float  # the most rows of one cluster that count
    counts: tuple[int, ...] = ()  # its clusters at each look so far
    clusters: int = 0  # of the whole benchmark

    def interval(self, reach: float) -> Interval:
        """Return the interval of the value of all clusters."""
        is_binary = self.counts and self.largest == 1 and np.isin(self.totals, (0.0, 1.0)).all()
        if not is_binary or len(self.totals) >= self.population:
            return sequential_interval(self.totals, self.sizes, self.population, self.largest, reach)
        hits, counts = (
            [int(row_values[:count].sum()) for count in self.counts] for row_values in (self.totals, self.sizes)
        )
        population = self.population - len(self.sizes) + counts[-1]  # failed clusters are outside of it too
        return exact_interval(hits, counts, population, spent(self.clusters, population, reach)[: len(counts)])


def spent(clusters: int, population: int, reach: float) -> list[float]:
    """Return the chance of an error that is spent by each look but the last: most when half right is exact enough."""
    times = [size / (clusters - size) for size in looks(clusters)[:-1]]  # variance falls with their inverse
    needed = (_DEVIATIONS / reach) ** 2 / 4 / population
    target = next((time for time in times if time >= needed), times[-1])
    parts = [time / target for time in times]
    return [_ERROR * (_EARLY * min(1.0, part**1.5) + (1 - _EARLY) * min(1.0, max(0.0, part - 1))) for part in parts]


def headlines(
    entry: ManifestEntry, requests: EntryRequests, out: Store, clusters: Sequence[Cluster], reached: int
) -> dict[Group, Number]:
    """Return a number for each task and setting that has one: the first of the main metrics that is a mean of rows.

    It is over the first `reached` of all clusters.
    """
    prefix = clusters[:reached]
    ids = {sample_id for cluster in prefix for sample_id in cluster.sample_ids}
    every = without_verdicts(EntryScores.read(out, entry).join(requests.columns))
    frame = every[every["sample_id"].isin(ids)].reset_index(drop=True)
    samples = {sample_id: requests.samples[sample_id] for sample_id in ids}
    with recorded_estimates() as record:
        entry.definition.reduce(frame, samples)
    names = entry.definition.main_metrics
    means = [estimate for estimate in record if estimate.metric.metric in names and is_mean_of_rows(estimate)]
    by_group: dict[Group, dict[str, list[Estimate]]] = {}
    for estimate in sorted(means, key=lambda mean: names.index(mean.metric.metric)):
        group = (estimate.metric.task, estimate.metric.setting)
        by_group.setdefault(group, {}).setdefault(estimate.metric.metric, []).append(estimate)
    firsts = {group: next(iter(group_totals.items())) for group, group_totals in by_group.items()}
    numbers = {
        group: _number(metric, estimates, _planned_rows(entry, every, group), prefix, len(clusters))
        for group, (metric, estimates) in firsts.items()
    }
    return {group: number for group, number in numbers.items() if number}


def is_mean_of_rows(estimate: Estimate) -> bool:
    """Return whether a number is the mean over rows of its whole group, with scores from 0 to 1."""
    metric, terms = estimate.metric, estimate.terms
    if metric.subset or metric.category or len(terms) != 1 or terms[0].statistic is not ratio:
        return False
    columns = terms[0].columns
    return columns.shape[1] == 2 and bool(((columns >= 0) & (columns <= 1)).all())


def _planned_rows(entry: ManifestEntry, frame: "pd.DataFrame", group: Group) -> Counter[str]:
    """Count the planned rows of a number by cluster."""
    tasks = entry.definition.derived_tasks.get(group[0], (group[0],))
    rows = frame[frame["task"].isin(tasks) & (frame["setting"] == group[1])]
    return Counter(np.where(rows["cluster"] != "", rows["cluster"], rows["sample_id"]).tolist())


def _number(
    metric: str, estimates: Sequence[Estimate], planned: Counter[str], prefix: Sequence[Cluster], clusters: int
) -> Number | None:
    names = [cluster.name for cluster in prefix if planned[cluster.name]]
    index = {name: number for number, name in enumerate(names)}
    sums = np.zeros((len(names), 2))
    for estimate in estimates:  # one a repeat
        (term,) = estimate.terms
        rows = [index[str(name)] for name in term.clusters if str(name) in index]
        if len(rows) < len(term.clusters):
            return None
        np.add.at(sums, rows, term.columns)
    # How many of a cluster's planned rows count, such as one a question, is the same in clusters not asked.
    rows_of = np.array([planned[name] for name in names], dtype=np.float64)
    counting = float((sums[:, 1] / rows_of).max(initial=0.0))
    if not counting:
        return None
    largest = max(counting * max(planned.values()), float(sums[:, 1].max()))
    counts = np.cumsum([cluster.name in index for cluster in prefix])
    at_looks = tuple(int(counts[size - 1]) for size in looks(clusters) if size <= len(prefix))
    return Number(metric, sums[:, 0], sums[:, 1], len(planned), largest, at_looks, clusters)


def is_exact_enough(until: Until, by_model: Mapping[str, Mapping[Group, Number]]) -> bool:
    """Return whether the numbers of every model allow to stop; a model without one does not."""
    if not all(by_model.values()):
        return False
    if until.reach is None:
        return _is_ranked([*by_model.values()])
    intervals = (number.interval(until.reach) for numbers in by_model.values() for number in numbers.values())
    return all(interval.high - interval.low <= 2 * until.reach for interval in intervals)


def _is_ranked(models: Sequence[Mapping[Group, Number]]) -> bool:
    """Return whether of each two models one is better, with 95% for both orders of all pairs (Bonferroni)."""
    needed = math.log(2 * math.comb(len(models), 2) / ALPHA) if len(models) > 1 else 0.0
    for first, second in combinations(models, 2):
        for group in first.keys() & second.keys():
            a, b = first[group], second[group]
            if len(a.totals) < a.population and not any(
                log_evidence_of_order(x.totals, y.totals, a.population, max(a.largest, b.largest)) >= needed
                for x, y in ((a, b), (b, a))
            ):
                return False
    return True


def stopped_numbers(numbers: Mapping[Group, Number], until: Until) -> tuple[StoppedNumber, ...]:
    """Return the numbers of a model with their intervals, as `run.json` holds them."""
    ends = {group: number.interval(until.reach or DEFAULT_REACH) for group, number in numbers.items()}
    return tuple(
        StoppedNumber(task=group[0], setting=group[1], metric=numbers[group].metric, low=end.low, high=end.high)
        for group, end in ends.items()
    )


T = TypeVar("T")

_REASON = ["excluded", STOPPED]


@dataclass(slots=True)
class _BenchmarkRun:
    """The clusters of one benchmark, and how far they were asked."""

    name: str
    entries: list[ManifestEntry]
    clusters: list[Cluster]
    requests: dict[str, EntryRequests] = field(default_factory=dict)  # by model
    reached: int = 0
    numbers: dict[str, dict[Group, Number]] = field(default_factory=dict)  # by model, of the last look
    is_over: bool = False

    def leave_out(self, models: Container[str]) -> None:
        """Decide without these models from now on."""
        self.entries = [entry for entry in self.entries if entry.model not in models]
        self.numbers = _without(models, self.numbers)

    @property
    def sample_ids(self) -> frozenset[str]:
        """The samples asked so far."""
        return frozenset(name for cluster in self.clusters[: self.reached] for name in cluster.sample_ids)


def predict_until(
    sweep: Sweep, run: RunManifest, plans: Mapping[str, Sequence[ModelPlan]], status: StatusWriter
) -> tuple[RunManifest, dict[str, str]]:
    """Predict and score until all numbers are exact enough; return `run.json`, and why models are unavailable, by name.

    A model that becomes unavailable is left out from then on: the others stop without it, and what it was not asked
    stays to be asked. Without a judge there is no next look: what was not asked stays to be asked, and why it is
    unavailable is returned too. Raises UsageError where a benchmark has one cluster only.
    """
    context = sweep.context
    until = Until.parse(context.spec.until or "")
    runs = _benchmark_runs(sweep, plans)
    unavailable: dict[str, str] = {}
    with clip_sharing(sweep.cluster, plans, context.spec.models) as clips, closing(KeptReplicas(clips)) as kept:
        while open_runs := [each for each in runs if not each.is_over]:
            for each in open_runs:
                each.reached = next(size for size in looks(len(each.clusters)) if size > each.reached)
            within = {each.name: each.sample_ids for each in runs}
            planned = _without(unavailable, plan_sweep(context, within=within))
            unavailable |= predict(context, sweep.cluster, planned, status, sweep.costs, kept=kept)
            if unavailable.keys() >= plans.keys():
                return run, unavailable
            for each in runs:
                each.leave_out(unavailable)
            if context.spec.judges or context.spec.scorers:
                kept.close()  # they may need its GPUs, as the benchmarks' own scorers, which then score at the end
            scored = [entry for each in open_runs for entry in each.entries]
            warnings, gone = score_entries(sweep, scored, defers_defaults=kept.actor is not None)
            for warning in warnings:
                log.warning("%s", warning)
            if gone:
                return run, unavailable | dict(zip(gone, gone, strict=True))
            for each in open_runs:
                _look(sweep, each, until)
    stops = {(name, model): stop for each in runs for (name, model), stop in _stops(each, until, context.spec.seed)}
    entries = [_with_stop(e, stops.get((e.benchmark, e.model)), context.spec) for e in run.entries]
    run = replace(run, entries=tuple(entries))
    context.out.put(PATH, dump_checked(run.to_dict()))
    names = {each.name for each in runs if each.reached < len(each.clusters)}
    _record_stopped(sweep, names, _without(unavailable, plan_sweep(context)) if names else {}, status)
    return run, unavailable


def _without(models: Container[str], plans: Mapping[str, T]) -> dict[str, T]:
    return {model: model_plans for model, model_plans in plans.items() if model not in models}


def _benchmark_runs(sweep: Sweep, plans: Mapping[str, Sequence[ModelPlan]]) -> list[_BenchmarkRun]:
    context = sweep.context
    spec, targets = context.spec, [plan.target for model_plans in plans.values() for plan in model_plans]
    entries = sweep_entries(spec, targets)
    runs = []
    for name in dict.fromkeys(entry.benchmark for entry in entries):
        samples = iter_selected_samples(context.datasets.open(spec.data, name), spec.selection)
        clusters = ordered_clusters(samples, name, spec.seed)
        if len(clusters) < 2:
            raise UsageError(
                f"--until: the samples of {name} share one clip, picture or scene, of which no interval can be made; "
                "leave --until out, or select more samples"
            )
        runs.append(_BenchmarkRun(name, [entry for entry in entries if entry.benchmark == name], clusters))
    return runs


def _look(sweep: Sweep, each: _BenchmarkRun, until: Until) -> None:
    """Read the scores of what was asked, and decide whether the benchmark is over."""
    for entry in each.entries:
        if entry.model not in each.requests:
            each.requests[entry.model] = EntryRequests.read(PlannedEntry(entry, sweep.context.entry_plans(entry)))
        each.numbers[entry.model] = headlines(
            entry, each.requests[entry.model], sweep.context.out, each.clusters, each.reached
        )
    each.is_over = each.reached == len(each.clusters) or is_exact_enough(until, each.numbers)
    log.info("%s: looked after %d of %d clusters", each.name, each.reached, len(each.clusters))


def _stops(each: _BenchmarkRun, until: Until, seed: int) -> Iterator[tuple[tuple[str, str], Stop]]:
    for model, numbers in each.numbers.items():
        reached, clusters = each.reached, len(each.clusters)
        stopped = stopped_numbers(numbers, until) if reached < clusters else ()
        stop = Stop(until=str(until), seed=seed, reached=reached, clusters=clusters, numbers=stopped)
        yield (each.name, model), stop


def _with_stop(entry: ManifestEntry, stop: Stop | None, spec: RunSpec) -> ManifestEntry:
    """Return an entry with the stop of a sweep in its groups, and the numbers of other groups that stopped before."""
    if stop is None or (entry.stop and stop.reached == stop.clusters):
        return entry
    others = {*entry.prompts.task_settings}.difference(selected_groups(entry.definition, spec.tasks, spec.settings))
    numbers = [number for number in stop.numbers if not others.intersection(_groups_behind(entry, number))]
    return replace(entry, stop=replace(stop, numbers=(*numbers, *(entry.stop.numbers if entry.stop else ()))))


def _groups_behind(entry: ManifestEntry, number: StoppedNumber) -> Iterator[TaskSetting]:
    tasks = entry.definition.derived_tasks.get(number.task, (number.task,))
    return (TaskSetting(task, number.setting) for task in tasks)


def _record_stopped(
    sweep: Sweep, names: Container[str], planned: Mapping[str, Sequence[ModelPlan]], status: StatusWriter
) -> None:
    """Write a row for each request of these benchmarks that was not asked: excluded, with the reason."""
    context = sweep.context
    reader = PlanReader(context.out)
    for model, plans in planned.items():
        for plan in plans:
            for unit in plan.units if plan.prompts.benchmark_name in names else ():
                if not unit.retried:
                    status.record(model, _write_stopped(sweep, plan, unit, reader))


def _write_stopped(sweep: Sweep, plan: ModelPlan, unit: WorkUnit, reader: PlanReader) -> Receipt:
    rows = [
        excluded_row(plan.target.columns(row), STOPPED)
        for media_slice in unit.slices
        for row in reader.rows(media_slice.plan_part, media_slice.rows)
    ]
    table = prediction_table(rows).sort_by("request_id")
    check_lock(sweep.context.out, sweep.context.lock_token)
    sweep.context.out.put(unit.part, to_parquet(table, PREDICTIONS))
    counts = Counter((row["task"], row["setting"], row["status"]) for row in rows)
    return Receipt(part=unit.part, counts=counts)


def forget_stopped(sweep: Sweep) -> RunManifest:
    """Delete rows that earlier runs did not ask and this sweep may; return `run.json` without their numbers."""
    spec = sweep.context.spec
    entries = []
    for entry in sweep.earlier.entries:
        stop = entry.stop
        if stop and entry.model in spec.models and entry.benchmark in spec.benchmarks:
            groups = {*selected_groups(entry.definition, spec.tasks, spec.settings)}
            numbers = tuple(number for number in stop.numbers if groups.isdisjoint(_groups_behind(entry, number)))
            stop = replace(stop, numbers=numbers) if _has_stopped_rows(sweep, entry) else None
        entries.append(replace(entry, stop=stop))
    return replace(sweep.earlier, entries=tuple(entries))


def _has_stopped_rows(sweep: Sweep, entry: ManifestEntry) -> bool:
    """Delete an entry's rows of requests that were not asked, in the sweep's groups; return whether others are left."""
    context = sweep.context
    spec, out, is_left = context.spec, context.out, False
    groups = {(group.task, group.setting) for group in selected_groups(entry.definition, spec.tasks, spec.settings)}
    for path, table in iter_parts(out, part_folder("predictions", entry.benchmark, entry.model)):
        columns = (table[name].to_pylist() for name in ("status", "error", "task", "setting"))
        stopped = [(task, setting) in groups for *why, task, setting in zip(*columns, strict=True) if why == _REASON]
        if not stopped:
            continue
        is_left |= not all(stopped)  # a part of stopped rows holds no others
        if any(stopped):
            check_lock(out, context.lock_token)
            out.delete(score_path(path))
            if all(stopped):
                out.delete(path)
            else:
                out.put(path, to_parquet(table.filter(pa.array([not gone for gone in stopped])), PREDICTIONS))
    return is_left
