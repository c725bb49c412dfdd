"""Plain tables, fitted to the width of the terminal that they are printed on."""

import sys
import textwrap
from collections.abc import Sequence
from typing import Any

from jobs.shared.output import terminal_width
from pipelines.clean_text import one_line

_GAP = 2  # blanks between columns
_MIN_WIDTH = 6  # narrowest column that text is wrapped in

_Row = Sequence[str]


def table(headers: Sequence[str], rows: Sequence[Sequence[Any]], *, main: int | None = None) -> str:
    """Format a plain table; on a terminal that is too narrow for it, state it in another form.

    In order, until it fits: columns with the same value in every row are stated once above; columns after the first
    `main` are left out and named; long cells are wrapped; each row becomes a block of lines.
    """
    cells = [
        ["-" if cell is None else one_line(cell) if isinstance(cell, str) else str(cell) for cell in row]
        for row in rows
    ]
    return fitted(headers, cells, terminal_width(sys.stdout), len(headers) if main is None else main)


def fitted(headers: _Row, rows: Sequence[_Row], width: int, main: int) -> str:
    """Return a table of at most `width` columns where that is possible; 0 for any width."""
    from tabulate import tabulate

    lines: list[str] = []
    shown = list(range(len(headers)))
    widths = [max(len(row[index]) for row in (headers, *rows)) for index in shown]

    def total() -> int:
        return sum(widths[index] + _GAP for index in shown) - _GAP

    if width and total() > width and len(rows) > 1:
        constant = [index for index in shown if len({row[index] for row in rows}) == 1]
        shown = [index for index in shown if index not in constant]
        lines += [f"{headers[index]}: {rows[0][index]}" for index in constant if rows[0][index] not in ("", "-")]
    left_out: list[str] = []
    while width and total() > width and shown and shown[-1] >= main:
        left_out.insert(0, headers[shown.pop()])
    heads, columns = [headers[index] for index in shown], [[row[index] for index in shown] for row in rows]
    limits = _column_limits([widths[index] for index in shown], width) if width and total() > width else []
    if limits is None:
        blocks = ([f"{head}: {cell}" for head, cell in zip(heads, row, strict=True) if cell] for row in columns)
        lines += "\n\n".join(map("\n".join, blocks)).splitlines()
    elif shown:
        text = tabulate(columns, headers=heads, disable_numparse=True, maxcolwidths=limits or None)
        lines += [line.rstrip() for line in str(text).splitlines()] if width else [str(text)]
    if left_out:
        sentence = f"Left out for the width of the terminal: {'; '.join(left_out)}; --json has all."
        lines += textwrap.wrap(sentence, width)
    return "\n".join(lines)


def _column_limits(widths: Sequence[int], width: int) -> list[int] | None:
    """Return widths of columns that fit, the widest cut first; None where columns would be too narrow to read."""
    limits = list(widths)
    while sum(limits) + _GAP * (len(limits) - 1) > width:
        widest = max(range(len(limits)), key=limits.__getitem__)
        if limits[widest] <= _MIN_WIDTH:
            return None
        limits[widest] -= 1
    return limits
