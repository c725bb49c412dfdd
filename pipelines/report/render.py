"""Render `ReportData` to files: relative paths and contents."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, TypeVar

from pipelines.benchmarks.figures import Figure, Points
from pipelines.benchmarks.tables import Table
from pipelines.rendering import formats
from pipelines.rendering.figures.svg import to_svg_bytes
from pipelines.report.metrics_file import number_or_none
from pipelines.report.model import METRIC_KEYS, BenchmarkSection, ReportData, Section
from pipelines.report.pages.html import detail_tables, html_pages, page_links
from pipelines.report.pages.items import item_files
from pipelines.report.pages.markdown import markdown_page
from pipelines.report.reproduction import PATH as REPRODUCTION
from pipelines.report.reproduction import reproduction_json
from pipelines.report.tables import overview

Part = TypeVar("Part", Section, BenchmarkSection)

_IDENTITY = ("benchmark", "task", "model", "setting", "subset", "category", "metric")
_NUMBERS = ("value", "ci_low", "ci_high")


def render(report: ReportData) -> dict[str, bytes]:
    """Render all files of a report: relative path -> content, sorted by path; equal data gives equal bytes.

    The files are `index.html`, `benchmark-<name>.html`, `people.html` where models are compared with people,
    `report.md`, `metrics.json`, `reproduction.json`, `tables/<id>.csv` and `.tex`, `figures/<id>.svg`, and where items
    are listed `items.html` and `items/<id>.csv`, all under `report/`. Raises ValueError as `metrics_json`, or if two
    tables have the same id.
    """
    contents: dict[str, bytes] = {
        "report/metrics.json": metrics_json(report.metrics),
        REPRODUCTION: reproduction_json(report.reproduction),
    }
    for path, content in _table_files(report):
        if path in contents:
            raise ValueError(f"two tables or figures would be written to {path}")
        contents[path] = content.encode()
    shown = replace(
        report,
        across=tuple(map(_without_repetitions, report.across)),
        benchmarks=tuple(map(_without_repetitions, report.benchmarks)),
    )
    figures = [figure for section in shown.across for figure in section.figures]
    figures += [figure for part in shown.benchmarks for figure in part.figures]
    drawings = {figure.id: to_svg_bytes(figure) for figure in figures}
    contents |= {f"report/figures/{name}.svg": drawing for name, drawing in drawings.items()}
    contents |= {f"report/{name}": page.encode() for name, page in html_pages(shown, drawings).items()}
    contents |= item_files(report.items, page_links(report))
    contents["report/report.md"] = markdown_page(shown).encode()
    return dict(sorted(contents.items()))


def _without_repetitions(part: Part) -> Part:
    """Leave out figures without a value of this run.

    Such a figure would only repeat a paper's: its numbers are in the published rows of the tables and in its CSV file,
    which is written all the same. People's own answers are values of this run.
    """
    return replace(part, figures=tuple(filter(_has_own_value, part.figures)))


def _has_own_value(figure: Figure) -> bool:
    if isinstance(figure, Points):
        return any(cloud.points for cloud in figure.clouds if cloud.origin == "ours")
    return any(
        value is not None
        for series in figure.series
        if series.origin == "ours" and not series.baseline
        for value in series.values
    )


def metrics_json(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Return `metrics.json`: rows sorted by identity, keys in the contract's order, NaN and infinity as null.

    Raises ValueError if a row lacks a key or two rows have the same identity.
    """
    metrics = sorted((_metric(row) for row in rows), key=_identity)
    for first, second in pairwise(metrics):
        if _identity(first) == _identity(second):
            raise ValueError(f"two metrics are named {'/'.join(_identity(first))}")
    lines = ",\n".join(json.dumps(row, ensure_ascii=False, allow_nan=False) for row in metrics)
    # A lone surrogate cannot be encoded, and its backslash escape is exactly how JSON writes it.
    return f"[\n{lines}\n]\n".encode("utf-8", "backslashreplace") if metrics else b"[]\n"


def _metric(row: Mapping[str, Any]) -> dict[str, Any]:
    missing = [key for key in METRIC_KEYS if key not in row]
    if missing:
        raise ValueError(f"a metric's row lacks {', '.join(missing)}: {dict(row)}")
    metric: dict[str, Any] = {}
    for key in METRIC_KEYS:
        if key in _NUMBERS:
            metric[key] = _number(row[key], row["unit"])
        else:
            metric[key] = int(row[key]) if key in ("n", "n_failed") else str(row[key])
    return metric


def _number(value: object, unit: str) -> float | None:
    number = number_or_none(value)
    return int(number) if number is not None and unit == "count" and number.is_integer() else number


def _identity(row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(row[key] for key in _IDENTITY)


def _table_files(report: ReportData) -> Iterator[tuple[str, str]]:
    for section in report.across:
        for table in (*section.summary, *section.tables):
            yield from _formats(table)
        yield from _numbers(section.figures)
    for part in report.benchmarks:
        headline = overview.headline_table(part, report.metrics)
        details = [table for _, table, _ in detail_tables(part, report)]
        for table in (*([headline] if headline else ()), *details, *part.tables):
            yield from _formats(table)
        yield from _numbers(part.figures)


def _formats(table: Table) -> Iterator[tuple[str, str]]:
    yield f"report/tables/{table.id}.csv", formats.to_csv(table)
    yield f"report/tables/{table.id}.tex", formats.to_latex(table)


def _numbers(figures: Sequence[Figure]) -> Iterator[tuple[str, str]]:
    for figure in figures:
        yield f"report/tables/{figure.id}.csv", formats.to_csv(overview.figure_table(figure, by_origin=True))
