"""Reduce the scores of each model on each benchmark to metrics, counts and example answers."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Self, TypeAlias, TypeVar

import pandas as pd

from cluster.lazy import LazyCluster
from pipelines.benchmarks import benchmark
from pipelines.benchmarks.human import POOLED, HumanInputs
from pipelines.benchmarks.judges import check_metrics, judge_agreement, metrics_by_judge, without_verdicts
from pipelines.benchmarks.metrics_kernel.repeats import first_repeats
from pipelines.benchmarks.people import parsed_answers, replacement_metrics
from pipelines.benchmarks.records import Metric, Sample, is_person
from pipelines.benchmarks.replies.cleaning import DROPPED
from pipelines.ingest.human_files import load_human_files
from pipelines.plan.context import EntryPlan, SweepContext
from pipelines.plan.run_manifest import ManifestEntry, load_run
from pipelines.plan.stopping.until import Stop
from pipelines.predict.records import TaskCount
from pipelines.ray_data import translate_ray_error
from pipelines.report.entry_frame import EntryRequests, EntryScores, PlannedEntry, asked_rows
from pipelines.report.entry_results import EntryResults, counts_of, examples, model_items, outputs_of
from pipelines.report.judge_tables import compared_verdicts, verdict_metrics
from pipelines.report.metrics_file import TABLES, Measured, MetricSource
from pipelines.report.model import ExampleAnswer, ModelItems
from pipelines.report.pages.items import shown_requests
from pipelines.report.stressed_rows import stressed_rows
from pipelines.report.tables.repeats import variance_rows
from pipelines.report.tables.token_efficiency import Efficiency, measure_efficiency, media_key
from pipelines.storage.store import Store

T = TypeVar("T")

Submit: TypeAlias = Callable[[Callable[[], Any]], Callable[[], Any]]
"""Begins to compute a function, and returns what waits for its result."""


def run_later(function: Callable[[], T]) -> Callable[[], T]:
    """Return the function, so that it runs where its result is needed."""
    return function


def reduce_entry(
    planned: PlannedEntry, people: Sequence[PlannedEntry], out: Store, submit: Submit = run_later
) -> EntryResults:
    """Reduce one entry; `people` are persons' entries on the same benchmark; `submit` may compute a part elsewhere."""
    entry = planned.entry
    own_tokens = None if entry.external else submit(partial(_efficiency, planned, out))
    requests, scores = EntryRequests.read(planned), EntryScores.read(out, entry)
    definition, files = entry.definition, load_human_files(out, entry.benchmark)
    rows = scores.join(requests.columns)
    frame = definition.human.with_labels(asked_rows(rows), files, entry.model)
    judged = metrics_by_judge(frame, requests.samples, definition.reduce, definition.judged_metrics)
    by_judge = {MetricSource(judge=judge): metrics for judge, metrics in judged.items()}
    judge_metrics = [*judge_agreement(frame), *check_metrics(frame)]
    every = without_verdicts(frame)
    metrics = definition.reduce(every, requests.samples) + judge_metrics + _cleaned_replies(every)
    metrics = with_stop(metrics, entry.stop) if entry.stop else metrics
    frame = first_repeats(every)
    verdicts = compared_verdicts(out, entry, frame)
    metrics += verdict_metrics(verdicts)
    if (files or people) and not is_person(entry.model):
        human_frames = {person.entry.model: _frame(person, out)[0] for person in people}
        inputs = HumanInputs(scores=frame, samples=requests.samples, files=files, people=human_frames)
        metrics += definition.human.metrics(inputs)
        metrics += replacement_metrics(frame, definition.human.output_labels(files), entry.model)
    names = _SetNames.of(planned)
    others = _OtherSets(frames=[every])
    if any(in_set.entry.prompts.stress for in_set in planned.other_prompt_sets):
        others.stressed.append(stressed_rows(definition, "", every, requests.samples))
    counted = {*planned.request_ids()} if planned.other_prompt_sets else set()
    for in_set in planned.other_prompt_sets:
        others.add(in_set, scores, names, counted, out)
    lists = definition.item_lists(frame, requests.samples) if definition.item_lists else []
    outputs = outputs_of(out, scores, {*requests.example_texts, *shown_requests(lists)})
    efficiency = own_tokens() if own_tokens else None
    return EntryResults(
        metrics=[
            Measured.of(entry.benchmark, entry.model, metric, source)
            for source, source_metrics in {TABLES: metrics, **by_judge}.items()
            for metric in source_metrics
        ],
        counts=counts_of(entry, rows, out, scores),
        answers=[*examples(entry, rows, requests.example_texts, outputs, names.label), *others.answers],
        judge_failed=int((every["verdict_state"] == "failed").sum()) + others.judge_failed,
        items=[*model_items(entry, lists, outputs, names.label(entry)), *others.items],
        marks=definition.human.annotation_scores(frame, files),
        read_answers=parsed_answers(frame, definition.human.agreement_headings) if is_person(entry.model) else {},
        efficiency=[replace(efficiency, prompt_set=names.label(entry)), *others.efficiency] if efficiency else [],
        prompts=frozenset() if entry.external else frozenset(requests.prompts),
        prompt_sets=names.prompt_sets,
        captioners=names.captioners,
        verdicts=verdicts,
        variance=[*variance_rows(entry.benchmark, entry.model, others.frames)],
        by_prompt_set=others.metrics,
        counts_by_prompt_set=others.counts,
        stressed=others.stressed_rows,
    )


