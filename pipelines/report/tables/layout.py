"""A `Table` with its numbers turned into words: rounding, marks for the best, footnotes. Shared by all formats."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from numbers import Integral
from typing import Literal, TypeAlias

from pipelines.benchmarks.tables import Style, Table, TableCell, TableRow, TableValue
from pipelines.metrics.stats import half_up

DASH = "\N{EN DASH}"
"""What stands for a number that was not measured, in every printed format. CSV leaves the cell empty."""

_MINUS = "\N{MINUS SIGN}"
_CHECK = "\N{CHECK MARK}"
_DIGITS: dict[Style, int] = {"fraction2": 2, "fraction3": 3, "fraction4": 4, "percent1": 1, "percent2": 2}
_LARGE = 1e6
"""From here on the digits behind the point say nothing."""

Mark: TypeAlias = Literal["best", "second", ""]


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintedCell:
    """One cell in words, not yet escaped for any format."""

    text: str
    kind: Literal["number", "text", "none"]
    delta: str = ""
    interval: str = ""
    counts: str = ""
    mark: Mark = ""
    foot: int = 0
    """Number of the footnote, from 1; 0: none."""
    heat: int | None = None
    """Step of the background shade, 0 to 10."""

    @property
    def beside(self) -> str:
        """What stands after the number, in one string."""
        return " ".join(part for part in (self.delta, self.interval, self.counts) if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintedRow:
    """One line; a heading has no cells."""

    label: str
    origin: str
    cells: tuple[PrintedCell, ...]
    foot: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FormattedTable:
    """A table in words."""

    table: Table
    rows: tuple[PrintedRow, ...]
    footnotes: tuple[str, ...]


def number(value: float, style: Style, *, signed: bool = False) -> str:
    """One number in words, rounded half up.

    Args:
        value: a fraction, or a count when it is an int; counts get thousands separators.
        style: the column's style.
        signed: write a plus, too.
    """
    if _is_count(value):
        return _sign(f"{abs(int(value)):,}", value, signed=signed)
    if math.isinf(value):
        return _sign("\N{INFINITY}", value, signed=signed)
    if style == "plain" or abs(value) >= _LARGE:
        return _sign(f"{abs(value):.6g}" if abs(value) < _LARGE else f"{abs(value):,.0f}", value, signed=signed)
    rounded = _rounded(value, style)
    words = f"{abs(rounded):f}"
    if style in ("fraction2", "fraction3") and words.startswith("0."):
        words = words[1:]
    return _sign(words, rounded, signed=signed)


def lay_out(table: Table) -> FormattedTable:
    """Turn every number into words, mark the best of each column, and collect the footnotes."""
    notes: list[str] = []
    marks = _marks(table)
    rows = tuple(
        PrintedRow(
            label=row.label,
            origin=row.origin,
            cells=tuple(
                replace(_cell(cell, table, column, notes), mark=marks.get((place, column), ""))
                for column, cell in enumerate(row.cells)
            ),
            foot=_foot(row.note, notes),
        )
        for place, row in enumerate(table.rows)
    )
    return FormattedTable(table=table, rows=rows, footnotes=tuple(notes))


def value_of(cell: TableCell) -> float | None:
    """The number in a cell, None for text, check marks and what was not measured."""
    value = cell.value if isinstance(cell, TableValue) else cell
    if isinstance(value, str | bool) or value is None or math.isnan(value):
        return None
    return value


def _cell(cell: TableCell, table: Table, column: int, notes: list[str]) -> PrintedCell:
    if isinstance(cell, str):
        return PrintedCell(text=cell, kind="text")
    if isinstance(cell, bool):
        return PrintedCell(text=_CHECK if cell else "", kind="text")
    style, value = table.style_of(column), value_of(cell)
    printed = PrintedCell(text=DASH, kind="none")
    if value is not None:
        printed = PrintedCell(text=number(value, style), kind="number", heat=_heat(table, value))
    if not isinstance(cell, TableValue):
        return printed
    delta = "" if _absent(cell.delta) else f"({number(cell.delta or 0.0, style, signed=True)})"
    return replace(
        printed,
        delta=delta,
        interval=_interval(cell, style),
        counts=_counts(cell),
        foot=_foot(cell.note, notes),
    )


def _is_count(value: object) -> bool:
    """Whole numbers are counts, those of numpy too."""
    return isinstance(value, Integral)


def _absent(value: float | None) -> bool:
    return value is None or math.isnan(value)


def _interval(cell: TableValue, style: Style) -> str:
    if cell.low is None or cell.high is None or math.isnan(cell.low) or math.isnan(cell.high):
        return ""
    return f"[{number(cell.low, style)}, {number(cell.high, style)}]"


def _counts(cell: TableValue) -> str:
    parts = [] if cell.n is None else [f"n {cell.n:,}"]
    if cell.n_failed is not None:
        parts.append(f"{cell.n_failed:,} failed")
    return ", ".join(parts)


def _heat(table: Table, value: float | None) -> int | None:
    if table.heat is None or value is None or _is_count(value):
        return None
    low, high = table.heat
    share = (value - low) / (high - low) if high > low else 0.0
    return round(10 * min(1.0, max(0.0, share)))


def _foot(note: str, notes: list[str]) -> int:
    if not note:
        return 0
    if note not in notes:
        notes.append(note)
    return notes.index(note) + 1


def _sign(words: str, value: float | Decimal, *, signed: bool) -> str:
    if value < 0:
        return f"{_MINUS}{words}"
    return f"+{words}" if signed and value > 0 else words


def _marks(table: Table) -> dict[tuple[int, int], Mark]:
    """Bold and underlined places: (row, column) -> mark. Equal as printed is equally good."""
    found: dict[tuple[int, int], Mark] = {}
    for column, better in enumerate(table.better):
        if not better:
            continue
        blocks = [_ranked(block, column, table, better) for block in _blocks(table.rows)]
        whole = {place: value for block in blocks for place, value in block.items()}
        for block in blocks:
            order = sorted(set((whole if table.best_of == "table" else block).values()))
            if len(order) < 2:
                continue
            runner_up = min(block.values(), default=None) if table.second == "block" else order[1]
            for place, value in block.items():
                if value == order[0]:
                    found[place, column] = "best"
                elif table.second and value == runner_up:
                    found[place, column] = "second"
    return found


def _blocks(rows: Sequence[TableRow]) -> Iterator[list[tuple[int, TableRow]]]:
    block: list[tuple[int, TableRow]] = []
    for place, row in enumerate(rows):
        if row.origin == "heading":
            yield block
            block = []
        elif row.origin in ("ours", "published"):
            block.append((place, row))
    yield block


def _ranked(
    block: list[tuple[int, TableRow]], column: int, table: Table, better: Literal["higher", "lower"]
) -> dict[int, Decimal]:
    """Row -> value as printed, turned so that the smallest is the best."""
    trusted = [(place, row.cells[column]) for place, row in block]
    values = {place: value_of(cell) for place, cell in trusted if not (isinstance(cell, TableValue) and cell.doubtful)}
    turned = -1 if better == "higher" else 1
    return {
        place: turned * _as_printed(value, table.style_of(column))
        for place, value in values.items()
        if value is not None
    }


def _as_printed(value: float, style: Style) -> Decimal:
    if style == "plain" or _is_count(value) or not abs(value) < _LARGE:
        return Decimal(f"{value:.6g}")
    return _rounded(value, style)


def _rounded(value: float, style: Style) -> Decimal:
    return half_up(100 * value if style.startswith("percent") else value, _DIGITS[style])
