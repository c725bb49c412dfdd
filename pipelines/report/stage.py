"""Reduce all entries of an output in parallel and write the report."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, TypeVar

from cluster.lazy import LazyCluster
from pipelines.benchmarks import benchmark
from pipelines.benchmarks.people import agreement_table
from pipelines.benchmarks.records import Metric, is_person
from pipelines.benchmarks.results import Results
from pipelines.benchmarks.tables import Table
from pipelines.ingest.human_files import load_human_files
from pipelines.plan.context import SweepContext
from pipelines.plan.run_manifest import ManifestEntry, RunManifest, load_run
from pipelines.predict.cost_tracker import CostTracker
from pipelines.ray_data import translate_ray_error
from pipelines.report.comparability import judge_name
from pipelines.report.entry_frame import PlannedEntry
from pipelines.report.entry_results import EntryResults
from pipelines.report.human_comparison import HumanComparison, gap_tables, human_figures, human_tables
from pipelines.report.judge_tables import judge_tables, with_corrected_shifts
from pipelines.report.landing.build import build_standings
from pipelines.report.landing.judges import judgings_of
from pipelines.report.landing.tables import cost_table
from pipelines.report.measured import TABLES, Measured, MetricSource
from pipelines.report.model import BenchmarkSection, ReportData, ReproductionCell, Section
from pipelines.report.portable import portable, portable_text
from pipelines.report.reduce import reduce_ensemble, reduce_entry, reduce_people, run_later
from pipelines.report.render import render
from pipelines.report.reproduction import reproduction_cells
from pipelines.report.sections import ReportInputs, registered_sections
from pipelines.report.tables.overview import mark_compared
from pipelines.report.tables.prompt_sets import captioner_table, prompt_set_table
from pipelines.report.tables.repeats import tries_table, variance_table, verdict_table
from pipelines.report.tables.reproduction import summary_table
from pipelines.storage.published_files import publish_files
from pipelines.storage.store import Store

T = TypeVar("T")

MAX_ROWS_HERE = 20_000  # reduced in this process by a run on one machine


def reduce_all(context: SweepContext, entries: Sequence[ManifestEntry], cluster: LazyCluster) -> list[EntryResults]:
    """Reduce every entry, and the ensembles: here if they are small, else each in a task of its own on the cluster."""
    planned = [_planned(context, entry) for entry in entries]
    names = sorted({entry.benchmark for entry in entries})
    groups = [[entry for entry in planned if entry.entry.benchmark == name] for name in names]
    people = _people(context, names)
    joint = [
        [planned for planned in group if ensemble.is_member(planned.entry.model)]
        for group in groups
        if (ensemble := group[0].entry.definition.ensemble)
    ]
    in_sets = [in_set for entry in planned for in_set in (entry, *entry.other_prompt_sets)]
    rows = sum(plan.plan.rows for in_set in in_sets for plan in in_set.plans)
    persons = [
        [person for person in group if person.entry.model not in benchmark(name).human.pseudo_people]
        for name, group in people.items()
    ]
    is_here = cluster.is_embedded and rows <= MAX_ROWS_HERE
    submit = run_later if is_here else _submit
    tasks = [partial(reduce_entry, entry, people[entry.entry.benchmark], context.out, submit) for entry in planned]
    tasks += [partial(reduce_ensemble, group, context.out) for group in joint if len(group) > 1]
    tasks += [partial(reduce_people, group, context.out) for group in persons if len(group) > 1]
    if not is_here:
        cluster.connect()
    results = [result() for result in [submit(task) for task in tasks]]
    return sorted(results, key=lambda of: any(is_person(row.model) for row in of.metrics))  # people stand together


def _planned(context: SweepContext, entry: ManifestEntry) -> PlannedEntry:
    first, *further_sets = [PlannedEntry(in_set, context.entry_plans(in_set)) for in_set in entry.by_prompt_set()]
    return PlannedEntry(entry, first.plans, further_sets)


def _submit(function: Callable[[], T]) -> Callable[[], T]:
    """Run a function on the cluster, in a task of its own; a task that waits for another leaves it its processor."""
    import ray

    result = ray.remote(num_cpus=0.5)(_call).remote(function)

    def wait() -> T:
        try:
            value: T = ray.get(result)
        except ray.exceptions.RayError as error:
            raise translate_ray_error(error) from error
        return value

    return wait


def _call(function: Callable[[], T]) -> T:
    return function()


def _people(context: SweepContext, names: Sequence[str]) -> dict[str, list[PlannedEntry]]:
    """Return the people of an output by benchmark, of whom a report may leave out some."""
    people: dict[str, list[PlannedEntry]] = {name: [] for name in names}
    for entry in load_run(context.out).entries:
        if entry.benchmark in people and is_person(entry.model):
            people[entry.benchmark].append(PlannedEntry(entry, context.entry_plans(entry)))
    return people


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
    explain: Callable[[Sequence[ReproductionCell]], Sequence[ReproductionCell]] = tuple,
) -> None:
    """Write `report/` from the results of the entries.

    `explain` adds to cells that differ from a paper's what our own rows could explain; `costs` are those of this run,
    which `run.json` has later.
    """
    rows = with_corrected_shifts([row for results in reduced for row in results.metrics])
    names = sorted({row.benchmark for row in rows})
    replaced = frozenset(model for results in reduced for model in results.replaced)
    shown = [row for row in rows if row.model not in replaced]
    human_files = {name: load_human_files(out, name) for name in names}
    marks = {
        name: {count.model: results.marks for results in reduced for count in results.counts if count.benchmark == name}
        for name in names
    }
    cleaned = [
        f"{row.model}, {row.benchmark} {row.setting}: {row.category} removed from {row.value:,.0f} of {row.n:,} replies"
        for row in shown
        if row.metric == "cleaned_replies"
    ]
    baselines = run.baselines
    efficiency = [row for results in reduced for row in results.efficiency]
    standings = build_standings(out, run, shown, efficiency)
    leaders = {at.benchmark: at.leader for at in standings}
    spending = (*run.spending, *([costs.record()] if costs else []))
    reproduction = explain(reproduction_cells(run, reduced, {name: judge_name(out, run, name) for name in names}))
    data = ReportData(
        run=portable(_facts(run, "; ".join(costs.lines()) if costs else "", out.uri), out.uri),
        metrics=(*rows, *(row for results in reduced for row in results.by_prompt_set)),
        across=(
            *_reproduction(reproduction),
            *registered_sections(ReportInputs(out, run, names, reduced)),
            *_across(names, shown, baselines),
        ),
        reproduction=tuple(reproduction),
        benchmarks=tuple(
            replace(
                _part(name, shown, human_files[name], marks[name], run, reduced=reduced),
                replaced=replaced,
                leader=leaders.get(name),
            )
            for name in names
        ),
        counts=tuple(
            replace(count, first_error=portable_text(count.first_error, out.uri))
            for results in reduced
            for count in results.counts
        ),
        answers=tuple(answer for results in reduced for answer in results.answers),
        warnings=tuple(dict.fromkeys(portable_text(text, out.uri) for text in (*remarks.warnings, *cleaned))),
        notes=tuple(dict.fromkeys(portable_text(text, out.uri) for text in remarks.notes)),
        items=tuple(items for results in reduced for items in results.items),
        efficiency=tuple(efficiency),
        standings=standings,
        judgings=judgings_of(out, run, shown),
        baselines=baselines,
        cost=cost_table(efficiency, run.models, spending, {entry.model for entry in run.entries}),
    )
    publish_files(out, render(data), "report")


def _reproduction(cells: Sequence[ReproductionCell]) -> tuple[Section, ...]:
    by_paper: dict[str, list[ReproductionCell]] = {}
    for cell in cells:
        by_paper.setdefault(cell.benchmark, []).append(cell)
    table = summary_table(by_paper, {name: benchmark(name).title for name in by_paper})
    title = "Our numbers beside the published ones"
    return (Section(name="reproduction", title=title, summary=(table,)),) if table else ()


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


def _across(names: Sequence[str], rows: Sequence[Measured], baselines: frozenset[str]) -> tuple[Section, ...]:
    shares = []
    for name in names:
        definition = benchmark(name)
        metrics = [row for row in rows if row.benchmark == name and row.source == TABLES]
        levels = tuple(definition.human.reference_values(_results(name, rows)))
        shares.append(
            HumanComparison(
                title=definition.title,
                levels=levels,
                metrics=metrics,
                published=definition.published,
                baselines=baselines,
            )
        )
    tables = human_tables(shares)
    if not tables:
        return ()
    section = Section(
        name="people",
        title="Models compared with people",
        summary=tuple(gap_tables(shares)),
        tables=tuple(tables),
        figures=tuple(human_figures(shares)),
    )
    return (section,)


def _results(name: str, rows: Sequence[Measured], judge: str = "") -> Results:
    metrics: dict[str, list[Metric]] = {}
    for row in rows:
        if row.benchmark == name and row.source == MetricSource(judge):
            metrics.setdefault(row.model, []).append(row)
    return Results.of(name, metrics, () if judge else benchmark(name).published)


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


def _part(
    name: str,
    rows: Sequence[Measured],
    files: Mapping[str, str],
    marks: Mapping[str, Mapping[str, float]],
    run: RunManifest,
    *,
    reduced: Sequence[EntryResults],
) -> BenchmarkSection:
    definition, baselines = benchmark(name), run.baselines
    results = _results(name, rows)
    judges = dict.fromkeys(row.source.judge for row in rows if row.benchmark == name and row.source.judge)
    by_judge = {judge: _results(name, rows, judge) for judge in judges}
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
        tables=(
            *(mark_compared(table, baselines) for table in compared),
            *_agreement(name, files, reduced),
            *_prompt_tables(name, reduced),
        ),
        baselines=baselines,
        figures=(*definition.figures(results.without_people()), *figures),
    )
