"""From `ReportData` to files: every relative path of a report and its bytes."""

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
from pipelines.report.pages.html import behind, page
from pipelines.report.pages.markdown import markdown_page
from pipelines.report.tables import formats as tables
from pipelines.report.tables import overview as summary

_IDENTITY = ("benchmark", "task", "model", "setting", "subset", "category", "metric")
_NUMBERS = ("value", "ci_low", "ci_high")


def draw(figures: Sequence[Figure]) -> list[bytes]:
    """Draw figures one after the other, as `to_svg_bytes` does."""
    return [to_svg_bytes(figure) for figure in figures]


def render(
    report: ReportData,
    earlier: Callable[[str], bytes | None] = lambda _: None,
    draw: Callable[[Sequence[Figure]], Sequence[bytes]] = draw,
) -> dict[str, bytes]:
    """All files of a report.

    Args:
        report: what it shows.
        earlier: content of a file of the report that stands there now, by path; a figure that has not changed is taken
            from it, since drawing is what takes longest.
        draw: draws the others, in order.

    Returns:
        Relative path with forward slashes -> content, sorted by path: `report/index.html`, `report/report.md`,
        `report/metrics.json`, `report/tables/<id>.csv` and `.tex`, `report/figures/<id>.svg` and, for the numbers of
        each figure, `report/tables/<id>.csv`. The same data gives the same bytes.

    Raises:
        ValueError: a metric's row lacks a key or occurs twice, or two tables have one id.
    """
    found: dict[str, bytes] = {"report/metrics.json": metrics_json(report.metrics)}
    figures = [figure for section in report.across for figure in section.figures]
    figures += [figure for part in report.benchmarks for figure in part.figures]
    drawings = _drawings(figures, earlier, draw)
    for path, content in _table_files(report):
        if path in found:
            raise ValueError(f"two tables or figures would be written to {path}")
        found[path] = content.encode()
    found |= {f"report/figures/{name}.svg": drawing for name, drawing in drawings.items()}
    found["report/index.html"] = page(report, drawings).encode()
    found["report/report.md"] = markdown_page(report).encode()
    return dict(sorted(found.items()))


def _drawings(
    figures: Sequence[Figure],
    earlier: Callable[[str], bytes | None],
    draw: Callable[[Sequence[Figure]], Sequence[bytes]],
) -> dict[str, bytes]:
    """SVG by figure's id, each with the name of what it was drawn from behind it; an earlier one of that name stays."""
    seals = {figure.id: _seal(figure) for figure in figures}
    kept = {figure.id: earlier(f"report/figures/{figure.id}.svg") or b"" for figure in figures}
    stale = [figure for figure in figures if not kept[figure.id].endswith(seals[figure.id])]
    fresh = zip(stale, draw(stale), strict=True)
    return kept | {figure.id: svg.rstrip() + b"\n" + seals[figure.id] for figure, svg in fresh}


def _seal(figure: Figure) -> bytes:
    made_of = f"{version('matplotlib')}|{_own_code()}|{figure!r}"
    return f"<!-- {hashlib.sha256(made_of.encode('utf-8', 'surrogatepass')).hexdigest()} -->\n".encode()


@functools.cache
def _own_code() -> str:
    """Hash of the modules that draw: a figure of other code is drawn again."""
    files = [Path(__file__).parent / name for name in ("figures/style.py", "figures/svg.py", "tables/escaping.py")]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def metrics_json(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """`metrics.json`: rows sorted by what names them, keys in the contract's order, numbers that read back the same.

    NaN and infinity become null; `note` is left out.

    Raises:
        ValueError: a row lacks a key, or two rows measure the same thing.
    """
    made = sorted((_metric(row) for row in rows), key=_identity)
    for one, other in pairwise(made):
        if _identity(one) == _identity(other):
            raise ValueError(f"two metrics are named {'/'.join(_identity(one))}")
    lines = ",\n".join(json.dumps(row, ensure_ascii=False, allow_nan=False) for row in made)
    # A lone surrogate cannot be encoded, and its backslash escape is exactly how JSON writes it.
    return f"[\n{lines}\n]\n".encode("utf-8", "backslashreplace") if made else b"[]\n"


def _metric(row: Mapping[str, Any]) -> dict[str, Any]:
    absent = [key for key in METRIC_KEYS if key not in row]
    if absent:
        raise ValueError(f"a metric's row lacks {', '.join(absent)}: {dict(row)}")
    found: dict[str, Any] = {}
    for key in METRIC_KEYS:
        if key in _NUMBERS:
            found[key] = _number(row[key], row["unit"])
        else:
            found[key] = int(row[key]) if key in ("n", "n_failed") else str(row[key])
    return found


def _number(value: object, unit: str) -> float | None:
    number = summary.number_or_none(value)
    whole = number is not None and unit == "count" and number.is_integer()
    return int(number) if number is not None and whole else number


def _identity(row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(row[key] for key in _IDENTITY)


def _table_files(report: ReportData) -> Iterator[tuple[str, str]]:
    for section in report.across:
        for table in section.tables:
            yield from _both(table)
        yield from _numbers(section.figures)
    for part in report.benchmarks:
        headline = summary.headline_table(part, report.metrics)
        made: list[Table] = [headline] if headline else []
        made += [table for _, table, _ in behind(part, report)]
        for table in (*made, *part.tables):
            yield from _both(table)
        yield from _numbers(part.figures)


def _both(table: Table) -> Iterator[tuple[str, str]]:
    yield f"report/tables/{table.id}.csv", tables.to_csv(table)
    yield f"report/tables/{table.id}.tex", tables.to_latex(table)


def _numbers(figures: Sequence[Figure]) -> Iterator[tuple[str, str]]:
    for figure in figures:
        yield f"report/tables/{figure.id}.csv", tables.to_csv(summary.figure_table(figure))
