"""Printed numbers with the range that their rounding leaves, looked up by what they measure; rules of a paper."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, TypeAlias

from pipelines.benchmarks.published import printed_steps
from pipelines.benchmarks.records import PublishedValue

Where: TypeAlias = Mapping[str, str]  # dimension, or `table` -> its value: the numbers that a rule is about


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean:
    """A whole is the mean of its parts."""

    metrics: tuple[str, ...]
    dimension: str
    whole: str
    parts: tuple[str, ...] = ()  # empty: all others of the table
    weights: tuple[int, ...] = ()  # one per part, such as numbers of items; empty: equal


@dataclass(frozen=True, slots=True, kw_only=True)
class Sum:
    """Parts add up to a printed whole, or to a number; fractions that exclude each other to 1."""

    dimension: str
    parts: tuple[str, ...]
    whole: str | int
    metrics: tuple[str, ...] = ()  # where the dimension is not the metric
    where: Where = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change is the value in a setting minus that in its baseline, of another metric."""

    metric: str
    of: str
    baselines: Mapping[str, str]  # setting -> setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A percentage is a printed count divided by the number of items."""

    metric: str
    count: str
    items: Mapping[str, int]  # by subset


@dataclass(frozen=True, slots=True, kw_only=True)
class AtMost:
    """One measure cannot exceed another with the same key."""

    lower: str
    upper: str
    upper_task: str = ""  # where it is another


