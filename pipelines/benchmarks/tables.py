"""Tables and figures as data: a benchmark lays them out, the report renders them."""

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias

Origin: TypeAlias = Literal["ours", "published", "human"]
"""Provenance of a number: computed by this run, published by a paper for a model, or measured on people by anyone."""

Style: TypeAlias = Literal["fraction2", "fraction3", "fraction4", "percent1", "percent2", "plain"]
"""How floats are printed, half up: `.54`, `.540`, `0.5400`, `54.0`, `54.00`, or as they are, to six digits."""

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,79}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableValue:
    """A number with its change, interval, counts and note. What is None is not printed."""

    value: float | None
    delta: float | None = None  # change against something that the table's notes name; printed signed, in brackets
    low: float | None = None
    high: float | None = None  # ends of the confidence interval
    n: int | None = None
    n_failed: int | None = None  # rows in the denominator, and rows that ended in an error
    note: str = ""  # why the value is missing, or why it is not to be trusted; becomes a footnote
    doubtful: bool = False  # cannot be right, such as a misprint: shown, and never marked as the best
    best: bool = False  # significantly better than the next by a test, which the column's `better` does not repeat

    def minus(self, reference: float | None) -> "TableValue":
        """Return the difference from a fixed number, with this number's interval alone."""
        ends = (self.value, self.low, self.high)
        value, low, high = (None if end is None or reference is None else end - reference for end in ends)
        return TableValue(value=value, low=low, high=high)


TableCell: TypeAlias = str | float | int | TableValue | None
"""A float is a fraction and printed by the column's style; an int is a count; a bool is a check mark or nothing; None
is printed as a dash, for what was not measured is not zero."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRow:
    """One line of a table."""

    label: str
    cells: tuple[TableCell, ...] = ()
    origin: Origin | Literal["heading"] = "ours"  # `heading`: no cells
    baseline: bool = False  # people, chance and other measures to compare with: never marked as the best
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One table in its layout; ValueError where a row or a setting does not fit the columns."""

    id: str  # file name without ending, such as `maia_table1`
    title: str
    columns: tuple[str, ...]  # heads of the cells; the label's column is extra and headed by `label_head`
    rows: tuple[TableRow, ...]
    label_head: str = "Model"
    style: Style = "fraction2"
    styles: tuple[Style, ...] = ()  # one per column where they differ; empty: `style` for all
    groups: tuple[tuple[str, int], ...] = ()
    """Heads above the heads: text and number of columns; together they cover all columns. Text '' is an empty head."""
    better: tuple[Literal["higher", "lower", ""], ...] = ()  # which end is best, one per column; '' marks none
    best_of: Literal["table", "block"] = "table"  # the best is marked in bold within each of these
    second: Literal["table", "block", ""] = ""  # underlined: second best of the table, best of each block, or none
    heat: tuple[float, float] | None = None  # range of the background shade of float cells
    notes: tuple[str, ...] = ()
    caption: str = ""  # a sentence for print; '': the title

    def __post_init__(self) -> None:
        _check_id(self.id)
        for row in self.rows:
            expected = 0 if row.origin == "heading" else len(self.columns)
            if len(row.cells) != expected:
                raise ValueError(f"{self.id}: row {row.label!r} has {len(row.cells)} cells, expected {expected}")
        for name, values in (("styles", self.styles), ("better", self.better)):
            if values and len(values) != len(self.columns):
                raise ValueError(f"{self.id}: {len(values)} {name} for {len(self.columns)} columns")
        if self.groups and sum(span for _, span in self.groups) != len(self.columns):
            raise ValueError(f"{self.id}: the groups do not cover the {len(self.columns)} columns")

    def style_of(self, column: int) -> Style:
        """Return how floats of this column are printed."""
        return self.styles[column] if self.styles else self.style


def _check_id(name: str) -> None:
    if not _ID.fullmatch(name):
        raise ValueError(f"{name!r} is no file name: letters, digits, _ and - only")
