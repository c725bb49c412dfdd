"""Apply the rules of a paper to its printed numbers; each contradiction beyond rounding is a finding."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from importlib.resources import files
from itertools import combinations
from pathlib import Path
from typing import Any, Final, TypeAlias, get_args

from pydantic import TypeAdapter

from jobs.audit.cells import (
    DIMENSIONS,
    AtMost,
    Change,
    FactModels,
    FactSum,
    Finding,
    Granularity,
    Mean,
    Order,
    OtherItems,
    Paper,
    PrintedValue,
    PrintedValues,
    Range,
    Rule,
    Share,
    Sum,
    Unbounded,
    number_text,
)
from models.catalog_loader import load_models
from models.errors import suggest
from models.strict_yaml import read_yaml
from pipelines.benchmarks import benchmark, benchmark_names
from pipelines.benchmarks.published import load_dataset_facts
from pipelines.errors import UsageError


def audit_paper(paper: Paper) -> list[Finding]:
    """Return all findings, equal ones once.

    First come checks that name the faulty number; what those numbers add up to is not checked again.
    """
    findings = [*_ranges(paper), *repeated_labels(paper)]
    findings += [
        finding
        for kind, check in _NUMBER_CHECKS.items()
        for rule in paper.select(kind)
        for finding in check(paper, rule)
    ]
    faulty = {(finding.table, *(getattr(finding, name) for name in DIMENSIONS)) for finding in findings}
    numbers = replace(paper.numbers, faulty=frozenset(faulty))
    paper = replace(paper, numbers=numbers)
    findings += [
        finding for kind, check in _CHECKS.items() for rule in paper.select(kind) for finding in check(paper, rule)
    ]
    return list(dict.fromkeys([*findings, *copied_lines(paper), *differing_repeats(paper)]))


def _means(paper: Paper, rule: Mean) -> Iterator[Finding]:
    for number in paper.numbers.numbers:
        row = number.row
        if row.metric not in rule.metrics or getattr(row, rule.dimension) != rule.whole:
            continue
        parts = _parts(paper, number, rule)
        if not parts:
            continue
        weights = rule.weights or (1,) * len(parts)
        total = sum(weights)
        mean = _sum(part.range * Fraction(weight, total) for part, weight in zip(parts, weights, strict=True))
        if not number.range.meets(mean):
            names = ", ".join(getattr(part.row, rule.dimension) for part in parts)
            parts_text = f"of {names}" if len(parts) <= 3 else f"of the {len(parts)} others"
            kind = "weighted mean" if rule.weights else "mean"
            yield paper.finding(number, "mean", f"{number_text(mean.middle, number.step)}, the {kind} {parts_text}")


def _parts(paper: Paper, number: PrintedValue, rule: Mean) -> list[PrintedValue]:
    """Return the parts of a whole; none where one of them is not printed."""
    names = rule.parts or tuple(
        dict.fromkeys(
            getattr(other.row, rule.dimension) for other in paper.numbers.numbers if other.row.table == number.row.table
        )
    )
    numbers = [paper.numbers.find(number.row, **{rule.dimension: name}) for name in names if name != rule.whole]
    parts = [part for part in numbers if part is not None and not paper.numbers.is_faulty(part)]
    return parts if len(parts) == len(numbers) else []


def _sums(paper: Paper, rule: Sum) -> Iterator[Finding]:
    for number in paper.numbers.numbers:
        is_first = getattr(number.row, rule.dimension) == rule.parts[0]
        if not is_first or not number.fits(rule.where) or (rule.metrics and number.row.metric not in rule.metrics):
            continue
        parts = [paper.numbers.find(number.row, **{rule.dimension: name}) for name in rule.parts]
        ranges = [part.range for part in parts if part is not None]
        if len(ranges) < len(parts):
            continue
        total = _sum(ranges)
        if isinstance(rule.whole, int):
            whole = Range(Fraction(rule.whole), Fraction(rule.whole))
            if not total.meets(whole):
                text = "; ".join(part.text for part in parts if part is not None)
                yield paper.finding(
                    number, "sum", f"a total of {rule.whole}, not {float(total.middle):g}", printed=text
                )
            continue
        printed = paper.numbers.find(number.row, **{rule.dimension: rule.whole})
        if printed is not None and not printed.range.meets(total):
            yield paper.finding(printed, "sum", f"{float(total.middle):g}, the sum of {', '.join(rule.parts)}")


def _sum(ranges: Any) -> Range:
    return sum(ranges, start=Range(Fraction(0), Fraction(0)))


def _changes(paper: Paper, rule: Change) -> Iterator[Finding]:
    for number in paper.numbers.numbers:
        baseline = rule.baselines.get(number.row.setting)
        if number.row.metric != rule.metric or baseline is None:
            continue
        current, before = (
            paper.numbers.find(number.row, metric=rule.of, setting=name) for name in (number.row.setting, baseline)
        )
        if current is None or before is None:
            continue
        change = _unrounded(paper, current) - _unrounded(paper, before)
        rounded = current.value - before.value  # some authors subtract what they printed
        if not number.range.meets(change) and not number.range.meets(Range(rounded, rounded)):
            expected = f"{number_text(change.middle, number.step)}, {rule.of} here minus in {baseline}"
            yield paper.finding(number, "change", expected)


def _unrounded(paper: Paper, number: PrintedValue) -> Range:
    """Return a percentage as its count gives it, where that is printed and agrees; else what its rounding leaves."""
    for rule in paper.select(Share):
        share = _share(paper, number, rule)
        if share is not None and number.range.meets(share):
            return share
    return number.range


def _share(paper: Paper, number: PrintedValue, rule: Share) -> Range | None:
    count = paper.numbers.find(number.row, metric=rule.count)
    if number.row.metric != rule.metric or count is None or number.row.subset not in rule.items:
        return None
    share = count.value / rule.items[number.row.subset]
    return Range(share, share)


def _shares(paper: Paper, rule: Share) -> Iterator[Finding]:
    for number in paper.numbers.numbers:
        share = _share(paper, number, rule)
        if share is not None and not number.range.meets(share):
            count = paper.numbers.find(number.row, metric=rule.count)
            assert count is not None
            expected = f"{number_text(share.middle, number.step)}, {count.text} of {rule.items[number.row.subset]}"
            yield paper.finding(number, "count against percentage", expected)


def _bounds(paper: Paper, rule: AtMost) -> Iterator[Finding]:
    for number in paper.numbers.numbers:
        if number.row.metric != rule.lower:
            continue
        upper = paper.numbers.find(number.row, metric=rule.upper, task=rule.upper_task or number.row.task)
        if upper is not None and number.range.low > upper.range.high:
            yield paper.finding(number, "bound", f"at most {upper.text}, the {rule.upper} of {upper.row.table}")


def _granularity(paper: Paper, rule: Granularity) -> Iterator[Finding]:
    for number in paper.numbers.numbers:
        if number.row.metric in rule.metrics and number.fits(rule.where):
            nearest = Fraction(round(number.value * rule.n), rule.n)
            if not number.range.meets(Range(nearest, nearest)):
                yield paper.finding(number, "count against percentage", f"a multiple of 1/{rule.n}")


def _orders(paper: Paper, rule: Order) -> Iterator[Finding]:
    wins = [number for number in paper.numbers.numbers if number.row.metric == rule.wins]
    for a, b in combinations(wins, 2):
        if (a.row.table, *a.key[1:]) != (b.row.table, *b.key[1:]):
            continue
        winner, loser = (a, b) if a.value > b.value else (b, a)
        scores = [paper.numbers.find(number.row, metric=rule.score) for number in (winner, loser)]
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
    models = {number.row.model for number in paper.numbers.numbers if number.row.table == rule.table} - {
        *rule.excluded_rows
    }
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
    for number in paper.numbers.numbers:
        metric, unit = number.row.metric, number.row.unit
        low = -1 if metric in changes or (not unit and metric not in unbounded) else 0
        high = None if unit == "count" or metric in unbounded else 1
        if number.value < low or (high is not None and number.value > high):
            yield paper.finding(number, "range", f"{low} to {high}" if high is not None else "not below 0")


_Check: TypeAlias = Callable[[Paper, Any], Iterator[Finding]]
_NUMBER_CHECKS: Final[Mapping[type[Any], _Check]] = {Change: _changes, Share: _shares, Granularity: _granularity}
_CHECKS: Final[Mapping[type[Any], _Check]] = {
    Mean: _means,
    Sum: _sums,
    AtMost: _bounds,
    Order: _orders,
    FactSum: _fact_sums,
    FactModels: _fact_models,
}


COPIED_DIGITS: Final = {True: 6, False: 8}
"""Digits in equal numbers that make a run of them a copy: in another setting of a model, in another model's line."""
_SECOND: Final = " (2nd row)"  # what the file adds to a label that a table prints twice


