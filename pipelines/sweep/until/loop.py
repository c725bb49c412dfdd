"""Ask clusters in a seeded order until the numbers are exact enough; what is left is recorded as stopped.

A run looks after fixed numbers of clusters, and each look depends on the answers to those clusters alone. A run that
is killed and started again finds them answered, decides the same at each look, and stops at the same place.
"""

import logging
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TypeVar

import pyarrow as pa

from pipelines.errors import UsageError
from pipelines.json_records import dump_checked
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
from pipelines.report.entry_frame import EntryRequests, PlannedEntry
from pipelines.schemas import PREDICTIONS, prediction_table
from pipelines.storage.lock_owner import check_lock
from pipelines.storage.parts import iter_parts, part_folder, score_path, to_parquet
from pipelines.sweep.evaluate import score_entries
from pipelines.sweep.record import sweep_entries
from pipelines.sweep.session import Sweep
from pipelines.sweep.until.numbers import Group, Number, headlines, is_exact_enough, stopped_numbers

log = logging.getLogger(__name__)

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
