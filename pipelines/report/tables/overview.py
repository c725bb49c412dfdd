"""Tables of every benchmark: headline, request counts, missing metrics, the run's facts, a figure's numbers."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pipelines.benchmarks.figures import Bars, Figure, Points, Radar, Series
from pipelines.benchmarks.metrics_kernel.labels import MetricName, metric_label
from pipelines.benchmarks.records import is_person
from pipelines.benchmarks.tables import Origin, Table, TableCell, TableRow, TableValue
from pipelines.predict.records import TaskCount
from pipelines.report.metrics_file import Measured
from pipelines.report.model import BenchmarkSection, ReportData
from pipelines.report.worded import worded_if_any

_MAX_NAMES = 6  # names listed in one cell of the notes; further ones are counted
_EMPTY: tuple[object, ...] = (None, "", [], {}, ())


def headline_table(part: BenchmarkSection, metrics: Sequence[Measured]) -> Table | None:
    """Return models by settings for the headline metric, one block per task; None if it has no rows."""
    headline = (part.name, part.headline)
    shown = [row for row in metrics if row.is_whole and row.model not in part.replaced]
    rows = [row for row in shown if (row.benchmark, row.metric) == headline]
    if not rows:
        return None
    settings = _ordered([row.setting for row in rows], part.settings)
    tasks = _ordered([row.task for row in rows], ())
    cells = {
        (row.task, row.model, row.setting): replace(row.cell, best=(row.task, row.setting, row.model) == part.leader)
        for row in rows
    }
    lines: list[TableRow] = []
    for task in tasks:
        lines += [TableRow(label=task, origin="heading")] if len(tasks) > 1 else []
        for model in _ordered([row.model for row in rows if row.task == task], ()):
            # A cell outside the sweep is as empty as one that could not be measured, but has no note.
            model_cells = tuple(cells.get((task, model, name)) for name in settings)
            is_compared = is_person(model) or model in part.baselines
            lines.append(TableRow(label=model, cells=model_cells, origin=_origin(model), baseline=is_compared))
    is_plain = any(row.is_plain for row in rows)
    scale = "Not a fraction, so not in percent." if is_plain else "Percent."
    metric = metric_label(part.headline)
    return Table(
        id=f"{part.name}_headline",
        title=f"{part.title}: {metric}" + (f", {tasks[0]}" if len(tasks) == 1 else ""),
        columns=tuple(name or "all" for name in settings),
        rows=tuple(lines),
        style="plain" if is_plain else "percent1",
        caption=f"{part.title}: {metric} by model and setting. {part.measure}".strip(),
        better=tuple("higher" for _ in settings),
        best_of="block",
        heat=None if is_plain else (0.0, 1.0),
        notes=(f"{scale} In brackets: the 95% interval. n: number of rows in the denominator.",),
    )


def counts_table(part: BenchmarkSection, counts: Sequence[TaskCount]) -> Table | None:
    """Return the requests by status, one row per model, task and setting; None if there are none."""
    rows = [
        TableRow(
            label=count.model,
            cells=(count.task, count.setting, count.requests, count.ok, count.error, count.excluded, count.missing),
            origin=_origin(count.model),
        )
        for count in counts
        if count.benchmark == part.name
    ]
    return worded_if_any("counts", rows, name=part.name, title=part.title)


def notes_table(part: BenchmarkSection, metrics: Sequence[Measured], *, measured: bool) -> Table | None:
    """Return why metrics are missing (`measured` false), or how to read the measured ones; equal notes once."""
    rows_by_note: dict[tuple[str, str, str], list[Measured]] = {}
    for row in metrics:
        if row.benchmark != part.name or (row.value is not None) != measured or (measured and not row.note):
            continue
        key = (row.label, row.task, row.note or "no reason was given")
        rows_by_note.setdefault(key, []).append(row)
    rows = []
    for (metric, task, note), noted in rows_by_note.items():
        settings, models = (_join_names(getattr(row, name) for row in noted) for name in ("setting", "model"))
        rows.append(TableRow(label=MetricName(metric), cells=(task, settings, models, note)))
    return worded_if_any("remarks" if measured else "not_measured", rows, name=part.name, title=part.title)


def figure_table(figure: Figure, *, by_origin: bool = False) -> Table:
    """Return the numbers of a figure, for screen readers and further computation.

    `by_origin` gives each line one origin: measured, published and human values of one category are separate lines.
    """
    if isinstance(figure, Points):
        rows = [(f"{cloud.label}", point, cloud.origin) for cloud in figure.clouds for point in cloud.points]
        lines = tuple(TableRow(label=name, cells=point, origin=origin) for name, point, origin in rows)
        columns: tuple[str, ...] = (figure.x_label or "x", figure.y_label or "y")
        return Table(id=figure.id, title=figure.title, columns=columns, rows=lines, label_head="Series", style="plain")
    if isinstance(figure, Radar):
        head, labels = "Axis", figure.axes
    elif isinstance(figure, Bars):
        head, labels = "Category", figure.categories
    else:
        head, labels = figure.x_label or "x", tuple(f"{x:.12g}" for x in figure.x)
    percent = figure.maximum == 1.0 if isinstance(figure, Radar) else figure.percent
    names = (
        f"{series.label} ({series.origin})" if series.origin != "ours" else series.label for series in figure.series
    )
    origins: list[Origin | None] = [*dict.fromkeys(series.origin for series in figure.series)] if by_origin else [None]
    row_keys = [(row, name, origin) for origin in origins for row, name in enumerate(labels)]
    return Table(
        id=figure.id,
        title=figure.title,
        label_head=head,
        columns=tuple(names),
        rows=tuple(
            TableRow(
                label=name,
                cells=tuple(_figure_cell(s, row) if origin in (None, s.origin) else None for s in figure.series),
                origin=origin or "ours",
            )
            for row, name, origin in row_keys
        ),
        style="percent1" if percent else "plain",
    )


def run_facts(report: ReportData) -> list[tuple[str, str]]:
    """Return name and text of the single values of the run."""
    return [(_title(key), _text(value)) for key, value in report.run.items() if not _is_table(value)]


def run_tables(report: ReportData) -> list[Table]:
    """Return the mappings of the run as tables."""
    return [_run_table(key, value) for key, value in report.run.items() if _is_table(value)]


def mark_compared(table: Table, baselines: Collection[str]) -> Table:
    """Return a table whose rows of people and of models that guess, or under their heading, are never the best."""
    rows, heading = [], ""
    for row in table.rows:
        heading = row.label if row.origin == "heading" else heading
        is_human = row.origin == "ours" and (is_person(row.label) or is_person(heading))
        is_guess = row.origin == "ours" and any(_is_labelled(model, (row.label, heading)) for model in baselines)
        origin = "human" if is_human else row.origin
        rows.append(replace(row, origin=origin, baseline=row.baseline or is_human or is_guess))
    return replace(table, rows=tuple(rows))


def _is_labelled(model: str, labels: Iterable[str]) -> bool:
    """Return whether a label is a model's name, perhaps with a setting behind it."""
    endings = (", ", " + ", " \N{MINUS SIGN} ", " (")
    return any(label == model or label.startswith(tuple(f"{model}{ending}" for ending in endings)) for label in labels)


