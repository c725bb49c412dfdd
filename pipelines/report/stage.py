"""Write the report from the reduced results of an output."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from pipelines.benchmarks import benchmark
from pipelines.benchmarks.people import agreement_table
from pipelines.benchmarks.tables import Table
from pipelines.ingest.human_files import load_human_files
from pipelines.plan.run_manifest import RunManifest
from pipelines.predict.cost_tracker import CostTracker
from pipelines.report.comparability import judge_name
from pipelines.report.entry_results import EntryResults
from pipelines.report.judge_tables import judge_tables, with_corrected_shifts
from pipelines.report.landing.sentences import judgings_of
from pipelines.report.landing.tables import build_standings, cost_table
from pipelines.report.metrics_file import metrics_by_model
from pipelines.report.model import BenchmarkSection, ReportData, ReproductionResult
from pipelines.report.portable import portable, portable_text
from pipelines.report.render import render
from pipelines.report.reproduction import reproduction_results
from pipelines.report.sections import ReportInputs, sections_across
from pipelines.report.tables.overview import mark_compared
from pipelines.report.tables.prompt_sets import captioner_table, prompt_set_table
from pipelines.report.tables.repeats import (
    tries_table,
    variance_table,
    verdict_table,
)
from pipelines.storage.store import Store, publish_files


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
