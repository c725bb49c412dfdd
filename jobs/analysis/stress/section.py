"""The page of a stress test: which conclusions flip, and of which models and pairs."""

from collections.abc import Iterator, Sequence
from typing import Final

from jobs.analysis.stress.changes import (
    FLIPS,
    PATH,
    SIGNIFICANCE,
    Estimate,
    PairChange,
    StressedCell,
    stress_json,
    stressed_cells,
    with_holm,
)
from pipelines.benchmarks import benchmark
from pipelines.benchmarks.tables import Table, TableCell, TableRow, TableValue
from pipelines.plan.stress.conditions import Condition
from pipelines.report.model import Section
from pipelines.report.sections import ReportInputs
from pipelines.report.worded import worded

_WORDS: Final = "jobs.analysis.stress"


def stress_section(inputs: ReportInputs) -> tuple[Section, ...]:
    """Return the page of a run's stress test; none without one."""
    cells: list[StressedCell] = []
    for name in inputs.benchmarks:
        rows = {
            results.counts[0].model: results.stressed
            for results in inputs.results
            if results.stressed is not None and results.counts[0].benchmark == name
        }
        cells += stressed_cells(name, rows, inputs.run.baselines)
    return (section_of(with_holm(cells)),) if cells else ()


def section_of(cells: Sequence[StressedCell]) -> Section:
    """Return the page of cells, with their file."""
    conditions = dict.fromkeys(cell.condition for cell in cells)
    conclusions = worded(
        f"{_WORDS}:stress",
        (TableRow(label=benchmark(cell.benchmark).title, cells=_conclusion(cell)) for cell in cells),
        notes=[f"{name}: {Condition.parse(name).text}." for name in conditions],
        significance=SIGNIFICANCE,
    )
    tables: tuple[Table, ...] = (
        worded(f"{_WORDS}:stress_models", _models(cells)),
        worded(f"{_WORDS}:stress_pairs", _pairs(cells), significance=SIGNIFICANCE),
    )
    tables = tuple(table for table in tables if table.rows)
    files = {PATH: stress_json(cells)}
    return Section(name="stress", title="Stress test", summary=(conclusions,), tables=tables, files=files)


def _conclusion(cell: StressedCell) -> tuple[TableCell, ...]:
    return (
        *(cell.condition, cell.conclusion, cell.task, cell.setting, _value(cell.moved), _value(cell.change)),
        *(len(cell.models), len(cell.pairs), cell.swapped, cell.swapped_beyond_chance),
        *map(cell.count, FLIPS),
    )


def _models(cells: Sequence[StressedCell]) -> Iterator[TableRow]:
    for cell in cells:
        for row in cell.models:
            yield TableRow(
                label=row.model,
                cells=(
                    *(cell.condition, cell.benchmark, cell.task, cell.setting, row.n, row.before, row.after),
                    *(_value(row.change), row.change.p, _value(row.moved), row.to_wrong, row.to_right),
                ),
            )


def _pairs(cells: Sequence[StressedCell]) -> Iterator[TableRow]:
    for cell in cells:
        for pair in cell.pairs:
            yield TableRow(
                label=f"{pair.model_b}, {pair.model_a}",
                cells=(
                    *(cell.condition, cell.benchmark, cell.task, cell.setting, _outcome(pair), pair.is_swapped),
                    pair.n,
                    *(part for e in (pair.before, pair.after, pair.shift) for part in (_value(e), e.p)),
                ),
            )


def _outcome(pair: PairChange) -> str:
    return f"{pair.outcome}, beyond chance" if pair.is_beyond_chance else pair.outcome


def _value(estimate: Estimate | None) -> TableValue | None:
    return TableValue(value=estimate.value, low=estimate.ci_low, high=estimate.ci_high) if estimate else None
