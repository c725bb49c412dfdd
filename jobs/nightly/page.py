"""The page of the last nights: one line a model and benchmark, in one HTML file without scripts or other files."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from jobs.nightly.history import History, Pair, run_time
from jobs.nightly.regressions import Change
from pipelines.benchmarks import benchmark, benchmark_names
from pipelines.benchmarks.metrics_kernel.labels import metric_label
from pipelines.rendering.environment import environment, page_head
from pipelines.rendering.figures.canvas import Point, path
from pipelines.report.metrics_file import Measured

PAGE_MARK: Final = b"<title>Nightly history</title>"
NIGHTS: Final = 60
"""The most nights that the page shows."""
_WIDTH, _HEIGHT, _MARGIN = 180.0, 36.0, 4.0
_PACKAGE = "jobs.nightly"

_MetricName = tuple[str, str, str]  # task, setting, metric


@dataclass(frozen=True, slots=True)
class Measurement:
    """A metric over a whole benchmark in one night."""

    night: str
    value: float
    low: float
    high: float
    has_interval: bool
    is_percent: bool

    @property
    def text(self) -> str:
        """The value with its interval, fractions as percent."""
        value, low, high = (
            f"{100 * number:.1f}" if self.is_percent else f"{number:.3f}"
            for number in (self.value, self.low, self.high)
        )
        return f"{value}{'%' if self.is_percent else ''}" + (f" ({low} to {high})" if self.has_interval else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkLine:
    """A curve with its intervals, as paths of an SVG of fixed size."""

    line: str
    band: str
    points: tuple[tuple[float, float, str, str], ...]  # x, y, class, text
    width: float = _WIDTH
    height: float = _HEIGHT


@dataclass(slots=True)
class _PairHistory:
    """What the nights recorded of a pair, the oldest first."""

    records: list[Pair] = field(default_factory=list)
    metrics: dict[_MetricName, list[Measurement]] = field(default_factory=dict)
    changes: list[tuple[str, Change]] = field(default_factory=list)  # with the night that reported it


def history_page(history: History) -> str:
    """Return the page of the last nights of a history, without benchmarks that no longer exist."""
    nights = history.nights()[-NIGHTS:]
    current = {*benchmark_names()}  # a plug-in may have been removed or renamed since
    pairs: dict[tuple[str, str], _PairHistory] = {}
    for night in nights:
        for record in history.pairs(night):
            if record.benchmark in current:
                pairs.setdefault((record.model, record.benchmark), _PairHistory()).records.append(record)
        for change in history.changes(night):
            if entry := pairs.get(change.key[:2]):
                entry.changes.append((night, change))
        for row in history.metrics(night):
            entry = pairs.get((row.model, row.benchmark))
            if entry and row.is_whole and row.metric in benchmark(row.benchmark).main_metrics:
                values = entry.metrics.setdefault((row.task, row.setting, row.metric), [])
                values += _measurement(night, row)
    last = nights[-1] if nights else ""
    content = {
        "nights": len(nights),
        "first_day": _day(nights[0]) if nights else "",
        "last_day": _day(last) if nights else "",
        "pairs": [_line(key, pairs[key], nights, last) for key in sorted(pairs, key=lambda key: (key[1], key[0]))],
    }
    template = environment(_PACKAGE).get_template("history.html.j2")
    return template.render(**page_head("history.css", package=_PACKAGE), **content)


def _measurement(night: str, row: Measured) -> Iterator[Measurement]:
    if row.value is None:
        return
    is_percent, has_interval = row.unit == "fraction", row.ci_low is not None and row.ci_high is not None
    low, high = (row.value if end is None or not has_interval else end for end in (row.ci_low, row.ci_high))
    yield Measurement(night, row.value, low, high, has_interval=has_interval, is_percent=is_percent)


def _line(key: tuple[str, str], entry: _PairHistory, nights: Sequence[str], last: str) -> dict[str, Any]:
    record = entry.records[-1]
    alarms = {(night, change.key.task, change.key.setting) for night, change in entry.changes if change.is_alarm}
    order = _metric_order(key[1], entry.metrics)
    names = sorted((name for name, values in entry.metrics.items() if values), key=order)
    shown = [_metric(name, entry.metrics[name], nights, alarms) for name in names]
    runs = [item for item in entry.records if item.state == "ran"]
    state = record.state if record.night == last else "not configured"
    return {
        "model": key[0],
        "benchmark": key[1],
        "main": shown[0] if shown else None,
        "cells": shown,
        "measured": _day(record.measured) if record.measured else "",
        "changed": runs[-1].why.removeprefix("changed: ").partition(";")[0] if runs else "",
        "state": state,
        "why": record.why if state in ("failed", "waiting") else "",
        "alarm": next((_describe(change) for night, change in entry.changes if night == last and change.is_alarm), ""),
        "changes": [{"day": _day(night), "text": _describe(change)} for night, change in reversed(entry.changes)],
        "runs": [{"day": _day(run.night), "why": run.why, "failed": run.failed} for run in reversed(runs)],
    }


def _metric_order(name: str, measured: Iterable[_MetricName]) -> Callable[[_MetricName], tuple[int, ...]]:
    """Return the order of the metrics of a benchmark: the headline first, tasks and settings as it declares them."""
    definition = benchmark(name)
    main = definition.headline_group({(task, setting) for task, setting, _ in measured})
    metrics = definition.main_metrics
    tasks = [*definition.tasks, *definition.derived_tasks]
    settings = list(dict.fromkeys(setting for names in definition.tasks.values() for setting in names))
    return lambda name: (
        metrics.index(name[2]),
        name[:2] != main,
        *(
            names.index(part) if part in names else len(names)
            for names, part in ((tasks, name[0]), (settings, name[1]))
        ),
    )


def _describe(change: Change) -> str:
    key = change.key
    score = f"{key.score} of {key.task or 'all tasks'} {key.setting or 'in all settings'}"
    if change.now is None:
        return f"{score} is gone: {change.before:.3f} on {change.n:,} samples before"
    values = f"{change.before:.3f} to {change.now:.3f}"
    samples = f"{change.n:,} paired samples" if change.test != "intervals" else f"{change.n:,} samples, unpaired"
    return f"{score} {change.direction}: {values} on {samples}, p {change.p:.1g} by {change.test}"


def _metric(
    name: _MetricName, values: Sequence[Measurement], nights: Sequence[str], alarms: set[tuple[str, str, str]]
) -> dict[str, Any]:
    """Return one metric of a pair under a task and setting over the nights."""
    task, setting, metric = name
    marked = {night for night, *where in alarms if where in ([task, setting], [task, ""], ["", ""])}
    return {
        "name": f"{metric_label(metric)}, {task} {setting}",
        "latest": values[-1].text,
        "spark": _spark(values, nights, marked),
    }


def _spark(values: Sequence[Measurement], nights: Sequence[str], marked: set[str]) -> SparkLine:
    bottom, top = min(value.low for value in values), max(value.high for value in values)
    step = (_WIDTH - 2 * _MARGIN) / max(1, len(nights) - 1)
    x_of = {night: _MARGIN + number * step for number, night in enumerate(nights)}

    def at(night: str, value: float) -> Point:
        share = (value - bottom) / (top - bottom) if top > bottom else 0.5
        return round(x_of[night], 1), round(_HEIGHT - _MARGIN - share * (_HEIGHT - 2 * _MARGIN), 1)

    curve = [at(value.night, value.value) for value in values]
    lows, highs = ([at(v.night, getattr(v, end)) for v in values] for end in ("low", "high"))
    points = [
        (*point, "alarm" if value.night in marked else "end" if value is values[-1] else "", value)
        for point, value in zip(curve, values, strict=True)
    ]
    return SparkLine(
        line=path(curve),
        band=path([*lows, *reversed(highs)], closed=True),
        points=tuple((x, y, kind, f"{_day(value.night)}: {value.text}") for x, y, kind, value in points),
    )


def _day(night: str) -> str:
    return f"{run_time(night):%Y-%m-%d}"
