"""The HTML pages: `index.html` with the answers, a page a benchmark, and one for each section across them.

They need no network, and are whole without the one script, which sorts tables; figures are files beside them. Model
text is inert for three reasons: it is cleaned, it is escaped, and the pages' content security policy forbids frames,
forms, external requests and any script and style but their own, by hash. Figures are images, which run no scripts.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pipelines.benchmarks.figures import Figure
from pipelines.benchmarks.records import is_person
from pipelines.benchmarks.tables import Table
from pipelines.clean_text import one_line
from pipelines.rendering import formats
from pipelines.rendering.environment import ITEMS, render_page
from pipelines.report.landing.tables import summary_of
from pipelines.report.model import BenchmarkSection, ReportData, Section
from pipelines.report.reproduction import own_rows_table, results_table
from pipelines.report.tables import overview
from pipelines.report.tables.token_efficiency import cost_table, efficiency_table

TITLE: Final = "Evaluation report"
SHOWN_DOUBTS: Final = 5  # of the landing page, unfolded
_DATES = ("finished", "updated", "started", "created")  # dates of the run, in order of preference
_SVG_SIZE = re.compile(rb'<svg[^>]* width="([0-9.]+)" height="([0-9.]+)"')


def html_pages(report: ReportData, drawings: Mapping[str, bytes]) -> dict[str, str]:
    """Return the pages by name; `drawings` holds SVG by figure id."""
    links = page_links(report)
    pages = {
        "index.html": render_page(
            "index.html.j2", "index.html", TITLE, lead(report), links, **_landing(report, drawings)
        )
    }
    for section in report.across:
        pages[_section_path(section)] = render_page(
            "section.html.j2",
            _section_path(section),
            section.title,
            lead(report),
            links,
            part={
                "summary": [_table(table) for table in section.summary],
                "figures": list(_figures(section.figures, drawings)),
                "tables": [_table(table) for table in section.tables],
            },
        )
    for part in report.benchmarks:
        pages[_part_path(part)] = render_page(
            "benchmark.html.j2", _part_path(part), part.title, part.source, links, part=_part(part, report, drawings)
        )
    return pages


def page_links(report: ReportData) -> list[dict[str, str]]:
    """Return path and title of every page and of the files that have no page, for the head of each page."""
    pages = [("index.html", "Overview")]
    pages += [(_part_path(part), part.title) for part in report.benchmarks]
    pages += [(_section_path(section), section.title) for section in report.across]
    pages += [(ITEMS, "Items behind the tables")] if report.items else []
    pages += [("metrics.json", "metrics.json"), ("report.md", "report.md")]
    return [{"path": path, "title": title} for path, title in pages]


def lead(report: ReportData) -> str:
    """Return one line with models, benchmarks and date."""
    people = {row.model for row in report.metrics if is_person(row.model)}
    models = [*dict.fromkeys(row.model for row in report.metrics if row.model not in report.baselines | people)]
    names = ", ".join(models) if 0 < len(models) <= 3 else f"{len(models)} models"
    date = next((report.run[key] for key in _DATES if report.run.get(key)), None)
    text = f"{names} on {', '.join(part.title for part in report.benchmarks) or 'no benchmark'}"
    return f"{text}, {str(date)[:16].replace('T', ' ')}" if date else text


def detail_tables(part: BenchmarkSection, report: ReportData) -> list[tuple[str, Table, bool]]:
    """Return the tables of details of a benchmark: heading, table, and whether it is shown unfolded."""
    counts = [count for count in report.counts if count.benchmark == part.name]
    is_incomplete = any(count.error or count.excluded or count.missing for count in counts)
    results = [result for result in report.reproduction if result.benchmark == part.name]
    tables = (
        ("Our numbers beside the published ones", results_table(part.name, part.title, results), False),
        ("What our own rows could explain of it", own_rows_table(part.name, part.title, results), False),
        ("Requests by status", overview.counts_table(part, report.counts), is_incomplete),
        ("Not measured, and why", overview.notes_table(part, report.metrics, measured=False), True),
        ("Tokens paid and cached", cost_table(part.name, part.title, report.efficiency), False),
        ("Tokens computed", efficiency_table(part.name, part.title, report.efficiency), False),
        ("How to read these numbers", overview.notes_table(part, report.metrics, measured=True), False),
    )
    return [(name, table, unfolded) for name, table, unfolded in tables if table is not None]


def _landing(report: ReportData, drawings: Mapping[str, bytes]) -> dict[str, Any]:
    summary = summary_of(report)
    return {
        "verdicts": [
            {"line": verdict, "metric": at.metric, "path": f"benchmark-{at.benchmark}.html"}
            for verdict, at in zip(summary.verdicts, report.standings, strict=True)
        ],
        "judges": summary.judges,
        "doubts": summary.doubts[:SHOWN_DOUBTS],
        "more_doubts": summary.doubts[SHOWN_DOUBTS:],
        "matrix": _table(summary.matrix) if summary.matrix else None,
        "cost": _table(report.cost) if report.cost else None,
        "figure": next(_figures([summary.figure], drawings)) if summary.figure else None,
        "parts": [_summary(part, report) for part in report.benchmarks],
        "across": [{"path": _section_path(section), "title": section.title} for section in report.across],
        "notes": report.notes,
        "facts": overview.run_facts(report),
        "run_tables": [_table(table) for table in overview.run_tables(report)],
    }


def _summary(part: BenchmarkSection, report: ReportData) -> dict[str, Any]:
    """Return what the landing page says of a benchmark's page."""
    return {
        "path": _part_path(part),
        "title": part.title,
        "is_empty": overview.headline_table(part, report.metrics) is None,
        "tables": len(part.tables),
        "figures": len(part.figures),
        "answers": sum(answer.benchmark == part.name for answer in report.answers),
    }


def _part(part: BenchmarkSection, report: ReportData, drawings: Mapping[str, bytes]) -> dict[str, Any]:
    headline = overview.headline_table(part, report.metrics)
    return {
        "measure": part.measure,
        "judges": [f"{judging}." for judging in report.judgings if judging.benchmark == part.name],
        "headline": _table(headline, part.name) if headline else None,
        "figures": list(_figures(part.figures, drawings)),
        "tables": [_table(table, part.name) for table in part.tables],
        "details": [
            (name, _table(table, part.name), unfolded) for name, table, unfolded in detail_tables(part, report)
        ],
        "answers": [answer for answer in report.answers if answer.benchmark == part.name],
    }


def _part_path(part: BenchmarkSection) -> str:
    return f"benchmark-{part.name}.html"


def _section_path(section: Section) -> str:
    return f"{section.name}.html"


def _table(table: Table, benchmark: str = "") -> dict[str, Any]:
    return {"id": table.id, "title": table.title, "grid": formats.html(table, benchmark)}


def _figures(figures: Sequence[Figure], drawings: Mapping[str, bytes]) -> Iterator[dict[str, Any]]:
    for figure in figures:
        size = _SVG_SIZE.search(drawings[figure.id])
        width, height = (value.decode() for value in size.groups()) if size else ("", "")
        yield {
            "id": figure.id,
            "title": one_line(figure.title),
            "notes": figure.notes,
            "numbers": _table(overview.figure_table(figure)),
            "width": width,  # reserves the place of an image that is loaded later
            "height": height,
        }
