"""Sections of the report across benchmarks: functions from `ReportInputs` to sections, ours and those of packages."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pipelines.benchmarks import benchmark
from pipelines.plan.run_manifest import RunManifest
from pipelines.registry import load_all
from pipelines.report.entry_results import EntryResults
from pipelines.report.human_comparison import HumanComparison, gap_tables, human_figures, human_tables
from pipelines.report.landing.standing import Standing
from pipelines.report.metrics_file import TABLES, Measured, metrics_by_model
from pipelines.report.model import ReproductionResult, Section
from pipelines.report.reproduction import summary_table
from pipelines.storage.store import Store

GROUP: Final = "vlmsweep.report_sections"


@dataclass(frozen=True, slots=True)
class ReportInputs:
    """What a section may be made from."""

    out: Store
    run: RunManifest
    benchmarks: Sequence[str]  # with numbers
    results: Sequence[EntryResults]
    shown: Sequence[Measured] = ()  # without models that one row stands for
    replaced: frozenset[str] = frozenset()  # those models
    standings: Sequence[Standing] = ()
    reproduction: Sequence[ReproductionResult] = ()


def sections_across(inputs: ReportInputs) -> Iterator[Section]:
    """Yield the published numbers, the sections of all packages by the names they are registered under, the people."""
    yield from _reproduction(inputs)
    for make in load_all(GROUP).values():
        yield from make(inputs)
    yield from _people(inputs)


def _reproduction(inputs: ReportInputs) -> Iterator[Section]:
    by_paper: dict[str, list[ReproductionResult]] = {}
    for result in inputs.reproduction:
        by_paper.setdefault(result.benchmark, []).append(result)
    if table := summary_table(by_paper, {name: benchmark(name).title for name in by_paper}):
        yield Section(name="reproduction", title="Our numbers beside the published ones", summary=(table,))


def _people(inputs: ReportInputs) -> Iterator[Section]:
    comparisons = []
    for name in inputs.benchmarks:
        definition = benchmark(name)
        comparisons.append(
            HumanComparison(
                title=definition.title,
                levels=tuple(definition.human.reference_values(metrics_by_model(name, inputs.shown))),
                metrics=[row for row in inputs.shown if row.benchmark == name and row.source == TABLES],
                published=definition.published,
                baselines=inputs.run.baselines,
            )
        )
    if tables := human_tables(comparisons):
        yield Section(
            name="people",
            title="Models compared with people",
            summary=tuple(gap_tables(comparisons)),
            tables=tuple(tables),
            figures=tuple(human_figures(comparisons)),
        )
