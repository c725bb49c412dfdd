"""Reduce the scores of one model on one benchmark to metrics, counts and example answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from pipelines.benchmarks import benchmark
from pipelines.benchmarks.human import HumanInputs, is_person
from pipelines.benchmarks.item_lists import ItemList
from pipelines.benchmarks.judges import metrics_by_judge, without_verdicts
from pipelines.benchmarks.records import Metric, Sample
from pipelines.ingest.human_files import load_human_files
from pipelines.plan.context import EntryPlan
from pipelines.plan.run_manifest import ManifestEntry
from pipelines.predict.records import CellCount
from pipelines.report.entry_frame import EntryRequests, EntryScores, PlannedEntry
from pipelines.report.model import ExampleAnswer, ModelItems
from pipelines.report.pages.items import shown_requests
from pipelines.report.token_efficiency import Efficiency, measure_efficiency, media_key
from pipelines.storage.parts import read_part
from pipelines.storage.store import Store

if TYPE_CHECKING:
    import pandas as pd


T = TypeVar("T")

Submit: TypeAlias = Callable[[Callable[[], Any]], Callable[[], Any]]
"""Begins to compute a function, and returns what waits for its result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryResults:
    """The results of one model on one benchmark."""

    metrics: list[dict[str, Any]]  # rows of `metrics.json`, with `note` and `plain` (see `_metric_row`)
    counts: list[CellCount]
    answers: list[ExampleAnswer]
    judge_failed: int  # rows without a verdict because of the judge's engine
    items: Sequence[ModelItems] = ()  # behind the tables' numbers
    marks: Mapping[str, float] = field(default_factory=dict)  # numbers of single rows for the tables of human files
    replaced: tuple[str, ...] = ()  # models whose numbers tables and figures leave out, because these stand for them
    efficiency: Efficiency | None = None  # None if no answer has token counts
    prompts: frozenset[tuple[str, str, str]] = frozenset()  # task, setting and version of the prompts
    prompt_sets: tuple[str, ...] = ()  # names of the sets of prompts that `by_prompt_set` compares, if several
    by_prompt_set: Sequence[Mapping[str, Any]] = ()  # metrics in all sets but the first, which `metrics` are of
    counts_by_prompt_set: Sequence[CellCount] = ()  # of the requests that only these sets have


def run_later(function: Callable[[], T]) -> Callable[[], T]:
    """Return the function, so that it runs where its result is needed."""
    return function


def reduce_entry(
    planned: PlannedEntry, people: Sequence[PlannedEntry], out_uri: str, submit: Submit = run_later
) -> EntryResults:
    """Reduce one entry; `people` are persons' entries on the same benchmark; `submit` may compute a part elsewhere."""
    out, entry = Store(out_uri), planned.entry
    efficiency = None if entry.external else submit(partial(_efficiency, planned, out_uri))
    requests, scores = EntryRequests.read(planned), EntryScores.read(out, entry)
    definition, files = benchmark(entry.benchmark), load_human_files(out, entry.benchmark)
    frame = definition.human.with_labels(scores.join(requests.columns), files, entry.model)
    by_judge = metrics_by_judge(frame, requests.samples, definition.reporter, definition.judged_metrics)
    frame = without_verdicts(frame)
    metrics = definition.reporter.reduce(frame, requests.samples) + by_judge
    if (files or people) and not is_person(entry.model):
        human_frames = {person.entry.model: _frame(person, out)[0] for person in people}
        inputs = HumanInputs(scores=frame, samples=requests.samples, files=files, people=human_frames)
        metrics += definition.human.metrics(inputs)
    sets = _PromptSetResults.of(planned, scores)
    lists = definition.item_lists(frame, requests.samples) if definition.item_lists else []
    shown = shown_requests(lists)
    outputs = _outputs(out, scores, {*requests.example_texts, *shown})
    return EntryResults(
        metrics=[_metric_row(entry, metric) for metric in metrics],
        counts=_counts(entry, frame),
        answers=_examples(entry, frame, requests.example_texts, outputs),
        judge_failed=int((frame["verdict_state"] == "failed").sum()) + sets.judge_failed,
        items=_model_items(entry.model, lists, outputs),
        marks=definition.human.annotation_scores(frame, files),
        efficiency=efficiency() if efficiency else None,
        prompts=frozenset() if entry.external else frozenset(requests.prompts),
        prompt_sets=tuple(each.prompt_set for each in entry.by_prompt_set()) if sets.metrics else (),
        by_prompt_set=sets.metrics,
        counts_by_prompt_set=sets.counts,
    )


def prompt_set_subset(prompt_set: str, subset: str = "") -> str:
    """Return the subset under which `metrics.json` has a metric in another set of prompts than the tables'."""
    return f"prompt:{prompt_set}" if not subset else f"{subset}, prompt:{prompt_set}"


@dataclass(slots=True)
class _PromptSetResults:
    """Results of an entry in its other sets of prompts; requests that sets share count in the first alone."""

    metrics: list[dict[str, Any]] = field(default_factory=list)
    counts: list[CellCount] = field(default_factory=list)
    judge_failed: int = 0

    @classmethod
    def of(cls, planned: PlannedEntry, scores: EntryScores) -> _PromptSetResults:
        results, counted = cls(), {*planned.request_ids()} if planned.in_other_words else set()
        for in_set in planned.in_other_words:
            entry, requests = in_set.entry, EntryRequests.read(in_set)
            frame = without_verdicts(scores.join(requests.columns))
            for metric in benchmark(entry.benchmark).reporter.reduce(frame, requests.samples):
                subset = prompt_set_subset(entry.prompt_set, metric.subset)
                results.metrics.append(_metric_row(entry, replace(metric, subset=subset)))
            new = frame[~frame["request_id"].isin(counted)]
            results.counts += _counts(entry, new)
            results.judge_failed += int((new["verdict_state"] == "failed").sum())
            counted |= {*new["request_id"]}
        return results


