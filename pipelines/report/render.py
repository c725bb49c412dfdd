"""Render `ReportData` to files, relative paths and contents; `report.md` is for terminals and issue trackers."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from pipelines.benchmarks.figures import Figure, Points
from pipelines.benchmarks.tables import Table
from pipelines.rendering import formats
from pipelines.rendering.environment import markdown
from pipelines.rendering.figures.svg import to_svg_bytes, to_text
from pipelines.report.landing.tables import summary_of
from pipelines.report.metrics_file import PATH as METRICS
from pipelines.report.metrics_file import metrics_json
from pipelines.report.model import BenchmarkSection, ReportData, Section
from pipelines.report.pages.html import TITLE, detail_tables, html_pages, lead, page_links
from pipelines.report.pages.items import item_files
from pipelines.report.reproduction import PATH as REPRODUCTION
from pipelines.report.reproduction import reproduction_json
from pipelines.report.tables import overview

Part = TypeVar("Part", Section, BenchmarkSection)


def render(report: ReportData) -> dict[str, bytes]:
    """Render all files of a report: relative path -> content, sorted by path; equal data gives equal bytes.

    The files are `index.html`, `benchmark-<name>.html`, `people.html` where models are compared with people,
    `report.md`, `metrics.json`, `reproduction.json`, `tables/<id>.csv` and `.tex`, `figures/<id>.svg`, the first page's
    also as `.txt`, and where items are listed `items.html` and `items/<id>.csv`, all under `report/`. Raises ValueError
    as `metrics_json`, or if two tables have the same id.
    """
    contents: dict[str, bytes] = {
        METRICS: metrics_json(report.metrics),
        REPRODUCTION: reproduction_json(report.reproduction),
    }
    files = [(path, content.encode()) for path, content in _table_files(report)]
    for path, content in (*files, *(file for section in report.across for file in section.files.items())):
        if path in contents:
            raise ValueError(f"two tables or figures would be written to {path}")
        contents[path] = content
    shown = replace(
        report,
        across=tuple(map(_without_repetitions, report.across)),
        benchmarks=tuple(map(_without_repetitions, report.benchmarks)),
    )
    figures = [figure for section in shown.across for figure in section.figures]
    figures += [figure for part in shown.benchmarks for figure in part.figures]
    if figure := summary_of(report).figure:
        figures.append(figure)
        contents[f"report/figures/{figure.id}.txt"] = to_text(figure).encode("utf-8", "replace")
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


def _table_files(report: ReportData) -> Iterator[tuple[str, str]]:
    summary = summary_of(report)
    for table in filter(None, (summary.matrix, report.cost)):
        yield from _formats(table)
    yield from _numbers([summary.figure] if summary.figure else [])
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
