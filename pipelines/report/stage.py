"""Write the report from the reduced results of an output."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import fmean, stdev
from typing import Any, TypeVar

from pipelines.benchmarks import benchmark
from pipelines.benchmarks.figures import Figure, Points
from pipelines.benchmarks.people import agreement_table
from pipelines.benchmarks.tables import Table, TableCell, TableRow
from pipelines.ingest.human_files import load_human_files
from pipelines.plan.run_manifest import RunManifest
from pipelines.predict.cost_tracker import CostTracker
from pipelines.rendering import formats
from pipelines.rendering.environment import markdown
from pipelines.rendering.figures.svg import to_svg_bytes, to_text
from pipelines.report.comparability import judge_name
from pipelines.report.entry_results import EntryResults
from pipelines.report.judge_tables import judge_tables, with_corrected_shifts
from pipelines.report.landing.sentences import judgings_of
from pipelines.report.landing.tables import build_standings, cost_table, summary_of
from pipelines.report.metrics_file import PATH as METRICS
from pipelines.report.metrics_file import Measured, MetricSource, metrics_by_model, metrics_json
from pipelines.report.model import BenchmarkSection, ReportData, ReproductionResult, Section
from pipelines.report.pages.html import TITLE, detail_tables, html_pages, lead, page_links
from pipelines.report.pages.items import item_files
from pipelines.report.portable import portable, portable_text
from pipelines.report.reproduction import PATH as REPRODUCTION
from pipelines.report.reproduction import reproduction_json, reproduction_results
from pipelines.report.sections import ReportInputs, sections_across
from pipelines.report.tables import overview
from pipelines.report.tables.overview import mark_compared
from pipelines.report.tables.repeats import tries_table, variance_table, verdict_table
from pipelines.report.worded import worded, worded_if_any
from pipelines.storage.store import Store, publish_files

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


def prompt_set_table(name: str, reduced: Sequence[EntryResults]) -> Table | None:
    """Return models by sets of prompts for the headline metrics of a benchmark; None where none has several sets."""
    compared = [results for results in reduced if results.prompt_sets and _has_sets(results, name)]
    sets = tuple(dict.fromkeys(prompt_set for results in compared for prompt_set in results.prompt_sets))
    rows = [row for results in compared for row in _rows(name, results, sets)]
    title = benchmark(name).title
    return worded("prompt_sets", rows, columns=sets, name=name, title=title) if compared else None


def captioner_table(name: str, reduced: Sequence[EntryResults]) -> Table | None:
    """Return models by captioners for the headline metrics of a benchmark; None where none read several's captions."""
    compared = [results for results in reduced if results.captioners and _has_sets(results, name)]
    captioners = tuple(dict.fromkeys(captioner for results in compared for captioner in results.captioners))
    rows = [row for results in compared for row in _rows_by_captioner(name, results, captioners)]
    return worded_if_any("captioners", rows, columns=captioners, name=name, title=benchmark(name).title)


def _rows_by_captioner(name: str, results: EntryResults, captioners: Sequence[str]) -> Iterator[TableRow]:
    first, in_sets = results.captioners[0], {row.key: row for row in results.by_prompt_set}
    for row in _headline_rows(name, results):
        if row.setting not in benchmark(name).captions.settings:
            continue
        sources = (MetricSource(captioner=other) for other in captioners)
        numbers = [in_sets.get(row.key._replace(source=source)) for source in sources]
        rows = {**dict(zip(captioners, numbers, strict=True)), first: row}
        cells = [number.cell if number else None for number in rows.values()]
        yield TableRow(label=row.model, cells=(row.task, row.setting, row.metric, *cells))


def _has_sets(results: EntryResults, name: str) -> bool:
    return any(row.benchmark == name for row in results.by_prompt_set)


def _headline_rows(name: str, results: EntryResults) -> Iterator[Measured]:
    """Yield the headline metrics of a model over the whole that are fractions, or differences of such."""
    definition = benchmark(name)
    metrics = {*definition.main_metrics, *definition.judged_metrics}
    for row in results.metrics:
        if row.is_whole and row.metric in metrics and row.unit == "fraction":
            yield row


def _rows(name: str, results: EntryResults, sets: Sequence[str]) -> Iterator[TableRow]:
    first, in_sets = results.prompt_sets[0], {row.key: row for row in results.by_prompt_set}
    for row in _headline_rows(name, results):
        if row.is_plain:
            continue
        rows = {name: in_sets.get(row.key._replace(source=MetricSource(prompt_set=name))) for name in sets}
        rows[first] = row
        # Counts are in the headline table.
        cells = [replace(number.cell, n=None, n_failed=None) if number else None for number in map(rows.get, sets)]
        values = [cell.value for cell in cells if cell is not None and cell.value is not None]
        spread: tuple[TableCell, ...] = (None,) * 4
        if len(values) > 1:
            spread = (fmean(values), stdev(values), min(values), max(values))
        yield TableRow(label=row.model, cells=(row.task, row.setting, row.metric, *cells, *spread))


