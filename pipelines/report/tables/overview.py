"""Tables that the report makes itself: headline, counts, what was not measured, the run's facts, a figure's numbers."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from pipelines.benchmarks.figures import Bars, Figure, Lines, Points, Radar
from pipelines.benchmarks.tables import Table, TableCell, TableRow, TableValue
from pipelines.predict.records import CellCount
from pipelines.report.model import BenchmarkSection, ReportData

_SHOWN = 6
"""Names listed in one cell of the notes; more are counted."""
_EMPTY: tuple[object, ...] = (None, "", [], {}, ())
_COUNTS_NOTE = (
    "Failed requests are no answers; excluded ones could not be asked; where some were not run, the sweep is "
    "incomplete, and metrics that need the whole are left out."
)


def headline_table(part: BenchmarkSection, metrics: Sequence[Mapping[str, Any]]) -> Table | None:
    """Models by settings for the benchmark's headline metric, a block a task; None where there is no such row."""
    rows = [row for row in metrics if _is_headline(row, part)]
    if not rows:
        return None
    settings = _ordered([str(row["setting"]) for row in rows], part.settings)
    tasks = _ordered([str(row["task"]) for row in rows], ())
    cells = {(row["task"], row["model"], row["setting"]): _headline_cell(row) for row in rows}
    lines: list[TableRow] = []
    for task in tasks:
        lines += [TableRow(label=task, origin="heading")] if len(tasks) > 1 else []
        for model in _ordered([str(row["model"]) for row in rows if row["task"] == task], ()):
            # A cell that was not part of the sweep is as empty as one that could not be measured, but has no reason.
            lines.append(TableRow(label=model, cells=tuple(cells.get((task, model, name)) for name in settings)))
    plain = any(row.get("plain") for row in rows)
    scale = "No share, and so not in percent." if plain else "Percent."
    words = part.headline.replace("_", " ")
    return Table(
        id=f"{part.name}_headline",
        title=f"{part.title}: {words}" + (f", {tasks[0]}" if len(tasks) == 1 else ""),
        columns=tuple(name or "all" for name in settings),
        rows=tuple(lines),
        style="plain" if plain else "percent1",
        better=tuple("higher" for _ in settings),
        best_of="block",
        heat=None if plain else (0.0, 1.0),
        notes=(f"{scale} In brackets the 95% interval; n is the number of rows in the denominator.",),
    )


def counts_table(part: BenchmarkSection, counts: Sequence[CellCount]) -> Table | None:
    """What became of the requests, a row a cell of the sweep; None where there are none."""
    rows = tuple(
        TableRow(
            label=one.model,
            cells=(one.task, one.setting, one.requests, one.ok, one.error, one.excluded, one.missing),
        )
        for one in counts
        if one.benchmark == part.name
    )
    if not rows:
        return None
    return Table(
        id=f"{part.name}_counts",
        title=f"{part.title}: requests and what became of them",
        columns=("Task", "Setting", "Requests", "Answered", "Failed", "Excluded", "Not run"),
        rows=rows,
        notes=(_COUNTS_NOTE,),
    )


def notes_table(part: BenchmarkSection, metrics: Sequence[Mapping[str, Any]], *, measured: bool) -> Table | None:
    """Why metrics are missing (`measured` false), or how those that are there are to be read; equal notes once."""
    found: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for row in metrics:
        note, present = str(row.get("note") or ""), number_or_none(row["value"]) is not None
        if row["benchmark"] != part.name or present != measured or (measured and not note):
            continue
        key = (str(row["metric"]), str(row["task"]), note or "no reason was given")
        found.setdefault(key, []).append(row)
    if not found:
        return None
    rows = (
        TableRow(label=metric, cells=(task, _listed(rows, "setting"), _listed(rows, "model"), note))
        for (metric, task, note), rows in found.items()
    )
    return Table(
        id=f"{part.name}_{'remarks' if measured else 'not_measured'}",
        title=f"{part.title}: {'how to read these numbers' if measured else 'not measured, and why'}",
        label_head="Metric",
        columns=("Task", "Settings", "Models", "Note" if measured else "Reason"),
        rows=tuple(rows),
    )


