"""The page `index.html`: one self-contained file without scripts.

Model text is inert for three reasons: it is cleaned, it is escaped, and the page's content security policy forbids
scripts, frames, forms, external requests and any style but its own, by hash. Figures are images, which run no scripts.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from pipelines.benchmarks.figures import Figure
from pipelines.benchmarks.tables import Table
from pipelines.report.model import BenchmarkSection, ReportData, Section
from pipelines.report.pages.environment import environment, inline_file
from pipelines.report.tables import formats, overview
from pipelines.report.tables.escaping import one_line
from pipelines.report.tables.reproduction import cells_table
from pipelines.report.token_efficiency import efficiency_table

TITLE = "Evaluation report"
_DATES = ("finished", "updated", "started", "created")
"""Dates of the run, in order of preference."""


def html_page(report: ReportData, drawings: Mapping[str, bytes]) -> str:
    """Return the page; `drawings` holds SVG by figure id."""
    css, css_source = inline_file("report.css")
    policy = f"default-src 'none'; img-src data:; style-src {css_source}; base-uri 'none'; form-action 'none'"
    template = environment().get_template("index.html.j2")
    return template.render(
        title=TITLE,
        lead=lead(report),
        policy=policy,
        css=css,
        has_items=bool(report.items),
        warnings=report.warnings,
        facts=overview.run_facts(report),
        run_tables=[_table(table) for table in overview.run_tables(report)],
        across=[_section(section, drawings) for section in report.across],
        parts=[_part(number, part, report, drawings) for number, part in enumerate(report.benchmarks, start=1)],
    )


def lead(report: ReportData) -> str:
    """Return one line with models, benchmarks and date."""
    models = list(dict.fromkeys(str(row["model"]) for row in report.metrics))
    names = ", ".join(models) if 0 < len(models) <= 3 else f"{len(models)} models"
    date = next((report.run[key] for key in _DATES if report.run.get(key)), None)
    text = f"{names} on {', '.join(part.title for part in report.benchmarks) or 'no benchmark'}"
    return f"{text}, {date}" if date else text


def detail_tables(part: BenchmarkSection, report: ReportData) -> list[tuple[str, Table, bool]]:
    """Return the tables of details of a benchmark: heading, table, and whether it is shown unfolded."""
    counts = [count for count in report.counts if count.benchmark == part.name]
    is_incomplete = any(count.error or count.excluded or count.missing for count in counts)
    cells = [cell for cell in report.reproduction if cell.benchmark == part.name]
    tables = (
        ("Our numbers beside the published ones", cells_table(part.name, part.title, cells), False),
        ("Requests by status", overview.counts_table(part, report.counts), is_incomplete),
        ("Not measured, and why", overview.notes_table(part, report.metrics, measured=False), True),
        ("Tokens computed", efficiency_table(part.name, part.title, report.efficiency), False),
        ("How to read these numbers", overview.notes_table(part, report.metrics, measured=True), False),
    )
    return [(name, table, unfolded) for name, table, unfolded in tables if table is not None]


def _section(section: Section, drawings: Mapping[str, bytes]) -> dict[str, Any]:
    return {
        "anchor": section.name,
        "title": section.title,
        "figures": [_figure(figure, drawings[figure.id]) for figure in section.figures],
        "tables": [_table(table) for table in section.tables],
    }


def _part(number: int, part: BenchmarkSection, report: ReportData, drawings: Mapping[str, bytes]) -> dict[str, Any]:
    headline = overview.headline_table(part, report.metrics)
    return {
        "anchor": f"benchmark-{number}",
        "title": part.title,
        "source": part.source,
        "headline": _table(headline) if headline else None,
        "figures": [_figure(figure, drawings[figure.id]) for figure in part.figures],
        "tables": [_table(table) for table in part.tables],
        "details": [(name, _table(table), unfolded) for name, table, unfolded in detail_tables(part, report)],
        "answers": [answer for answer in report.answers if answer.benchmark == part.name],
    }


def _table(table: Table) -> dict[str, Any]:
    return {"id": table.id, "title": table.title, "grid": formats.html(table)}


def _figure(figure: Figure, drawing: bytes) -> dict[str, Any]:
    return {
        "id": figure.id,
        "title": one_line(figure.title),
        "notes": figure.notes,
        "numbers": _table(overview.figure_table(figure)),
        "source": "data:image/svg+xml;base64," + base64.b64encode(drawing).decode(),
    }