def copied_lines(paper: Paper) -> Iterator[Finding]:
    """Compare the lines of a table for runs of equal numbers: of a model in two settings, or of two models in one."""
    changes = {rule.metric for rule in paper.select(Change)}
    lines = [
        (head, [number for number in line if number.row.metric not in changes and not paper.numbers.is_common(number)])
        for head, line in paper.numbers.lines()
    ]
    for (first, a), (second, b) in combinations(lines, 2):
        (table, model, task, setting, subset), (_, other_model, _, other_setting, _) = first, second
        if (table, task, subset) != (second[0], second[2], second[4]) or (model != other_model) == (
            setting != other_setting
        ):
            continue
        run = _longest_run(a, b)
        digits = sum(len(number.text.replace(".", "").lstrip("0")) for number in run)
        if len(run) > 1 and digits >= COPIED_DIGITS[model == other_model]:
            numbers = "; ".join(number.text for number in run)
            columns = ", ".join(dict.fromkeys(number.row.category or number.row.metric for number in run))
            copy_source = other_setting if model == other_model else other_model
            yield paper.finding(run[0], "repeated", f"other numbers than {copy_source}: {columns}", printed=numbers)


def _longest_run(a: list[PrintedValue], b: list[PrintedValue]) -> list[PrintedValue]:
    """Return the longest run of numbers of `a` that `b` repeats in the same columns."""
    columns = {number.column: number.value for number in b}
    longest: list[PrintedValue] = []
    run: list[PrintedValue] = []
    for number in a:
        run = [*run, number] if columns.get(number.column) == number.value else []
        longest = max(longest, run, key=len)
    return longest


