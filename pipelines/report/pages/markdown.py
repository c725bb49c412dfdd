"""The page `report.md`: the content of the HTML page, for terminals, reviews and issue trackers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipelines.benchmarks.figures import Figure
from pipelines.benchmarks.tables import Table
from pipelines.clean_text import clean
from pipelines.rendering import formats
from pipelines.rendering.environment import ANSWER_LIMIT
from pipelines.rendering.escaping import markdown, shorten
from pipelines.report.model import BenchmarkSection, ExampleAnswer, ReportData
from pipelines.report.pages.html import TITLE, detail_tables, lead
from pipelines.report.tables import overview

_FOOTER = (
    "Rows in italics are published numbers of models, rows named after people are people's; all others were measured "
    "by this run. A dash is a number that was not measured, which is not zero."
)


def markdown_page(report: ReportData) -> str:
    """Return the page; foreign text is escaped, so that it forms no HTML, link or formula."""
    return "\n\n".join(block.strip("\n") for block in _blocks(report) if block) + "\n"


def _blocks(report: ReportData) -> Iterator[str]:
    yield f"# {TITLE}"
    yield markdown(lead(report))
    if report.warnings:
        yield "## Warnings"
        yield "\n".join(f"- {markdown(warning)}" for warning in report.warnings)
    for section in report.across:
        yield f"## {markdown(section.title)}"
        yield from _figures(section.figures)
        for table in (*section.summary, *section.tables):
            yield from _table(table)
    for part in report.benchmarks:
        yield from _part(part, report)
    yield "## About this run"
    yield "\n".join(f"- {markdown(name)}: {markdown(value)}" for name, value in overview.run_facts(report))
    for table in overview.run_tables(report):
        yield f"### {markdown(table.title)}"
        yield formats.to_markdown(table)
    yield _FOOTER


def _figures(figures: Sequence[Figure]) -> Iterator[str]:
    for figure in figures:
        yield f"![{markdown(figure.title)}](figures/{figure.id}.svg)"
        yield from (markdown(note) for note in figure.notes)
        yield f"[CSV](tables/{figure.id}.csv)"


def _part(part: BenchmarkSection, report: ReportData) -> Iterator[str]:
    yield f"## {markdown(part.title)}"
    yield markdown(part.source)
    headline = overview.headline_table(part, report.metrics)
    if headline:
        yield from _table(headline)
    else:
        yield "The headline metric has no rows."
    yield from _figures(part.figures)
    for table in part.tables:
        yield from _table(table)
    for _, table, _ in detail_tables(part, report):
        yield from _table(table)
    answers = [answer for answer in report.answers if answer.benchmark == part.name]
    if answers:
        yield "### Examples of answers"
        for answer in answers:
            yield from _answer(answer)


def _table(table: Table) -> Iterator[str]:
    yield f"### {markdown(table.title)}"
    yield formats.to_markdown(table)
    yield f"[CSV](tables/{table.id}.csv) [LaTeX](tables/{table.id}.tex)"


def _answer(answer: ExampleAnswer) -> Iterator[str]:
    identity = (answer.model, answer.task, answer.setting, answer.sample_id, answer.variant, answer.prompt_set)
    yield f"**{answer.verdict}**: {', '.join(markdown(name) for name in identity if name)}"
    parsed = "nothing" if answer.read_as is None else markdown(answer.read_as)
    yield f"- read as: {parsed}" + (f"\n- note: {markdown(shorten(answer.note, ANSWER_LIMIT))}" if answer.note else "")
    yield _quoted("Question", answer.question)
    yield _quoted("Output", "none" if answer.output is None else answer.output)


def _quoted(name: str, text: str) -> str:
    """Return foreign text as a quotation, escaped line by line."""
    lines = [markdown(line) for line in shorten(clean(text), ANSWER_LIMIT).splitlines()]
    quoted = (f"{name}:\\", *(f"{line}\\" for line in lines if line))
    return "\n".join(f"> {line}" for line in quoted).removesuffix("\\")