def _origin(model: str) -> Origin:
    return "human" if is_person(model) else "ours"


def _ordered(names: Sequence[str], first: Sequence[str]) -> list[str]:
    """Return distinct names, those of `first` in its order before the others."""
    distinct = dict.fromkeys(names)
    return [name for name in first if name in distinct] + [name for name in distinct if name not in first]


def _join_names(repeated: Iterable[str]) -> str:
    names = [name or "all" for name in dict.fromkeys(repeated)]
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return ", ".join(names[:_MAX_NAMES]) + more


def _figure_cell(series: Series, index: int) -> TableCell:
    if not series.low:
        return series.values[index]
    return TableValue(value=series.values[index], low=series.low[index], high=series.high[index])


def _is_table(value: object) -> bool:
    return isinstance(value, Mapping) and bool(value)


def _run_table(key: str, value: Mapping[str, Any]) -> Table:
    is_nested = all(isinstance(entry, Mapping) for entry in value.values())
    if not is_nested:
        rows = tuple(TableRow(label=str(name), cells=(_text(entry),)) for name, entry in value.items())
        return Table(id="run", title=_title(key), label_head="Name", columns=("Value",), rows=rows)
    columns = tuple(dict.fromkeys(name for entry in value.values() for name in entry if entry[name] not in _EMPTY))
    return Table(
        id="run",
        title=_title(key),
        label_head="Name",
        columns=tuple(_title(name) for name in columns),
        rows=tuple(
            TableRow(label=str(name), cells=tuple(_text(entry.get(column)) for column in columns))
            for name, entry in value.items()
        ),
    )


def _title(key: object) -> str:
    return str(key).replace("_", " ").strip().capitalize()


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple) and all(isinstance(entry, str) for entry in value):
        return ", ".join(value)
    return json.dumps(value, ensure_ascii=False, default=str)