@dataclass(frozen=True, slots=True)
class _SetNames:
    """Names of an entry's sets of prompts and captioners, the tables' first; none where there is one only."""

    prompt_sets: tuple[str, ...]
    captioners: tuple[str, ...]

    @classmethod
    def of(cls, planned: PlannedEntry) -> Self:
        others = [in_set.entry for in_set in planned.other_prompt_sets if not in_set.entry.prompts.stress]
        entries = [planned.entry, *others]
        prompt_sets = tuple(dict.fromkeys(entry.prompt_set for entry in entries))
        captioners = tuple(dict.fromkeys(entry.prompts.captioner_name for entry in entries))
        return cls(*(names if len(names) > 1 else () for names in (prompt_sets, captioners)))

    def label(self, entry: ManifestEntry, setting: str = "") -> str:
        """Return what a page calls a set of prompts; of a `setting` without captions, without their captioner."""
        names = [entry.prompt_set] if self.prompt_sets or entry.prompts.stress else []
        if self.captioners and (not setting or setting in entry.definition.captions.settings):
            names.append(f"captions of {entry.prompts.captioner_name}")
        return ", ".join(names)

    def source(self, entry: ManifestEntry) -> MetricSource:
        return MetricSource(
            prompt_set=entry.prompt_set if entry.prompt_set not in self.prompt_sets[:1] else "",
            captioner=entry.prompts.captioner_name if self.is_other_captioner(entry) else "",
        )

    def is_other_captioner(self, entry: ManifestEntry) -> bool:
        """Return whether a set differs from another one in captions: only prompts that hold them count for it."""
        return entry.prompts.captioner_name in self.captioners[1:]


