"""The page `report.md`: the answers and the headlines, for terminals, reviews and issue trackers."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.benchmarks.tables import Table
from pipelines.rendering import formats
from pipelines.rendering.escaping import markdown
from pipelines.report.landing.summary import summary_of
from pipelines.report.model import ReportData
from pipelines.report.pages.html import TITLE, lead
from pipelines.report.tables import overview

_FOOTER = (
    "Rows in italics are published numbers of models, rows named after people are people's; all others were measured "
    "by this run. A dash is a number that was not measured, which is not zero. All else is in `index.html`."
)


def markdown_page(report: ReportData) -> str:
    """Return the page; foreign text is escaped, so that it forms no HTML, link or formula."""
    return "\n\n".join(block.strip("\n") for block in _blocks(report) if block) + "\n"


def _blocks(report: ReportData) -> Iterator[str]:
    summary = summary_of(report)
    yield f"# {TITLE}"
    yield markdown(lead(report))
    yield "\n".join(f"- {markdown(verdict.text)}" for verdict in summary.verdicts)
    yield from map(markdown, summary.judges)
    if summary.doubts:
        yield "## Read with care"
        yield "\n".join(f"- {markdown(doubt)}" for doubt in summary.doubts)
    for table in filter(None, (summary.matrix, report.cost)):
        yield from _table(table)
    if summary.figure:
        yield f"![{markdown(summary.figure.title)}](figures/{summary.figure.id}.svg)"
    for part in report.benchmarks:
        yield f"## {markdown(part.title)}"
        yield markdown(part.source)
        headline = overview.headline_table(part, report.metrics)
        yield from _table(headline) if headline else ["The headline metric has no rows."]
        yield f"[{len(part.tables)} tables, {len(part.figures)} figures](benchmark-{part.name}.html)"
    yield _FOOTER


def _table(table: Table) -> Iterator[str]:
    yield f"### {markdown(table.title)}"
    yield formats.to_markdown(table)
    yield f"[CSV](tables/{table.id}.csv) [LaTeX](tables/{table.id}.tex)"
