"""Explain the difference of two sides, number by number."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace

from pipelines.benchmarks import unknown_name
from pipelines.decisions.explain.readings import READINGS, OtherReading, other_readings
from pipelines.decisions.explain.rows import Side, read_entry
from pipelines.decisions.explain.sides import OutputSide, entry_pairs
from pipelines.decisions.explain.split import Explanation, explain
from pipelines.errors import UsageError
from pipelines.plan.plan_store import PlanStore
from pipelines.plan.run_manifest import PRODUCT, ManifestEntry
from pipelines.plan.selection import check_names
from pipelines.report.measured import MetricKey, number_or_none
from pipelines.report.metrics_file import load_metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which numbers are explained: '' and empty for the headline of all that both sides have."""

    metrics: tuple[str, ...] = ()  # one, or A's and B's
    benchmarks: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    readings: tuple[str, ...] = READINGS

    def __post_init__(self) -> None:
        if len(self.metrics) > 2:
            raise UsageError("--metric: give one metric, or two: one of A and one of B")
        check_names("reading", self.readings, READINGS)


@dataclass(frozen=True, slots=True)
class ExplainedNumber:
    """An explanation, and the number of each side by other readers."""

    explanation: Explanation
    readings_a: tuple[OtherReading, ...]
    readings_b: tuple[OtherReading, ...]


def explain_outputs(a: OutputSide, b: OutputSide, selection: Selection) -> list[ExplainedNumber]:
    """Explain every number of a selection that two outputs, or two models of outputs, have."""
    with ExitStack() as stack:
        stores = [stack.enter_context(PlanStore.reading(side.out)) for side in (a, b)]
        return [
            number
            for pair in entry_pairs(a, b, selection.benchmarks)
            for number in explain_pair(_side(a, pair[0], stores[0], "A"), _side(b, pair[1], stores[1], "B"), selection)
        ]


def _side(side: OutputSide, entry: ManifestEntry, store: PlanStore, label: str) -> Side:
    read = read_entry(side.out, entry, store, label=f"{label}, {entry.model}", judge=side.run.sweep.first_judge)
    if side.run.product in ("", PRODUCT):  # the report may be older than the rows, and nothing else
        return read
    numbers = [n for n in load_metrics(side.out) or () if (n.benchmark, n.model) == (entry.benchmark, entry.model)]
    return replace(read, reported={number.key: number.value for number in numbers if number.value is not None})


def explain_pair(a: Side, b: Side, selection: Selection) -> Iterator[ExplainedNumber]:
    """Yield the explanation of every number of a selection; UsageError for a metric that neither side has."""
    for key in _keys(a, b, selection):
        key_b = replace_metric(key, selection.metrics[-1]) if len(selection.metrics) == 2 else None
        explanation = explain(a, b, key, key_b)
        readings = [
            tuple(other_readings(side, side_key, side.cell(key), selection.readings))
            for side, side_key in ((a, key), (b, key_b or key))
        ]
        yield ExplainedNumber(explanation, *readings)


def replace_metric(key: MetricKey, metric: str) -> MetricKey:
    """Return the key of another metric of the same rows."""
    return key._replace(metric=metric)


def _keys(a: Side, b: Side, selection: Selection) -> list[MetricKey]:
    """Return the numbers that both have: of the metric that is named, else of the first main one that they have."""
    of_sides = [_whole_keys(side) for side in (a, b)]
    check_names("task", selection.tasks, sorted({key.task for keys in of_sides for key in keys}))
    check_names("setting", selection.settings, sorted({key.setting for keys in of_sides for key in keys}))
    selected = [
        [
            key
            for key in keys
            if (not selection.tasks or key.task in selection.tasks)
            and (not selection.settings or key.setting in selection.settings)
        ]
        for keys in of_sides
    ]
    for side, keys, name in zip((a, b), of_sides, selection.metrics[:1] + selection.metrics[-1:], strict=False):
        names = sorted({key.metric for key in keys})
        if name not in names:
            raise UsageError(f"{side.label}: {unknown_name(f'metric of {side.name}', name, names)}")
    for metric in selection.metrics[:1] or a.definition.main_metrics:
        second = selection.metrics[-1] if selection.metrics else metric
        keys = [key for key in selected[0] if key.metric == metric and replace_metric(key, second) in selected[1]]
        if keys:
            return keys
    metrics = " and ".join(selection.metrics) or "headline"
    raise UsageError(f"{a.label} and {b.label} have no {metrics} of {a.name} in common, of the same task and setting")


def _whole_keys(side: Side) -> list[MetricKey]:
    """Return the metrics of all items that a side has a value of."""
    reduced = side.definition.reporter.reduce(side.frame, side.samples) if len(side.frame) else []
    return [
        MetricKey(m.metric, m.task, m.setting)
        for m in reduced
        if not (m.subset or m.category) and number_or_none(m.value) is not None
    ]
