"""The page of a stress test: which conclusions flip, and of which models and pairs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from pipelines.benchmarks import benchmark
from pipelines.benchmarks.tables import Style, Table, TableCell, TableRow, TableValue
from pipelines.plan.stress.conditions import Condition
from pipelines.report.model import Section
from pipelines.report.stress.changes import FLIPS, SIGNIFICANCE, Estimate, PairChange, StressedCell

_TEXTS: Final[tuple[Style, ...]] = ("plain",) * 5
_SHARES: Final[tuple[Style, ...]] = ("percent1",) * 3
_GAPS: Final[tuple[Style, ...]] = ("percent1", "fraction4") * 3
_PAIRED: Final = (
    "Paired by question: only rows that have an answer both to the plain prompt and under the condition. In brackets "
    "the 95% interval over clips, pictures or scenes."
)
_P: Final = (
    "p: two-sided paired permutation of whole clusters. It tests exchangeability: if the condition did not matter, the "
    "two answers to a question could be swapped."
)
_OUTCOMES: Final = (
    f"Significant: p, after Holm's correction over the pairs of a line, below {SIGNIFICANCE}. Kept: significant with "
    "the same sign in both; none: in neither; lost, gained: before or after alone; reversed: in both, with opposite "
    "signs. Beyond chance: the change of the difference is itself significant; a swap or a lost significance without "
    "it may be the chance of another draw of answers."
)
_LIMITS: Final = (
    "A condition that changes nothing shows that this change does not matter, not that a model understands the "
    "question. Order moves options to other places and letters, letters to other letters alone: what changes under "
    "both is due to letters, under order alone to places."
)


def stress_section(cells: Sequence[StressedCell]) -> tuple[Section, ...]:
    """Return the page; none without a stress test."""
    if not cells:
        return ()
    conditions = dict.fromkeys(cell.condition for cell in cells)
    conclusions = Table(
        id="stress",
        title="Conclusions that flip under other orders, letters and media",
        label_head="Benchmark",
        columns=(
            *("Condition", "Conclusion", "Task", "Setting", "Moved answers %", "Change, points", "Models", "Pairs"),
            *("Swapped", "Swapped beyond chance", "Significance lost", "Gained", "Reversed"),
        ),
        rows=tuple(TableRow(label=benchmark(cell.benchmark).title, cells=_conclusion(cell)) for cell in cells),
        style="percent1",
        notes=(_PAIRED, _OUTCOMES, _LIMITS, *(f"{name}: {Condition.parse(name).text}." for name in conditions)),
    )
    models = Table(
        id="stress_models",
        title="What each condition changes of each model's answers",
        columns=(
            *("Condition", "Benchmark", "Task", "Setting", "Rows", "Plain %", "Under it %", "Change, points", "p"),
            *("Moved answers %", "Right to wrong", "Wrong to right"),
        ),
        rows=tuple(_models(cells)),
        styles=(*_TEXTS, *_SHARES, "fraction4", "percent1", "plain", "plain"),
        notes=(_PAIRED, _P, "Moved: chooses another option, by its text; empty where answers are free."),
    )
    pairs = Table(
        id="stress_pairs",
        title="What each condition changes of the differences of models",
        label_head="Models",
        columns=(
            *("Condition", "Benchmark", "Task", "Setting", "Outcome", "Swapped", "Rows", "Plain, points", "p"),
            *("Under it, points", "p", "Change, points", "p"),
        ),
        rows=tuple(_pairs(cells)),
        styles=(*_TEXTS, "plain", "plain", *_GAPS),
        notes=("Differences: the first model minus the second.", _PAIRED, _OUTCOMES),
    )
    tables = tuple(table for table in (models, pairs) if table.rows)
    return (Section(name="stress", title="Stress test", summary=(conclusions,), tables=tables),)


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
