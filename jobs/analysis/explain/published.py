"""A run against a paper's number: of the paper there are no rows, so what our own rows could explain is listed."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Final

import pandas as pd

from jobs.analysis.explain.create import ExplainedNumber, Selection
from jobs.analysis.explain.requests import OURS, READINGS, Key, Side, keys_of, other_readings, read_entry
from jobs.analysis.explain.sides import OutputSide
from jobs.analysis.explain.split import STAGES, Explanation, Stage, StageShare
from pipelines.benchmarks import benchmark
from pipelines.benchmarks.records import RIGHT
from pipelines.errors import UsageError
from pipelines.plan.plan_store import PlanStore
from pipelines.plan.run_manifest import ManifestEntry, RunManifest
from pipelines.plan.selection import check_names
from pipelines.report.metrics_file import MetricKey
from pipelines.report.model import ReproductionResult
from pipelines.report.reproduction import load_reproduction
from pipelines.storage.parts import list_parts, part_folder
from pipelines.storage.store import Store

MAX_BYTES: Final = 32 << 20  # predictions of an entry that a report reads again: some 100,000 rows of short answers
_NO_ROWS: Final = "a paper's rows are not published: all that its number differs by is here"


@dataclass(frozen=True, slots=True)
class Possibility:
    """What a number would be if a stage had come out otherwise in some of our own rows."""

    stage: Stage
    rows: tuple[Key, ...]
    text: str


def possibilities(side: Side, key: MetricKey, readings: Sequence[str] = READINGS) -> Iterator[Possibility]:
    """Yield what failed requests, unreadable answers and other readers could change in a number of a side."""
    frame = side.metric_rows(key)
    failed, unread = frame["status"] == "error", (frame["status"] == "ok") & frame["answer"].isna()
    if failed.any():
        low, high = (side.value(key, _as_answered(frame, failed, value)) for value in (0.0, 1.0))
        if low is not None and high is not None and low != high:
            text = f"{failed.sum():,} failed requests: {low:.4f} if all were wrong, {high:.4f} if all were right"
            yield Possibility("errors", tuple(keys_of(frame[failed])), text)
    high = side.value(key, _as_answered(frame, unread, 1.0)) if unread.any() else None
    if high is not None and high != side.value(key, frame):
        text = f"{unread.sum():,} unreadable answers: {high:.4f} if all were right"
        yield Possibility("reading", tuple(keys_of(frame[unread])), text)
    for reading in other_readings(side, key, frame, readings):
        if reading.reading != OURS and reading.n_changed:
            guesses = f", {reading.n_guessed:,} of them guesses" if reading.n_guessed else ""
            text = f"read as {reading.reading} does: {reading.value:.4f}, {reading.n_changed:,} answers differ{guesses}"
            yield Possibility("reading", (), text)


def _as_answered(frame: pd.DataFrame, rows: "pd.Series[bool]", value: float) -> pd.DataFrame:
    """Return rows of which some were answered, all of these rightly or all wrongly."""
    right = {name: frame[name].mask(rows, value) for name in RIGHT if name in frame}
    return frame.assign(status=frame["status"].mask(rows, "ok"), **right)


def explain_published(a: OutputSide, row: str, selection: Selection) -> list[ExplainedNumber]:
    """Explain our numbers against a paper's: of the headline or a metric, of the whole where the paper has it.

    `row` is the model's name as printed; '' for all of its rows. UsageError where there is no such number.
    """
    metric = ", ".join(selection.metrics)
    results = [
        result for result in load_reproduction(a.out) if result.ours is not None and _is_selected(result, selection)
    ]
    models = [entry.model for entry in a.entries]
    results = [result for result in results if result.model in models]
    if not results:
        raise UsageError(f"{a.out.uri}: {', '.join(models)} has no published numbers")
    check_names("published row", [row] if row else [], sorted({result.published_model for result in results}))
    results = [result for result in results if row in ("", result.published_model)]
    check_names("published metric", [metric] if metric else [], sorted({result.metric for result in results}))
    with ExitStack() as stack:
        store = stack.enter_context(PlanStore.reading(a.out))
        sides = {
            (entry.benchmark, entry.model): read_entry(a.out, entry, store, label=f"A, {entry.model}")
            for entry in a.entries
            if any((result.benchmark, result.model) == (entry.benchmark, entry.model) for result in results)
        }
        return [
            _explained(sides[result.benchmark, result.model], result, selection.readings)
            for result in _chosen(
                results, metric, {name: side.definition.headline for (name, _), side in sides.items()}
            )
            if (result.benchmark, result.model) in sides
        ]


def _chosen(results: Sequence[ReproductionResult], metric: str, headlines: dict[str, str]) -> list[ReproductionResult]:
    """Return the results of a metric, of the whole where there are any."""
    named = [result for result in results if result.metric == (metric or headlines.get(result.benchmark))] or list(
        results
    )
    return [result for result in named if not (result.subset or result.category)] or named


def _is_selected(result: ReproductionResult, selection: Selection) -> bool:
    names = (
        (result.benchmark, selection.benchmarks),
        (result.task, selection.tasks),
        (result.setting, selection.settings),
    )
    return all(not selected or name in selected for name, selected in names)


def _explained(side: Side, result: ReproductionResult, readings: Sequence[str]) -> ExplainedNumber:
    key = key_of(result)
    possible = [*possibilities(side, key, readings)]
    frame, value = side.metric_rows(key), result.ours or 0.0
    stages = []
    for stage in STAGES:
        if stage == "answers":
            whole = StageShare(stage, result.published - value, tuple(keys_of(frame)), (_NO_ROWS, *result.reasons))
            stages.append(whole)
        else:
            stage_reasons = [of for of in possible if of.stage == stage]
            rows = tuple(row for of in stage_reasons for row in of.rows)
            stages.append(StageShare(stage, 0.0, rows, tuple(of.text for of in stage_reasons)))
    explanation = Explanation(
        benchmark=result.benchmark,
        key=key,
        label_a=side.label,
        label_b=f"{result.published_model}, {result.table}",
        value_a=value,
        value_b=result.published,
        n_a=len(frame),
        n_b=0,
        stages=tuple(stages),
        notes=side.notes,
    )
    return ExplainedNumber(explanation, tuple(other_readings(side, key, frame, readings)), ())


def key_of(result: ReproductionResult) -> MetricKey:
    """Return what a result measures."""
    metric = benchmark(result.benchmark).publication.metrics.get(result.metric, result.metric)
    return MetricKey(metric, result.task, result.setting, result.subset, result.category)


def with_own_rows(out: Store, run: RunManifest, results: Sequence[ReproductionResult]) -> list[ReproductionResult]:
    """Return the results of a report; different ones with what our own rows could explain of it."""
    sides: dict[tuple[str, str], Side | None] = {}
    entries = {(entry.benchmark, entry.model): entry for entry in run.entries}
    with ExitStack() as stack:
        store = stack.enter_context(PlanStore.reading(out))
        return [
            replace(result, own_rows=tuple(_sentences(sides, entries, result, out, store)))
            if result.verdict == "different" and (result.benchmark, result.model) in entries
            else result
            for result in results
        ]


def _sentences(
    sides: dict[tuple[str, str], Side | None],
    entries: dict[tuple[str, str], ManifestEntry],
    result: ReproductionResult,
    out: Store,
    store: PlanStore,
) -> Iterator[str]:
    name = (result.benchmark, result.model)
    if name not in sides:
        size = sum(info.size for info in list_parts(out, part_folder("predictions", *name)))
        sides[name] = None if size > MAX_BYTES else read_entry(out, entries[name], store, label=result.model)
    side = sides[name]
    if side is None:
        yield f"not read again, as they are many: `vlmsweep compare OUT:{result.model} published --explain` does"
        return
    sentences = [of.text for of in possibilities(side, key_of(result))]
    yield from sentences or ["no failed request, unreadable answer or other reading"]
