"""Numbers that a paper prints more than once: where they must differ, and where they must not."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Final

from pipelines.report.audit.cells import Cell
from pipelines.report.audit.paper import Finding, Paper
from pipelines.report.audit.rules import Change

COPIED_DIGITS: Final = {True: 6, False: 8}
"""Digits of a run of equal cells that make it a copy, in another setting of a model, and in a line of another model."""
_SECOND: Final = " (2nd row)"  # what the file adds to a label that a table prints twice


def copied_lines(paper: Paper) -> Iterator[Finding]:
    """Compare the lines of a table for runs of equal numbers: of a model in two settings, or of two models in one."""
    changes = {rule.metric for rule in paper.of_kind(Change)}
    lines = [
        (head, [cell for cell in line if cell.row.metric not in changes and not paper.cells.is_common(cell)])
        for head, line in paper.cells.lines()
    ]
    for (first, a), (second, b) in combinations(lines, 2):
        (table, model, task, setting, subset), (_, other_model, _, other_setting, _) = first, second
        if (table, task, subset) != (second[0], second[2], second[4]) or (model != other_model) == (
            setting != other_setting
        ):
            continue
        run = _longest_run(a, b)
        digits = sum(len(cell.text.replace(".", "").lstrip("0")) for cell in run)
        if len(run) > 1 and digits >= COPIED_DIGITS[model == other_model]:
            numbers = "; ".join(cell.text for cell in run)
            columns = ", ".join(dict.fromkeys(cell.row.category or cell.row.metric for cell in run))
            copy_source = other_setting if model == other_model else other_model
            yield paper.finding(run[0], "repeated", f"other numbers than {copy_source}: {columns}", printed=numbers)


def _longest_run(a: list[Cell], b: list[Cell]) -> list[Cell]:
    """Return the longest run of cells of `a` that `b` repeats in the same columns."""
    columns = {cell.column: cell.value for cell in b}
    longest: list[Cell] = []
    run: list[Cell] = []
    for cell in a:
        run = [*run, cell] if columns.get(cell.column) == cell.value else []
        longest = max(longest, run, key=len)
    return longest


def differing_repeats(paper: Paper) -> Iterator[Finding]:
    """Check that a number is the same in every table that prints it."""
    for first, *repeats in paper.cells.repeats():
        for cell in repeats:
            if not cell.range.meets(first.range):
                yield paper.finding(cell, "printed twice", f"{first.text} as in {first.row.table}")


def repeated_labels(paper: Paper) -> Iterator[Finding]:
    """Find labels that a table prints on two lines."""
    for cell in paper.cells.cells:
        if cell.row.category.endswith(_SECOND):
            expected = f"another label: {cell.row.category.removesuffix(_SECOND)} is printed on two lines"
            yield paper.finding(cell, "repeated", expected)