def figure_table(figure: Figure) -> Table:
    """The numbers of a figure, for those who cannot see it and for those who want to reckon with it."""
    if isinstance(figure, Points):
        rows = [(f"{cloud.label}", point, cloud.origin) for cloud in figure.clouds for point in cloud.points]
        lines = tuple(TableRow(label=name, cells=point, origin=origin) for name, point, origin in rows)
        columns: tuple[str, ...] = (figure.x_label or "x", figure.y_label or "y")
        return Table(id=figure.id, title=figure.title, columns=columns, rows=lines, label_head="Series", style="plain")
    if isinstance(figure, Radar):
        head, places = "Axis", figure.axes
    elif isinstance(figure, Bars):
        head, places = "Category", figure.categories
    else:
        head, places = figure.x_label or "x", tuple(f"{x:.12g}" for x in figure.x)
    percent = figure.maximum == 1.0 if isinstance(figure, Radar) else figure.percent
    names = (f"{one.label} ({one.origin})" if one.origin != "ours" else one.label for one in figure.series)
    return Table(
        id=figure.id,
        title=figure.title,
        label_head=head,
        columns=tuple(names),
        rows=tuple(
            TableRow(label=name, cells=tuple(_figure_cell(figure, one, place) for one in range(len(figure.series))))
            for place, name in enumerate(places)
        ),
        style="percent1" if percent else "plain",
    )


def run_facts(report: ReportData) -> list[tuple[str, str]]:
    """The single values of the run, as (name, words)."""
    return [(_words(key), _plain(value)) for key, value in report.run.items() if not _is_table(value)]


def run_tables(report: ReportData) -> list[Table]:
    """The mappings of the run as tables."""
    return [_run_table(key, value) for key, value in report.run.items() if _is_table(value)]


def number_or_none(value: object) -> float | None:
    """A finite number, None for null, NaN, infinity and anything else."""
    if isinstance(value, bool) or not hasattr(value, "__float__"):
        return None
    number = float(value)
    return number if math.isfinite(number) else None


def _is_headline(row: Mapping[str, Any], part: BenchmarkSection) -> bool:
    whole = not row["subset"] and not row["category"]
    return bool(whole and row["benchmark"] == part.name and row["metric"] == part.headline)


def _headline_cell(row: Mapping[str, Any]) -> TableValue:
    value = number_or_none(row["value"])
    return TableValue(
        value=value,
        low=number_or_none(row["ci_low"]),
        high=number_or_none(row["ci_high"]),
        n=int(row["n"]),
        n_failed=int(row["n_failed"]),
        note=str(row.get("note") or "") if value is None else "",
    )


def _ordered(names: Sequence[str], first: Sequence[str]) -> list[str]:
    present = dict.fromkeys(names)
    return [name for name in first if name in present] + [name for name in present if name not in first]


def _listed(rows: Sequence[Mapping[str, Any]], key: str) -> str:
    names = [name or "all" for name in dict.fromkeys(str(row[key]) for row in rows)]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _figure_cell(figure: Radar | Bars | Lines, one: int, place: int) -> TableCell:
    series = figure.series[one]
    if not series.low:
        return series.values[place]
    return TableValue(value=series.values[place], low=series.low[place], high=series.high[place])


def _is_table(value: object) -> bool:
    return isinstance(value, Mapping) and bool(value)


def _run_table(key: str, value: Mapping[str, Any]) -> Table:
    nested = all(isinstance(entry, Mapping) for entry in value.values())
    if not nested:
        rows = tuple(TableRow(label=str(name), cells=(_plain(entry),)) for name, entry in value.items())
        return Table(id="run", title=_words(key), label_head="Name", columns=("Value",), rows=rows)
    columns = tuple(dict.fromkeys(name for entry in value.values() for name in entry if entry[name] not in _EMPTY))
    return Table(
        id="run",
        title=_words(key),
        label_head="Name",
        columns=tuple(_words(name) for name in columns),
        rows=tuple(
            TableRow(label=str(name), cells=tuple(_plain(entry.get(column)) for column in columns))
            for name, entry in value.items()
        ),
    )


def _words(key: object) -> str:
    return str(key).replace("_", " ").strip().capitalize()


def _plain(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple) and all(isinstance(entry, str) for entry in value):
        return ", ".join(value)
    return json.dumps(value, ensure_ascii=False, default=str)
