"""The report's section of one benchmark: its tables and figures, agreement between people, prompt sets and repeats."""

from collections.abc import Iterator, Mapping, Sequence

from pipelines.benchmarks import benchmark
from pipelines.benchmarks.people import agreement_table
from pipelines.benchmarks.tables import Table
from pipelines.ingest.human_files import load_human_files
from pipelines.report.entry_results import EntryResults
from pipelines.report.judge_tables import judge_tables
from pipelines.report.measured import metrics_by_model
from pipelines.report.model import BenchmarkSection
from pipelines.report.sections import ReportInputs
from pipelines.report.tables.overview import mark_compared
from pipelines.report.tables.prompt_sets import captioner_table, prompt_set_table
from pipelines.report.tables.repeats import tries_table, variance_table, verdict_table


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
