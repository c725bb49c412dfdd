"""Apply the rules of a paper to its printed numbers; each contradiction beyond rounding is a finding."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from typing import Any, Final, TypeAlias

from jobs.audit.cells import DIMENSIONS, Cell, Range, number_text
from jobs.audit.paper import Finding, Paper
from jobs.audit.rules import (
    AtMost,
    Change,
    FactModels,
    FactSum,
    Granularity,
    Mean,
    Order,
    Share,
    Sum,
    Unbounded,
)


def audit_paper(paper: Paper) -> list[Finding]:
    """Return all findings, equal ones once.

    First come checks that name the faulty cell; what those cells add up to is not checked again.
    """
    findings = [*_ranges(paper), *repeated_labels(paper)]
    findings += [
        finding for kind, check in _CELL_CHECKS.items() for rule in paper.select(kind) for finding in check(paper, rule)
    ]
    faulty = {(finding.table, *(getattr(finding, name) for name in DIMENSIONS)) for finding in findings}
    cells = replace(paper.cells, faulty=frozenset(faulty))
    paper = replace(paper, cells=cells)
    findings += [
        finding for kind, check in _CHECKS.items() for rule in paper.select(kind) for finding in check(paper, rule)
    ]
    return list(dict.fromkeys([*findings, *copied_lines(paper), *differing_repeats(paper)]))


def _means(paper: Paper, rule: Mean) -> Iterator[Finding]:
    for cell in paper.cells.cells:
        row = cell.row
        if row.metric not in rule.metrics or getattr(row, rule.dimension) != rule.whole:
            continue
        parts = _parts(paper, cell, rule)
        if not parts:
            continue
        weights = rule.weights or (1,) * len(parts)
        total = sum(weights)
        mean = _sum(part.range * Fraction(weight, total) for part, weight in zip(parts, weights, strict=True))
        if not cell.range.meets(mean):
            names = ", ".join(getattr(part.row, rule.dimension) for part in parts)
            parts_text = f"of {names}" if len(parts) <= 3 else f"of the {len(parts)} others"
            kind = "weighted mean" if rule.weights else "mean"
            yield paper.finding(cell, "mean", f"{number_text(mean.middle, cell.step)}, the {kind} {parts_text}")


def _parts(paper: Paper, cell: Cell, rule: Mean) -> list[Cell]:
    """Return the parts of a whole; none where one of them is not printed."""
    names = rule.parts or tuple(
        dict.fromkeys(
            getattr(other.row, rule.dimension) for other in paper.cells.cells if other.row.table == cell.row.table
        )
    )
    cells = [paper.cells.find(cell.row, **{rule.dimension: name}) for name in names if name != rule.whole]
    parts = [part for part in cells if part is not None and not paper.cells.is_faulty(part)]
    return parts if len(parts) == len(cells) else []


def _sums(paper: Paper, rule: Sum) -> Iterator[Finding]:
    for cell in paper.cells.cells:
        is_first = getattr(cell.row, rule.dimension) == rule.parts[0]
        if not is_first or not cell.fits(rule.where) or (rule.metrics and cell.row.metric not in rule.metrics):
            continue
        parts = [paper.cells.find(cell.row, **{rule.dimension: name}) for name in rule.parts]
        ranges = [part.range for part in parts if part is not None]
        if len(ranges) < len(parts):
            continue
        total = _sum(ranges)
        if isinstance(rule.whole, int):
            whole = Range(Fraction(rule.whole), Fraction(rule.whole))
            if not total.meets(whole):
                text = "; ".join(part.text for part in parts if part is not None)
                yield paper.finding(cell, "sum", f"a total of {rule.whole}, not {float(total.middle):g}", printed=text)
            continue
        printed = paper.cells.find(cell.row, **{rule.dimension: rule.whole})
        if printed is not None and not printed.range.meets(total):
            yield paper.finding(printed, "sum", f"{float(total.middle):g}, the sum of {', '.join(rule.parts)}")


def _sum(ranges: Any) -> Range:
    return sum(ranges, start=Range(Fraction(0), Fraction(0)))


def _changes(paper: Paper, rule: Change) -> Iterator[Finding]:
    for cell in paper.cells.cells:
        baseline = rule.baselines.get(cell.row.setting)
        if cell.row.metric != rule.metric or baseline is None:
            continue
        current, before = (
            paper.cells.find(cell.row, metric=rule.of, setting=name) for name in (cell.row.setting, baseline)
        )
        if current is None or before is None:
            continue
        change = _unrounded(paper, current) - _unrounded(paper, before)
        rounded = current.value - before.value  # some authors subtract what they printed
        if not cell.range.meets(change) and not cell.range.meets(Range(rounded, rounded)):
            expected = f"{number_text(change.middle, cell.step)}, {rule.of} here minus in {baseline}"
            yield paper.finding(cell, "change", expected)


def _unrounded(paper: Paper, cell: Cell) -> Range:
    """Return a percentage as its count gives it, where that is printed and agrees; else what its rounding leaves."""
    for rule in paper.select(Share):
        share = _share(paper, cell, rule)
        if share is not None and cell.range.meets(share):
            return share
    return cell.range


def _share(paper: Paper, cell: Cell, rule: Share) -> Range | None:
    count = paper.cells.find(cell.row, metric=rule.count)
    if cell.row.metric != rule.metric or count is None or cell.row.subset not in rule.items:
        return None
    share = count.value / rule.items[cell.row.subset]
    return Range(share, share)


def _shares(paper: Paper, rule: Share) -> Iterator[Finding]:
    for cell in paper.cells.cells:
        share = _share(paper, cell, rule)
        if share is not None and not cell.range.meets(share):
            count = paper.cells.find(cell.row, metric=rule.count)
            assert count is not None
            expected = f"{number_text(share.middle, cell.step)}, {count.text} of {rule.items[cell.row.subset]}"
            yield paper.finding(cell, "count against percentage", expected)


def _bounds(paper: Paper, rule: AtMost) -> Iterator[Finding]:
    for cell in paper.cells.cells:
        if cell.row.metric != rule.lower:
            continue
        upper = paper.cells.find(cell.row, metric=rule.upper, task=rule.upper_task or cell.row.task)
        if upper is not None and cell.range.low > upper.range.high:
            yield paper.finding(cell, "bound", f"at most {upper.text}, the {rule.upper} of {upper.row.table}")


def _granularity(paper: Paper, rule: Granularity) -> Iterator[Finding]:
    for cell in paper.cells.cells:
        if cell.row.metric in rule.metrics and cell.fits(rule.where):
            nearest = Fraction(round(cell.value * rule.n), rule.n)
            if not cell.range.meets(Range(nearest, nearest)):
                yield paper.finding(cell, "count against percentage", f"a multiple of 1/{rule.n}")


def _orders(paper: Paper, rule: Order) -> Iterator[Finding]:
    wins = [cell for cell in paper.cells.cells if cell.row.metric == rule.wins]
    for a, b in combinations(wins, 2):
        if (a.row.table, *a.key[1:]) != (b.row.table, *b.key[1:]):
            continue
        winner, loser = (a, b) if a.value > b.value else (b, a)
        scores = [paper.cells.find(cell.row, metric=rule.score) for cell in (winner, loser)]
        if scores[0] and scores[1] and scores[0].range.high < scores[1].range.low:
            expected = f"at most {scores[0].text}, the score of {winner.row.model}, which wins {winner.text}"
            yield paper.finding(scores[1], "order", expected)


def _fact_sums(paper: Paper, rule: FactSum) -> Iterator[Finding]:
    numbers = [int(paper.facts[name] or 0) for name in (rule.whole, *rule.parts)]
    if numbers[0] != sum(numbers[1:]):
        expected = f"{sum(numbers[1:])}, the sum of {', '.join(rule.parts)}"
        yield Finding(
            paper=paper.name, table="text", rule="sum", metric=rule.whole, printed=str(numbers[0]), expected=expected
        )


def _fact_models(paper: Paper, rule: FactModels) -> Iterator[Finding]:
    models = {cell.row.model for cell in paper.cells.cells if cell.row.table == rule.table} - {*rule.excluded_rows}
    if len(models) != int(paper.facts[rule.fact]):
        expected = f"{len(models)}, the models of {rule.table}"
        yield Finding(
            paper=paper.name,
            table="text",
            rule="count",
            metric=rule.fact,
            printed=paper.facts[rule.fact],
            expected=expected,
        )


def _ranges(paper: Paper) -> Iterator[Finding]:
    """Check that fractions are of 0 to 1, changes and coefficients of -1 to 1, counts and all others not negative."""
    changes = {rule.metric for rule in paper.select(Change)}
    unbounded = {name for rule in paper.select(Unbounded) for name in rule.metrics}
    for cell in paper.cells.cells:
        metric, unit = cell.row.metric, cell.row.unit
        low = -1 if metric in changes or (not unit and metric not in unbounded) else 0
        high = None if unit == "count" or metric in unbounded else 1
        if cell.value < low or (high is not None and cell.value > high):
            yield paper.finding(cell, "range", f"{low} to {high}" if high is not None else "not below 0")


_Check: TypeAlias = Callable[[Paper, Any], Iterator[Finding]]
_CELL_CHECKS: Final[Mapping[type[Any], _Check]] = {Change: _changes, Share: _shares, Granularity: _granularity}
_CHECKS: Final[Mapping[type[Any], _Check]] = {
    Mean: _means,
    Sum: _sums,
    AtMost: _bounds,
    Order: _orders,
    FactSum: _fact_sums,
    FactModels: _fact_models,
}


COPIED_DIGITS: Final = {True: 6, False: 8}
"""Digits of a run of equal cells that make it a copy, in another setting of a model, and in a line of another model."""
_SECOND: Final = " (2nd row)"  # what the file adds to a label that a table prints twice


def copied_lines(paper: Paper) -> Iterator[Finding]:
    """Compare the lines of a table for runs of equal numbers: of a model in two settings, or of two models in one."""
    changes = {rule.metric for rule in paper.select(Change)}
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