def benchmark_section(name: str, inputs: ReportInputs) -> BenchmarkSection:
    """Return the section of a benchmark that has metrics."""
    run, rows, reduced = inputs.run, inputs.shown, inputs.results
    definition, baselines = benchmark(name), run.baselines
    files = load_human_files(inputs.out, name)
    marks = {count.model: results.marks for results in reduced for count in results.counts if count.benchmark == name}
    results = metrics_by_model(name, rows)
    judges = dict.fromkeys(row.source.judge for row in rows if row.benchmark == name and row.source.judge)
    by_judge = {judge: metrics_by_model(name, rows, judge) for judge in judges}
    tables, figures = definition.human.display(files, marks, results)
    judged = judge_tables(results, by_judge, definition, run.models)
    compared = (*definition.tables(results), *judged, *tables)
    return BenchmarkSection(
        name=name,
        title=definition.title,
        source=definition.citation,
        headline=definition.headline,
        measure=definition.measure,
        settings=tuple(dict.fromkeys(setting for settings in definition.tasks.values() for setting in settings)),
        replaced=inputs.replaced,
        leader=next((at.leader for at in inputs.standings if at.benchmark == name), None),
        tables=(
            *(mark_compared(table, baselines) for table in compared),
            *_agreement(name, files, reduced),
            *_prompt_tables(name, reduced),
        ),
        baselines=baselines,
        figures=(*definition.figures(results.without_people()), *figures),
    )


def _agreement(name: str, files: Mapping[str, str], reduced: Sequence[EntryResults]) -> Sequence[Table]:
    """Return the table of agreement between people, of files and of predictions, on answers and on labels."""
    groups = benchmark(name).human.labels(files)
    for results in reduced:
        for heading, answers in results.read_answers.items() if results.counts else ():
            if results.counts[0].benchmark == name:
                groups.setdefault(heading, {})[results.counts[0].model] = answers
    return agreement_table(name, benchmark(name).title, groups)


def _prompt_tables(name: str, reduced: Sequence[EntryResults]) -> Iterator[Table]:
    """Yield the tables by set of prompts and captioner, where a model has several, of repeats and logged verdicts."""
    tables = (
        prompt_set_table(name, reduced),
        captioner_table(name, reduced),
        tries_table(name, [row for results in reduced for row in results.metrics]),
        variance_table(name, [row for results in reduced for row in results.variance]),
        verdict_table(name, [verdicts for results in reduced for verdicts in results.verdicts]),
    )
    yield from filter(None, tables)


@dataclass(frozen=True, slots=True)
class Remarks:
    """What a report says beside its numbers."""

    warnings: Sequence[str] = ()  # for the reader of the numbers
    notes: Sequence[str] = ()  # what nobody asked for and was left out


def publish(
    out: Store,
    run: RunManifest,
    reduced: Sequence[EntryResults],
    remarks: Remarks,
    *,
    costs: CostTracker | None = None,
    explain: Callable[[Sequence[ReproductionResult]], Sequence[ReproductionResult]] = tuple,
) -> None:
    """Write `report/` from the results of the entries.

    `explain` adds to results that differ from a paper's what our own rows could explain; `costs` are those of this run,
    which `run.json` has later.
    """
    rows = with_corrected_shifts([row for results in reduced for row in results.metrics])
    names = sorted({row.benchmark for row in rows})
    replaced = frozenset(model for results in reduced for model in results.replaced)
    shown = [row for row in rows if row.model not in replaced]
    cleaned = [
        f"{row.model}, {row.benchmark} {row.setting}: {row.category} removed from {row.value:,.0f} of {row.n:,} replies"
        for row in shown
        if row.metric == "cleaned_replies"
    ]
    efficiency = tuple(row for results in reduced for row in results.efficiency)
    standings = build_standings(out, run, shown, efficiency)
    spending = (*run.spending, *([costs.record()] if costs else []))
    reproduction = explain(reproduction_results(run, reduced, {name: judge_name(out, run, name) for name in names}))
    inputs = ReportInputs(out, run, names, reduced, shown, replaced, standings, reproduction)
    data = ReportData(
        run=portable(_facts(run, "; ".join(costs.lines()) if costs else "", out.uri), out.uri),
        metrics=(*rows, *(row for results in reduced for row in results.by_prompt_set)),
        across=tuple(sections_across(inputs)),
        reproduction=tuple(reproduction),
        benchmarks=tuple(benchmark_section(name, inputs) for name in names),
        counts=tuple(
            replace(count, first_error=portable_text(count.first_error, out.uri))
            for results in reduced
            for count in results.counts
        ),
        answers=tuple(answer for results in reduced for answer in results.answers),
        warnings=tuple(dict.fromkeys(portable_text(text, out.uri) for text in (*remarks.warnings, *cleaned))),
        notes=tuple(dict.fromkeys(portable_text(text, out.uri) for text in remarks.notes)),
        items=tuple(items for results in reduced for items in results.items),
        efficiency=efficiency,
        standings=standings,
        judgings=judgings_of(out, run, shown),
        baselines=run.baselines,
        cost=cost_table(efficiency, run.models, spending, {entry.model for entry in run.entries}),
    )
    publish_files(out, render(data), "report")


def _facts(run: RunManifest, spent: str, out: str) -> dict[str, Any]:
    """Return the run for the report's head; entries and full wording stay in `run.json`.

    Arguments are made portable one by one: joined, a folder's name with a space would be two words.
    """
    shown = {name: value for name, value in run.sweep.to_record().items() if value not in (None, (), "")}
    return {
        "product": run.product,
        "created": run.created,
        "updated": run.updated,
        **{
            name: " ".join(portable(value, out)) if isinstance(value, tuple) else value for name, value in shown.items()
        },
        **({"spent by this run": spent} if spent else {}),
        "models": run.models,
        "datasets": {name: asdict(dataset) for name, dataset in run.datasets.items()},
        "versions": run.versions,
    }