@dataclass(slots=True)
class _OtherSets:
    """Results of an entry in its other sets of prompts; requests that sets share count in the first alone."""

    frames: list[pd.DataFrame]  # the scored rows of each set but a stress test's, the first one's too
    metrics: list[Measured] = field(default_factory=list)
    counts: list[TaskCount] = field(default_factory=list)
    judge_failed: int = 0
    items: list[ModelItems] = field(default_factory=list)
    answers: list[ExampleAnswer] = field(default_factory=list)
    efficiency: list[Efficiency] = field(default_factory=list)
    stressed: list[pd.DataFrame] = field(default_factory=list)

    @property
    def stressed_rows(self) -> pd.DataFrame | None:
        """The rows that a stress test compares; None without one."""
        return pd.concat(self.stressed, ignore_index=True) if self.stressed else None

    def add(self, in_set: PlannedEntry, scores: EntryScores, names: _SetNames, counted: set[str], out: Store) -> None:
        """Add a set; its requests are added to those `counted` in earlier ones."""
        entry, requests = in_set.entry, EntryRequests.read(in_set)
        definition, rows = entry.definition, without_verdicts(scores.join(requests.columns))
        frame = asked_rows(rows)
        new = rows[~rows["request_id"].isin(counted)]
        if entry.prompts.stress:
            self.stressed.append(stressed_rows(definition, entry.prompts.stress, asked_rows(new), requests.samples))
        else:
            self.frames.append(frame)
        for metric in definition.reduce(frame, requests.samples):
            if metric.setting in definition.captions.settings or not names.is_other_captioner(entry):
                self.metrics.append(Measured.of(entry.benchmark, entry.model, metric, names.source(entry)))
        self.counts += counts_of(entry, new, out, scores)
        self.judge_failed += int((new["verdict_state"] == "failed").sum())
        lists = definition.item_lists(frame, requests.samples) if definition.item_lists else []
        lists = [
            replace(items, items=[item for item in items.items if item.request_id not in counted]) for items in lists
        ]
        texts = {name: text for name, text in requests.example_texts.items() if name not in counted}
        outputs = outputs_of(out, scores, {*texts, *shown_requests(lists)})
        self.items += model_items(entry, lists, outputs, names.label(entry))
        self.answers += examples(entry, rows, texts, outputs, names.label)
        efficiency = None if entry.external else _efficiency(in_set, out, counted)
        self.efficiency += [replace(efficiency, prompt_set=names.label(entry))] if efficiency else []
        counted |= {*new["request_id"]}


def reduce_people(group: Sequence[PlannedEntry], out: Store) -> EntryResults:
    """Return the joint results of the people of one benchmark."""
    first = group[0].entry
    frames, samples = _frames(group, out)
    definition = first.definition
    metrics = definition.human.pooled(
        {name: without_verdicts(frame) for name, frame in frames.items()}, samples, definition.metrics
    )
    rows = [Measured.of(first.benchmark, POOLED, metric) for metric in metrics]
    return EntryResults(metrics=rows, counts=[], answers=[], judge_failed=0)


def reduce_ensemble(group: Sequence[PlannedEntry], out: Store) -> EntryResults:
    """Return the joint results of the models of one benchmark; all must have answered the same data."""
    first = group[0].entry
    frames, samples = _frames(group, out)
    ensemble = first.definition.ensemble
    metrics = ensemble.metrics(frames, samples) if ensemble else {}
    rows = [Measured.of(first.benchmark, name, metric) for name, named in metrics.items() for metric in named]
    replaced = tuple(frames) if rows and ensemble and ensemble.replaces_members else ()
    return EntryResults(metrics=rows, counts=[], answers=[], judge_failed=0, replaced=replaced)


def with_stop(metrics: Sequence[Metric], stop: Stop) -> list[Metric]:
    """Return the metrics, the headlines with the intervals of the whole set, which hold whenever a run stops."""
    ends = {(number.metric, number.task, number.setting): number for number in stop.numbers}
    return [
        replace(metric, set_ci_low=end.low, set_ci_high=end.high)
        if (end := ends.get((metric.metric, metric.task, metric.setting))) and not (metric.subset or metric.category)
        else metric
        for metric in metrics
    ]


def _cleaned_replies(frame: pd.DataFrame) -> list[Metric]:
    """Count the replies from which something was removed before they were read, by what it was."""
    answered = frame[frame["status"] == "ok"]
    metrics: list[Metric] = []
    for (task, setting), rows in answered.groupby(["task", "setting"], sort=True):
        dropped = Counter(name for flags in rows["flags"] for name in flags if name in DROPPED)
        metrics += [
            Metric(
                task=str(task),
                setting=str(setting),
                category=name,
                metric="cleaned_replies",
                value=float(count),
                unit="count",
                n=len(rows),
            )
            for name, count in sorted(dropped.items())
        ]
    return metrics


def _frames(group: Sequence[PlannedEntry], out: Store) -> tuple[dict[str, pd.DataFrame], dict[str, Sample]]:
    frames: dict[str, pd.DataFrame] = {}
    samples: dict[str, Sample] = {}
    for planned in group:
        frames[planned.entry.model], entry_samples = _frame(planned, out)
        samples |= entry_samples
    return frames, samples


