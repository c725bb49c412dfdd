"""Tonight's metrics beside those of the last night that measured the same pair."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pipelines.benchmarks import benchmark
from pipelines.nightly.history import History
from pipelines.nightly.records import BASIS, MetricShift, NightlyResult, PairStatus
from pipelines.nightly.regressions import MetricPair, PairName

_KEY = ("benchmark", "task", "model", "setting", "subset", "category", "metric")


def metric_shifts(night: NightlyResult, statuses: Sequence[PairStatus], history: History) -> Iterator[MetricShift]:
    """Yield the numbers that left the interval of their last measurement, or are gone."""
    for _, row, now in _rows(night, statuses, history):
        low, high, value = row["ci_low"], row["ci_high"], (now or {}).get("value")
        if row["value"] is None or low is None or high is None:
            continue
        if value is None or not low <= value <= high:
            key = tuple(str(row[name]) for name in _KEY)
            yield MetricShift(key=key, before=row["value"], now=value, interval=(low, high), since=row["night"])


def metric_pairs(
    night: NightlyResult, statuses: Sequence[PairStatus], history: History, bases: Mapping[PairName, str]
) -> list[MetricPair]:
    """Return the main metrics of the pairs whose data, prompts or selection changed since they were measured.

    `bases` are those of the levels: a night that failed records the parts that it would have measured.
    """
    return [
        MetricPair(before=row, now=now, since=row["night"])
        for status, row, now in _rows(night, statuses, history)
        if now and _is_main(row) and _has_interval(row) and _has_interval(now) and _has_other_basis(status, bases)
    ]


def _has_other_basis(status: PairStatus, bases: Mapping[PairName, str]) -> bool:
    if (basis := bases.get((status.model, status.benchmark))) is not None:
        return basis != status.basis
    before = status.before.parts if status.before else {}
    return any(before.get(name, "") != status.parts.get(name, "") for name in BASIS)


def _is_main(row: Mapping[str, Any]) -> bool:
    definition = benchmark(row["benchmark"])
    is_whole = row["subset"] == "" and row["category"] == ""
    return is_whole and row["metric"] in {definition.headline, *definition.secondary_metrics}


def _has_interval(row: Mapping[str, Any]) -> bool:
    return all(row[name] is not None for name in ("value", "ci_low", "ci_high"))


def _rows(
    night: NightlyResult, statuses: Sequence[PairStatus], history: History
) -> Iterator[tuple[PairStatus, dict[str, Any], dict[str, Any] | None]]:
    """Yield the earlier metrics of the pairs that ran, each with tonight's."""
    now = {tuple(str(row[name]) for name in _KEY): row for row in night.metrics}
    ran = {(pair.model, pair.benchmark) for pair in night.pairs_in("ran")}
    earlier: dict[str, list[dict[str, Any]]] = {}
    for status in statuses:
        since = status.before.measured if status.before else ""
        if not since or (status.model, status.benchmark) not in ran:
            continue
        if since not in earlier:
            earlier[since] = history.metrics(since)
        for row in earlier[since]:
            if (row["model"], row["benchmark"]) == (status.model, status.benchmark):
                yield status, row, now.get(tuple(str(row[name]) for name in _KEY))