@dataclass(frozen=True, slots=True, kw_only=True)
class Granularity:
    """A percentage of n items is a multiple of 1/n."""

    metrics: tuple[str, ...]
    n: int
    where: Where


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Of two models, the one that wins more often has the higher score."""

    wins: str
    score: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unbounded:
    """Measures that are no fractions and no coefficients: they have no upper end."""

    metrics: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherItems:
    """Tables on items of their own: their numbers are not those of other tables."""

    tables: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FactSum:
    """Figures about the data add up."""

    whole: str
    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FactModels:
    """A table has as many models as the text says."""

    fact: str
    table: str
    excluded_rows: tuple[str, ...] = ()  # rows that are no models


Rule: TypeAlias = (
    Mean | Sum | Change | Share | AtMost | Granularity | Order | Unbounded | OtherItems | FactSum | FactModels
)


DIMENSIONS = ("model", "task", "setting", "subset", "category", "metric")


@dataclass(frozen=True, slots=True)
class Range:
    """The range of a number before rounding; both ends are included."""

    low: Fraction
    high: Fraction

    def __add__(self, other: Range) -> Range:
        return Range(self.low + other.low, self.high + other.high)

    def __sub__(self, other: Range) -> Range:
        return Range(self.low - other.high, self.high - other.low)

    def __mul__(self, factor: Fraction) -> Range:
        return Range(self.low * factor, self.high * factor)

    @property
    def middle(self) -> Fraction:
        """The number between the ends."""
        return (self.low + self.high) / 2

    def meets(self, other: Range) -> bool:
        """Return whether both may be the same number."""
        return self.low <= other.high and other.low <= self.high


@dataclass(frozen=True, slots=True)
class PrintedValue:
    """One printed number."""

    row: PublishedValue
    value: Fraction
    step: Fraction  # unit of the last printed digit; 0 for a count

    @property
    def range(self) -> Range:
        """The range of the number before rounding, half up or half to even."""
        return Range(self.value - self.step / 2, self.value + self.step / 2)

    @property
    def text(self) -> str:
        """The number with its printed digits."""
        return number_text(self.value, self.step)

    @property
    def key(self) -> tuple[str, ...]:
        """The values of all dimensions."""
        return tuple(getattr(self.row, name) for name in DIMENSIONS)

    @property
    def column(self) -> tuple[str, ...]:
        """The column of its table, on the items of its line."""
        row = self.row
        return row.table, row.task, row.subset, row.category, row.metric

    def fits(self, where: Where) -> bool:
        """Return whether a rule about some numbers is about this one."""
        return all(getattr(self.row, name) == value for name, value in where.items())


def number_text(value: Fraction, step: Fraction) -> str:
    """Return a number with the digits of a printed one and, where they do not suffice, one more."""
    decimals = len(str(step.denominator)) - 1 if step else 0
    exact = value * 10**decimals
    return f"{float(value):.{decimals if exact.denominator == 1 else decimals + 1}f}"


@dataclass(frozen=True)
class PrintedValues:
    """All printed numbers of a paper; two names of one model are one, by `aliases`."""

    rows: Sequence[PublishedValue]
    aliases: Mapping[str, str]  # printed name -> one name for all names of a model
    other_items: tuple[str, ...] = ()  # tables whose numbers are not those of other tables
    faulty: frozenset[tuple[str, ...]] = frozenset()  # table and key of numbers that are wrong by themselves

    @cached_property
    def numbers(self) -> tuple[PrintedValue, ...]:
        """The numbers in the order of the file, under the printed names."""
        steps = printed_steps(self.rows)
        return tuple(
            PrintedValue(row, Fraction(repr(row.value)), steps[row.table, row.metric])
            for row in self.rows
            if row.value is not None
        )

    @cached_property
    def _by_key(self) -> Mapping[tuple[str, ...], list[PrintedValue]]:
        index: dict[tuple[str, ...], list[PrintedValue]] = {}
        for number in self.numbers:
            index.setdefault(self._identity(number.row), []).append(number)
        return index

    def _identity(self, row: PublishedValue) -> tuple[str, ...]:
        return self.aliases.get(row.model, row.model), *(getattr(row, name) for name in DIMENSIONS[1:])

    def find(self, row: PublishedValue, **changes: str) -> PrintedValue | None:
        """Return the number of a row with other values of some dimensions: of its table first, then of another."""
        identity = dict(zip(DIMENSIONS, self._identity(row), strict=True)) | changes
        identity["model"] = self.aliases.get(identity["model"], identity["model"])
        numbers = self._by_key.get(tuple(identity.values()), [])
        same_items = [number for number in numbers if {number.row.table, row.table}.isdisjoint(self.other_items)]
        return next((number for number in numbers if number.row.table == row.table), next(iter(same_items), None))

    def is_faulty(self, number: PrintedValue) -> bool:
        """Return whether a check of the number alone finds it wrong; sums over it are then not checked."""
        return (number.row.table, *number.key) in self.faulty

    def is_common(self, number: PrintedValue) -> bool:
        """Return whether at least half of the lines have this number in this column: its repetition says nothing."""
        values = self._columns[number.column]
        return len(values) > 4 and 2 * values.count(number.value) >= len(values)

    @cached_property
    def _columns(self) -> Mapping[tuple[str, ...], list[Fraction]]:
        columns: dict[tuple[str, ...], list[Fraction]] = {}
        for number in self.numbers:
            columns.setdefault(number.column, []).append(number.value)
        return columns

    def repeats(self) -> Iterator[list[PrintedValue]]:
        """Yield the numbers that several tables print."""
        for numbers in self._by_key.values():
            same_items = [number for number in numbers if number.row.table not in self.other_items]
            if len(same_items) > 1:
                yield same_items

    def lines(self) -> Iterable[tuple[tuple[str, ...], list[PrintedValue]]]:
        """Return the lines of tables: table, model, task, setting and subset, and the numbers in printed order."""
        lines: dict[tuple[str, ...], list[PrintedValue]] = {}
        for number in self.numbers:
            row = number.row
            lines.setdefault((row.table, row.model, row.task, row.setting, row.subset), []).append(number)
        return lines.items()


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A printed number, or a line of them, that contradicts others."""

    paper: str
    table: str
    rule: str
    model: str = ""
    task: str = ""
    setting: str = ""
    subset: str = ""
    category: str = ""
    metric: str = ""
    printed: str
    expected: str


@dataclass(frozen=True, slots=True)
class Paper:
    """The printed numbers of a paper, its figures about the data, and what they must obey."""

    name: str
    numbers: PrintedValues
    facts: Mapping[str, str]
    rules: tuple[Rule, ...]

    def finding(self, number: PrintedValue, rule: str, expected: str, **changes: str) -> Finding:
        """Return a finding about a number."""
        names = ("table", "model", "task", "setting", "subset", "category", "metric")
        texts = {name: getattr(number.row, name) for name in names}
        return Finding(
            **{"paper": self.name, "rule": rule, "printed": number.text, "expected": expected, **texts, **changes}
        )

    def select(self, kind: type[Any]) -> Iterator[Any]:
        """Yield the rules of one kind."""
        yield from (rule for rule in self.rules if isinstance(rule, kind))
