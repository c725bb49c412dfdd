"""The page `index.html`: one file that opens anywhere, without network, scripts or anything fetched.

Three fences keep model text inert: it is cleaned, it is escaped, and the page's own policy forbids scripts, frames,
forms, outside requests and any style but the one whose hash it names. Figures are pictures; no script runs in those.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from markupsafe import Markup

from pipelines.benchmarks.figures import Figure
from pipelines.benchmarks.tables import Table
from pipelines.report.figures.style import GRID, INK, MUTED, PAPER
from pipelines.report.model import BenchmarkSection, ReportData, Section
from pipelines.report.pages.environment import environment
from pipelines.report.tables import formats as tables
from pipelines.report.tables import overview as summary
from pipelines.report.tables.escaping import one_line
from pipelines.report.token_efficiency import efficiency_table

TITLE = "Evaluation report"
_WHEN = ("finished", "updated", "started", "created")
"""Facts of the run that date it, the best first."""
_THEME = (
    f":root{{--ink:{INK};--muted:{MUTED};--grid:{GRID};--paper:#ffffff}}"
    "@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--muted:#9aa4af;--grid:#30363d;--paper:#0d1117}}"
)
_COLOURS = {INK: "--ink", MUTED: "--muted", GRID: "--grid", PAPER: "--paper"}


def page(report: ReportData, drawings: Mapping[str, bytes]) -> str:
    """The whole page.

    Args:
        report: what to show.
        drawings: SVG by figure id.
    """
    css = files("pipelines.report.pages").joinpath("templates", "report.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(css.encode()).digest()).decode()
    policy = f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    template = environment().get_template("index.html.j2")
    return template.render(
        title=TITLE,
        lead=lead(report),
        policy=policy,
        css=Markup(css),  # noqa: S704 - a file of this package
        warnings=report.warnings,
        facts=summary.run_facts(report),
        run_tables=[_table(table) for table in summary.run_tables(report)],
        across=[_section(section, drawings) for section in report.across],
        parts=[_part(place, part, report, drawings) for place, part in enumerate(report.benchmarks, start=1)],
    )


def lead(report: ReportData) -> str:
    """One line on what the report is about."""
    models = list(dict.fromkeys(str(row["model"]) for row in report.metrics))
    named = ", ".join(models) if 0 < len(models) <= 3 else f"{len(models)} models"
    when = next((report.run[key] for key in _WHEN if report.run.get(key)), None)
    words = f"{named} on {', '.join(part.title for part in report.benchmarks) or 'no benchmark'}"
    return f"{words}, {when}" if when else words


def behind(part: BenchmarkSection, report: ReportData) -> list[tuple[str, Table, bool]]:
    """Tables that stand behind a benchmark's numbers: heading, table, and whether it is shown unfolded."""
    counts = [one for one in report.counts if one.benchmark == part.name]
    trouble = any(one.error or one.excluded or one.missing for one in counts)
    found = (
        ("Requests and what became of them", summary.counts_table(part, report.counts), trouble),
        ("Not measured, and why", summary.notes_table(part, report.metrics, measured=False), True),
        ("Tokens computed", efficiency_table(part.name, part.title, report.efficiency), False),
        ("How to read these numbers", summary.notes_table(part, report.metrics, measured=True), False),
    )
    return [(name, table, unfolded) for name, table, unfolded in found if table is not None]


def _section(section: Section, drawings: Mapping[str, bytes]) -> dict[str, Any]:
    return {
        "anchor": section.name,
        "title": section.title,
        "figures": [_figure(figure, drawings[figure.id]) for figure in section.figures],
        "tables": [_table(table) for table in section.tables],
    }


def _part(place: int, part: BenchmarkSection, report: ReportData, drawings: Mapping[str, bytes]) -> dict[str, Any]:
    headline = summary.headline_table(part, report.metrics)
    return {
        "anchor": f"benchmark-{place}",
        "title": part.title,
        "source": part.source,
        "headline": _table(headline) if headline else None,
        "figures": [_figure(figure, drawings[figure.id]) for figure in part.figures],
        "tables": [_table(table) for table in part.tables],
        "behind": [(name, _table(table), unfolded) for name, table, unfolded in behind(part, report)],
        "answers": [answer for answer in report.answers if answer.benchmark == part.name],
    }


def _table(table: Table) -> dict[str, Any]:
    return {"id": table.id, "title": table.title, "grid": tables.html(table)}


def _figure(figure: Figure, drawing: bytes) -> dict[str, Any]:
    numbers = _table(summary.figure_table(figure))
    title = one_line(figure.title)
    return {"id": figure.id, "title": title, "notes": figure.notes, "numbers": numbers, "source": _embedded(drawing)}


def _embedded(drawing: bytes) -> str:
    """The SVG as data address, its four neutral colours following the reader's colour scheme."""
    body = drawing.decode()
    for colour, name in _COLOURS.items():
        body = body.replace(colour, f"var({name})")
    start = body.index(">", body.index("<svg")) + 1
    themed = f"{body[:start]}<style>{_THEME}</style>{body[start:]}"
    return "data:image/svg+xml;base64," + base64.b64encode(themed.encode()).decode()
