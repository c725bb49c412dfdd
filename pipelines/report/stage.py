"""Write the report from the reduced results of an output."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from pipelines.plan.run_manifest import RunManifest
from pipelines.predict.cost_tracker import CostTracker
from pipelines.report.benchmark_section import benchmark_section
from pipelines.report.comparability import judge_name
from pipelines.report.entry_results import EntryResults
from pipelines.report.judge_tables import with_corrected_shifts
from pipelines.report.landing.build import build_standings
from pipelines.report.landing.judges import judgings_of
from pipelines.report.landing.tables import cost_table
from pipelines.report.model import ReportData, ReproductionResult
from pipelines.report.portable import portable, portable_text
from pipelines.report.render import render
from pipelines.report.reproduction import reproduction_results
from pipelines.report.sections import ReportInputs, sections_across
from pipelines.storage.published_files import publish_files
from pipelines.storage.store import Store


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