def _frame(planned: PlannedEntry, out: Store) -> tuple[pd.DataFrame, dict[str, Sample]]:
    requests = EntryRequests.read(planned)
    return asked_rows(EntryScores.read(out, planned.entry).join(requests.columns)), requests.samples


def _efficiency(planned: PlannedEntry, out: Store, counted: Collection[str] = ()) -> Efficiency | None:
    """Measure the requests of an entry that are not in `counted`."""
    entry = planned.entry
    return measure_efficiency(entry.benchmark, entry.model, out, partial(_media_keys, planned.plans, counted))


def _media_keys(plans: Sequence[EntryPlan], counted: Collection[str]) -> Iterator[dict[str, str]]:
    """Yield the key of the media of each request that is not in `counted`, by id, a part of a plan at a time."""
    for plan in plans:
        for part in plan.plan.parts:
            keys = {plan.entry.target.request_id(row): media_key(row.messages) for _, row in plan.plan.iter_part(part)}
            yield {name: key for name, key in keys.items() if name not in counted}


MAX_ROWS_HERE = 20_000  # reduced in this process by a run on one machine


def reduce_all(context: SweepContext, entries: Sequence[ManifestEntry], cluster: LazyCluster) -> list[EntryResults]:
    """Reduce every entry, and the ensembles: here if they are small, else each in a task of its own on the cluster."""
    planned = [_planned(context, entry) for entry in entries]
    names = sorted({entry.benchmark for entry in entries})
    groups = [[entry for entry in planned if entry.entry.benchmark == name] for name in names]
    people = _people(context, names)
    joint = [
        [planned for planned in group if ensemble.is_member(planned.entry.model)]
        for group in groups
        if (ensemble := group[0].entry.definition.ensemble)
    ]
    in_sets = [in_set for entry in planned for in_set in (entry, *entry.other_prompt_sets)]
    rows = sum(plan.plan.rows for in_set in in_sets for plan in in_set.plans)
    persons = [
        [person for person in group if person.entry.model not in benchmark(name).human.pseudo_people]
        for name, group in people.items()
    ]
    is_here = cluster.is_embedded and rows <= MAX_ROWS_HERE
    submit = run_later if is_here else _submit
    tasks = [partial(reduce_entry, entry, people[entry.entry.benchmark], context.out, submit) for entry in planned]
    tasks += [partial(reduce_ensemble, group, context.out) for group in joint if len(group) > 1]
    tasks += [partial(reduce_people, group, context.out) for group in persons if len(group) > 1]
    if not is_here:
        cluster.connect()
    results = [result() for result in [submit(task) for task in tasks]]
    return sorted(results, key=lambda of: any(is_person(row.model) for row in of.metrics))  # people stand together


def _planned(context: SweepContext, entry: ManifestEntry) -> PlannedEntry:
    first, *further_sets = [PlannedEntry(in_set, context.entry_plans(in_set)) for in_set in entry.by_prompt_set()]
    return PlannedEntry(entry, first.plans, further_sets)


def _submit(function: Callable[[], T]) -> Callable[[], T]:
    """Run a function on the cluster, in a task of its own; a task that waits for another leaves it its processor."""
    import ray

    result = ray.remote(num_cpus=0.5)(_call).remote(function)

    def wait() -> T:
        try:
            value: T = ray.get(result)
        except ray.exceptions.RayError as error:
            raise translate_ray_error(error) from error
        return value

    return wait


def _call(function: Callable[[], T]) -> T:
    return function()


def _people(context: SweepContext, names: Sequence[str]) -> dict[str, list[PlannedEntry]]:
    """Return the people of an output by benchmark, of whom a report may leave out some."""
    people: dict[str, list[PlannedEntry]] = {name: [] for name in names}
    for entry in load_run(context.out).entries:
        if entry.benchmark in people and is_person(entry.model):
            people[entry.benchmark].append(PlannedEntry(entry, context.entry_plans(entry)))
    return people
