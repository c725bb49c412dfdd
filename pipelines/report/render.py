"""Render `ReportData` to files: relative paths and contents."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any

from pipelines.benchmarks.figures import Figure
from pipelines.benchmarks.tables import Table
from pipelines.report.figures.svg import to_svg_bytes
from pipelines.report.model import METRIC_KEYS, ReportData
from pipelines.report.pages.html import detail_tables, html_page
from pipelines.report.pages.markdown import markdown_page
from pipelines.report.tables import formats, overview

_IDENTITY = ("benchmark", "task", "model", "setting", "subset", "category", "metric")
_NUMBERS = ("value", "ci_low", "ci_high")


def draw(figures: Sequence[Figure]) -> list[bytes]:
    """Draw figures one after another."""
    return [to_svg_bytes(figure) for figure in figures]


def render(
    report: ReportData,
    previous: Callable[[str], bytes | None] = lambda _: None,
    draw: Callable[[Sequence[Figure]], Sequence[bytes]] = draw,
) -> dict[str, bytes]:
    """Render all files of a report: relative path -> content, sorted by path; equal data gives equal bytes.

    The files are `index.html`, `report.md`, `metrics.json`, `tables/<id>.csv` and `.tex`, and `figures/<id>.svg` under
    `report/`. Unchanged figures of the `previous` report are reused, since drawing is slow. Raises ValueError as
    `metrics_json`, or if two tables have the same id.
    """
    contents: dict[str, bytes] = {"report/metrics.json": metrics_json(report.metrics)}
    figures = [figure for section in report.across for figure in section.figures]
    figures += [figure for part in report.benchmarks for figure in part.figures]
    drawings = _drawings(figures, previous, draw)
    for path, content in _table_files(report):
        if path in contents:
            raise ValueError(f"two tables or figures would be written to {path}")
        contents[path] = content.encode()
    contents |= {f"report/figures/{name}.svg": drawing for name, drawing in drawings.items()}
    contents["report/index.html"] = html_page(report, drawings).encode()
    contents["report/report.md"] = markdown_page(report).encode()
    return dict(sorted(contents.items()))


def _drawings(
    figures: Sequence[Figure],
    previous: Callable[[str], bytes | None],
    draw: Callable[[Sequence[Figure]], Sequence[bytes]],
) -> dict[str, bytes]:
    """Return SVG by figure id; each ends with a hash of its input, by which a previous one is reused."""
    hashes = {figure.id: _input_hash(figure) for figure in figures}
    drawings = {figure.id: previous(f"report/figures/{figure.id}.svg") or b"" for figure in figures}
    stale = [figure for figure in figures if not drawings[figure.id].endswith(hashes[figure.id])]
    drawn = zip(stale, draw(stale), strict=True)
    return drawings | {figure.id: svg.rstrip() + b"\n" + hashes[figure.id] for figure, svg in drawn}


def _input_hash(figure: Figure) -> bytes:
    text = f"{version('matplotlib')}|{_code_hash()}|{figure!r}"
    return f"<!-- {hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()} -->\n".encode()


@functools.cache
def _code_hash() -> str:
    """Return a hash of the drawing modules: figures of other code are drawn again."""
    files = [Path(__file__).parent / name for name in ("figures/style.py", "figures/svg.py", "tables/escaping.py")]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


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
    number = overview.number_or_none(value)
    return int(number) if number is not None and unit == "count" and number.is_integer() else number


def _identity(row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(row[key] for key in _IDENTITY)


def _table_files(report: ReportData) -> Iterator[tuple[str, str]]:
    for section in report.across:
        for table in section.tables:
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
        yield f"report/tables/{figure.id}.csv", formats.to_csv(overview.figure_table(figure))