def reduce_ensemble(group: Sequence[PlannedEntry], out_uri: str) -> EntryResults:
    """Return the joint results of the models of one benchmark; all must have answered the same data."""
    out, first = Store(out_uri), group[0].entry
    frames: dict[str, pd.DataFrame] = {}
    samples: dict[str, Sample] = {}
    for planned in group:
        frames[planned.entry.model], of_entry = _frame(planned, out)
        samples |= of_entry
    ensemble = benchmark(first.benchmark).ensemble
    metrics = ensemble(frames, samples) if ensemble else {}
    rows = [{**_metric_row(first, metric), "model": name} for name, named in metrics.items() for metric in named]
    replaced = tuple(frames) if rows and benchmark(first.benchmark).ensemble_replaces_members else ()
    return EntryResults(metrics=rows, counts=[], answers=[], judge_failed=0, replaced=replaced)


def _frame(planned: PlannedEntry, out: Store) -> tuple[pd.DataFrame, dict[str, Sample]]:
    requests = EntryRequests.read(planned)
    return EntryScores.read(out, planned.entry).join(requests.columns), requests.samples


def _efficiency(planned: PlannedEntry, out_uri: str) -> Efficiency | None:
    entry, request_ids = planned.entry, list(planned.request_ids())
    media_keys = partial(_media_keys, planned.plans)
    return measure_efficiency(entry.benchmark, entry.model, Store(out_uri), request_ids, media_keys)


def _media_keys(plans: Sequence[EntryPlan]) -> dict[str, str]:
    """Return the key of each request's media."""
    return {plan.entry.builder.request_id(row): media_key(row.messages) for plan in plans for row in plan.plan}


def _outputs(out: Store, scores: EntryScores, request_ids: Collection[str]) -> dict[str, dict[str, Any]]:
    """Return output and error of some requests by id."""
    outputs = {}
    for path in sorted(scores.prediction_parts(list(request_ids))):
        for row in read_part(out, path, ["request_id", "output", "error"]).to_pylist():
            if row["request_id"] in request_ids:
                outputs[row["request_id"]] = row
    return outputs


def _model_items(model: str, lists: Sequence[ItemList], outputs: Mapping[str, Mapping[str, Any]]) -> list[ModelItems]:
    """Return the lists of a model, each with the outputs that the page shows."""
    return [
        ModelItems(
            model=model,
            items=items,
            outputs={name: str(outputs[name]["output"] or "") for name in shown_requests([items]) if name in outputs},
        )
        for items in lists
    ]


def _metric_row(entry: ManifestEntry, metric: Metric) -> dict[str, Any]:
    """Return a row of `metrics.json`; `plain` numbers (differences, lengths, scores) are never printed as percent."""
    unit = metric.unit or "fraction"
    row = {"benchmark": entry.benchmark, "model": entry.model, **asdict(metric), "unit": unit}
    return {**row, "plain": metric.unit not in ("fraction", "count")}


def _counts(entry: ManifestEntry, frame: pd.DataFrame) -> list[CellCount]:
    """Count by task and setting; requests that an imported predictions file does not answer do not count."""
    counts = []
    counted = frame[frame["status"] != "missing"] if entry.external else frame
    for (task, setting), rows in counted.groupby(["task", "setting"], sort=False):
        by_status = Counter(rows["status"])
        counts.append(
            CellCount(
                benchmark=entry.benchmark,
                model=entry.model,
                task=str(task),
                setting=str(setting),
                requests=len(rows),
                ok=by_status["ok"],
                error=by_status["error"],
                excluded=by_status["excluded"],
                missing=by_status["missing"],
            )
        )
    return counts


def _examples(
    entry: ManifestEntry, frame: pd.DataFrame, words: Mapping[str, str], outputs: Mapping[str, Mapping[str, Any]]
) -> list[ExampleAnswer]:
    chosen = frame[frame["request_id"].isin(list(words))]
    rows = {row["request_id"]: {str(k): v for k, v in row.items()} for row in chosen.to_dict("records")}
    return [
        _example(entry, rows[request_id], outputs[request_id], text)
        for request_id, text in words.items()
        if request_id in outputs
    ]


def _example(entry: ManifestEntry, row: Mapping[str, Any], raw: Mapping[str, Any], text: str) -> ExampleAnswer:
    from typing import Literal

    import pandas as pd

    right = next((row[name] for name in ("correct", "accepted") if name in row and not pd.isna(row[name])), None)
    verdict: Literal["right", "wrong", "unscored", "error", "excluded"] = "unscored"
    if row["status"] != "ok":
        verdict = "error" if row["status"] == "error" else "excluded"
    elif right is not None:
        verdict = "right" if right else "wrong"
    return ExampleAnswer(
        benchmark=entry.benchmark,
        model=entry.model,
        task=row["task"],
        setting=row["setting"],
        sample_id=row["sample_id"],
        variant=row["variant"],
        question=text,
        output=raw["output"],
        read_as=row["answer"],
        verdict=verdict,
        note=raw["error"] or f"rule: {row['rule']}",
    )