def differing_repeats(paper: Paper) -> Iterator[Finding]:
    """Check that a number is the same in every table that prints it."""
    for first, *repeats in paper.numbers.repeats():
        for number in repeats:
            if not number.range.meets(first.range):
                yield paper.finding(number, "printed twice", f"{first.text} as in {first.row.table}")


def repeated_labels(paper: Paper) -> Iterator[Finding]:
    """Find labels that a table prints on two lines."""
    for number in paper.numbers.numbers:
        if number.row.category.endswith(_SECOND):
            expected = f"another label: {number.row.category.removesuffix(_SECOND)} is printed on two lines"
            yield paper.finding(number, "repeated", expected)


_KINDS: Final[Mapping[str, TypeAdapter[Any]]] = {kind.__name__: TypeAdapter(kind) for kind in get_args(Rule)}


def _load_rules() -> dict[str, tuple[Rule, ...]]:
    raw, _ = read_yaml(Path(str(files("jobs.audit") / "rules.yaml")), "file", is_shipped=True)
    return {
        name: tuple(_KINDS[kind].validate_python(fields) for rule in rules for kind, fields in rule.items())
        for name, rules in raw.items()
    }


RULES: Final[Mapping[str, tuple[Rule, ...]]] = _load_rules()  # rules by benchmark


def papers() -> tuple[str, ...]:
    """Return the benchmarks with published numbers, under whose names their papers are audited."""
    return tuple(name for name in benchmark_names() if benchmark(name).published)


def audit(names: Sequence[str] = ()) -> tuple[list[Finding], dict[str, int]]:
    """Return the findings in the papers of these benchmarks, and how many numbers of each were checked.

    Without names all papers; UsageError for one that is not there. Case and hyphens of names do not count.
    """
    known_names = papers()
    chosen = [name.lower().replace("-", "") for name in names]
    for name, given_name in zip(chosen, names, strict=True):
        if name not in known_names:
            raise UsageError(f"no published tables of {given_name!r}{suggest(given_name, known_names)}")
    checked = {name: load_paper(name) for name in chosen or known_names}
    findings = [finding for paper in checked.values() for finding in audit_paper(paper)]
    return findings, {name: len(paper.numbers.numbers) for name, paper in checked.items()}


def load_paper(name: str) -> Paper:
    """Return the printed numbers of one paper with its rules."""
    rules = RULES.get(name, ())
    tables = tuple(table for rule in rules if isinstance(rule, OtherItems) for table in rule.tables)
    aliases = {
        printed.name: model
        for model, spec in load_models().items()
        for printed in spec.published_as
        if printed.benchmark == name
    }
    return Paper(name, PrintedValues(benchmark(name).published, aliases, tables), load_dataset_facts(name), rules)
