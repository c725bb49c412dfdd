"""A `Table` with formatted numbers: rounding, marks for the best, footnotes. Shared by all formats."""

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import groupby
from numbers import Integral
from typing import Literal, TypeAlias

from pipelines.benchmarks.metrics_kernel.labels import MetricName
from pipelines.benchmarks.tables import Style, Table, TableCell, TableRow, TableValue
from pipelines.metrics.intervals import half_up

DASH = "\N{EN DASH}"  # a number that was not measured, in every format but CSV, which leaves the cell empty

_MINUS = "\N{MINUS SIGN}"
_CHECK = "\N{CHECK MARK}"
_DIGITS: dict[Style, int] = {"fraction2": 2, "fraction3": 3, "fraction4": 4, "percent1": 1, "percent2": 2}
_LARGE = 1e6  # larger numbers are printed without decimals

Mark: TypeAlias = Literal["best", "second", ""]


@dataclass(frozen=True, slots=True, kw_only=True)
class FormattedCell:
    """One cell as text, not escaped."""

    text: str
    kind: Literal["number", "text", "none"]
    delta: str = ""
    interval: str = ""
    counts: str = ""
    mark: Mark = ""
    footnote: int = 0  # number of the footnote, from 1; 0: none
    heat: int | None = None  # step of the background shade, 0 to 10
    hint: str = ""  # the id of a metric whose label the cell shows

    @property
    def suffix(self) -> str:
        """Return delta, interval and counts in one string."""
        return " ".join(part for part in (self.delta, self.interval, self.counts) if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class FormattedRow:
    """One row; a heading has no cells."""

    label: str
    origin: str
    baseline: bool
    cells: tuple[FormattedCell, ...]
    footnote: int = 0
    hint: str = ""  # the id of a metric whose label the row is named after
    is_folded: bool = False  # a published row, or the heading of such rows alone: pages can hide it


@dataclass(frozen=True, slots=True, kw_only=True)
class FormattedTable:
    """A table with formatted cells."""

    table: Table
    rows: tuple[FormattedRow, ...]
    footnotes: tuple[str, ...]


def format_number(value: float, style: Style, *, signed: bool = False) -> str:
    """Format a number, rounded half up; an int is a count and gets thousands separators."""
    if _is_count(value):
        return _sign(f"{abs(int(value)):,}", value, signed=signed)
    if math.isinf(value):
        return _sign("\N{INFINITY}", value, signed=signed)
    if style == "plain" or abs(value) >= _LARGE:
        return _sign(f"{abs(value):.6g}" if abs(value) < _LARGE else f"{abs(value):,.0f}", value, signed=signed)
    rounded = _rounded(value, style)
    digits = f"{abs(rounded):f}"
    if style in ("fraction2", "fraction3") and digits.startswith("0."):
        digits = digits[1:]
    return _sign(digits, rounded, signed=signed)


def lay_out(table: Table) -> FormattedTable:
    """Format every number, mark the best of each column, and collect the footnotes."""
    notes: list[str] = []
    marks, folded = _marks(table), _headings_of_published(table.rows)
    rows = tuple(
        FormattedRow(
            label=_words(row.label),
            hint=row.label if isinstance(row.label, MetricName) else "",
            is_folded=row.origin == "published" or index in folded,
            origin=row.origin,
            baseline=row.baseline,
            cells=tuple(
                replace(_cell(cell, table, column, notes), mark=marks.get((index, column), ""))
                for column, cell in enumerate(row.cells)
            ),
            footnote=_footnote(row.note, notes),
        )
        for index, row in enumerate(table.rows)
    )
    return FormattedTable(table=table, rows=rows, footnotes=tuple(notes))


def value_of(cell: TableCell) -> float | None:
    """Return the number in a cell; None for text, check marks and what was not measured."""
    value = cell.value if isinstance(cell, TableValue) else cell
    if isinstance(value, str | bool) or value is None or math.isnan(value):
        return None
    return value


def _cell(cell: TableCell, table: Table, column: int, notes: list[str]) -> FormattedCell:
    if isinstance(cell, str):
        return FormattedCell(text=_words(cell), kind="text", hint=cell if isinstance(cell, MetricName) else "")
    if isinstance(cell, bool):
        return FormattedCell(text=_CHECK if cell else "", kind="text")
    style, value = table.style_of(column), value_of(cell)
    formatted = FormattedCell(text=DASH, kind="none")
    if value is not None:
        formatted = FormattedCell(text=format_number(value, style), kind="number", heat=_heat(table, value))
    if not isinstance(cell, TableValue):
        return formatted
    is_changed = cell.delta is not None and not math.isnan(cell.delta)
    delta = f"({format_number(cell.delta or 0.0, style, signed=True)})" if is_changed else ""
    return replace(
        formatted,
        delta=delta,
        interval=_interval(cell, style),
        counts=_counts(cell),
        footnote=_footnote(cell.note, notes),
    )


def _words(text: str) -> str:
    return text.words if isinstance(text, MetricName) else text


def _headings_of_published(rows: Sequence[TableRow]) -> set[int]:
    """Return the indices of headings with published rows alone below."""
    origins: dict[int, set[str]] = {}
    heading = -1
    for index, row in enumerate(rows):
        if row.origin == "heading":
            heading = index
        else:
            origins.setdefault(heading, set()).add(row.origin)
    return {index for index, below in origins.items() if below == {"published"}}


def _is_count(value: object) -> bool:
    """Return whether a number is an int, of Python or numpy."""
    return isinstance(value, Integral)


def _interval(cell: TableValue, style: Style) -> str:
    if cell.low is None or cell.high is None or math.isnan(cell.low) or math.isnan(cell.high):
        return ""
    return f"[{format_number(cell.low, style)}, {format_number(cell.high, style)}]"


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


def _footnote(note: str, notes: list[str]) -> int:
    if not note:
        return 0
    if note not in notes:
        notes.append(note)
    return notes.index(note) + 1


def _sign(digits: str, value: float | Decimal, *, signed: bool) -> str:
    if value < 0:
        return f"{_MINUS}{digits}"
    return f"+{digits}" if signed and value > 0 else digits


def _marks(table: Table) -> dict[tuple[int, int], Mark]:
    """Return the marks of the best cells by row and column. Numbers that are equal as printed share a mark."""
    marks: dict[tuple[int, int], Mark] = {
        (index, column): "best"
        for index, row in enumerate(table.rows)
        for column, cell in enumerate(row.cells)
        if isinstance(cell, TableValue) and cell.best
    }
    for column, better in enumerate(table.better):
        if not better:
            continue
        blocks = [_ranked(block, column, table, better) for block in _blocks(table.rows)]
        whole = {index: value for block in blocks for index, value in block.items()}
        for block in blocks:
            order = sorted(set((whole if table.best_of == "table" else block).values()))
            if len(order) < 2:
                continue
            runner_up = min(block.values(), default=None) if table.second == "block" else order[1]
            for index, value in block.items():
                if value == order[0] and _is_clear(index, column, table, whole if table.best_of == "table" else block):
                    marks[index, column] = "best"
                elif table.second and value == runner_up:
                    marks[index, column] = "second"
    return marks


def _is_clear(index: int, column: int, table: Table, compared: Collection[int]) -> bool:
    """Return whether the interval of the best overlaps no other's; true where it has none, and nothing is claimed."""
    cell = table.rows[index].cells[column]
    if not isinstance(cell, TableValue) or cell.low is None or cell.high is None:
        return True
    for other in compared:
        rival = table.rows[other].cells[column]
        ends = (rival.low, rival.high) if isinstance(rival, TableValue) else (None, None)
        low, high = (value_of(rival) if end is None else end for end in ends)
        if other != index and low is not None and high is not None and low <= cell.high and cell.low <= high:
            return False
    return True


def _blocks(rows: Sequence[TableRow]) -> Iterator[list[tuple[int, TableRow]]]:
    for is_heading, block in groupby(enumerate(rows), lambda entry: entry[1].origin == "heading"):
        if not is_heading:
            yield [(index, row) for index, row in block if not row.baseline]


def _ranked(
    block: list[tuple[int, TableRow]], column: int, table: Table, better: Literal["higher", "lower"]
) -> dict[int, Decimal]:
    """Return row -> printed value, with a sign such that the smallest is the best."""
    cells = {index: row.cells[column] for index, row in block}
    values = {
        index: value_of(cell) for index, cell in cells.items() if not (isinstance(cell, TableValue) and cell.doubtful)
    }
    sign = -1 if better == "higher" else 1
    return {
        index: sign * _as_printed(value, table.style_of(column)) for index, value in values.items() if value is not None
    }


def _as_printed(value: float, style: Style) -> Decimal:
    if style == "plain" or _is_count(value) or not abs(value) < _LARGE:
        return Decimal(f"{value:.6g}")
    return _rounded(value, style)


def _rounded(value: float, style: Style) -> Decimal:
    return half_up(100 * value if style.startswith("percent") else value, _DIGITS[style])
