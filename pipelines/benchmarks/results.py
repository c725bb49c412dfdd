"""Numbers of a report, looked up by what they measure, and the rows and cells of tables made of them.

MATE's `tables.py` shows its use. In short::

    results = Results.of("mate", metrics, load_published("mate"))    # the report does this and passes it to tables
    key = Key("exact_match", task="crossmodal", setting="2-shot")
    results.find(key.of("my-model"))                                   # ours, or None
    results.find(key.of("GPT-4o"), "published", table="Table 1")       # as printed in that table; without: in the last
    rows = section("This sweep", filled(rows))                         # a heading and the rows that have any cell
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, TypeAlias

from pipelines.benchmarks.records import Metric, PublishedValue, is_person
from pipelines.benchmarks.tables import Table, TableCell, TableRow, TableValue

Source: TypeAlias = Literal["ours", "published"]


class Key(NamedTuple):
    """The key of a number: what it measures, and of which model."""

    metric: str = ""
    task: str = ""
    setting: str = ""
    subset: str = ""
    category: str = ""
    model: str = ""

    def of(self, model: str, setting: str | None = None) -> Key:
        """Return the same measure of a model, in another setting where one is given."""
        return self._replace(model=model, setting=self.setting if setting is None else setting)

    def within(self, outer: Key) -> Key:
        """Return the key with its empty fields, and `{}` in a field, filled in from another."""
        return Key(*((inner or "{}").replace("{}", other) for inner, other in zip(self, outer, strict=True)))


@dataclass(frozen=True, slots=True)
class Results:
    """All numbers of one benchmark in a report."""

    benchmark: str
    ours: Mapping[Key, TableValue] = field(default_factory=dict)
    published: Mapping[Key, TableValue] = field(default_factory=dict)  # the last one where several tables print it
    printed: Mapping[str, Mapping[Key, TableValue]] = field(default_factory=dict)  # published table -> its numbers

    @classmethod
    def of(
        cls, benchmark: str, metrics: Mapping[str, Iterable[Metric]], published: Iterable[PublishedValue]
    ) -> Results:
        """Index the metrics of each model and the published values."""
        ours = {_key(model, metric): _measured(metric) for model, rows in metrics.items() for metric in rows}
        flat: dict[Key, TableValue] = {}
        printed: dict[str, dict[Key, TableValue]] = {}
        for row in published:
            number = TableValue(value=_number(row.value, row.unit), note=row.note, doubtful=row.doubtful)
            key = _key(row.model, row)
            flat[key] = printed.setdefault(row.table, {})[key] = number
        return cls(benchmark, ours, flat, printed)

    def without_published(self) -> Results:
        """Return our numbers alone."""
        return Results(self.benchmark, self.ours)

    def without_people(self) -> Results:
        """Return the numbers of models alone."""
        ours = {key: number for key, number in self.ours.items() if not is_person(key.model)}
        return replace(self, ours=ours)

    def index(self, source: Source = "ours", table: str = "") -> Mapping[Key, TableValue]:
        """Return all numbers of a source, or those of one published table."""
        if table:
            return self.printed.get(table, {})
        return self.ours if source == "ours" else self.published

    def find(self, key: Key, source: Source = "ours", *, table: str = "") -> TableValue | None:
        """Return one number; None where there is no such row."""
        return self.index(source, table).get(key)

    def value(self, key: Key, source: Source = "ours", *, table: str = "") -> float | None:
        """Return one number without its interval; None where there is no such row or it has no value."""
        number = self.find(key, source, table=table)
        return None if number is None else number.value

    def models(self, source: Source = "ours", *, table: str = "") -> list[str]:
        """Return the models, annotators among them, in the order of their first rows."""
        return list(dict.fromkeys(key.model for key in self.index(source, table)))

    @property
    def annotators(self) -> list[str]:
        """People whose answers were scored like a model's."""
        return [model for model in self.models() if is_person(model)]

    def models_with(self, keys: Iterable[Key], source: Source = "ours") -> list[str]:
        """Return the models that have a value for one of the keys; the models of the keys are ignored."""
        measures = list(keys)
        return [
            model
            for model in self.models(source)
            if any(self.value(key.of(model), source) is not None for key in measures)
        ]

    def sizes(self, matches: Callable[[Key], bool]) -> list[int]:
        """Return the different numbers of rows behind our models' numbers that match, ascending."""
        ours = self.without_people().ours
        return sorted({number.n for key, number in ours.items() if number.n and matches(key)})


def mean_of(numbers: Sequence[TableValue | None]) -> float | None:
    """Return the mean of numbers; None where there are none, or one of them is missing."""
    values = [number.value for number in numbers if number is not None and number.value is not None]
    return math.fsum(values) / len(values) if values and len(values) == len(numbers) else None


def with_interval(number: TableValue | None) -> TableCell:
    """Return a cell with interval and counts; of a missing value only its note."""
    if number is None:
        return None
    if number.value is None:
        return TableValue(value=None, note=number.note)
    return TableValue(
        value=number.value, low=number.low, high=number.high, n=number.n, n_failed=number.n_failed or None
    )


def without_interval(number: TableValue | None, change: TableValue | None = None) -> TableCell:
    """Return a cell of the value and its change, with the note of what is missing or cannot be right."""
    if number is None:
        return None
    delta = None if change is None else change.value
    note = number.note if number.doubtful or number.value is None else ""
    if change is not None and change.doubtful:
        note = "; ".join(filter(None, (note, change.note)))
    if delta is None and not note:
        return number.value
    return TableValue(value=number.value, delta=delta, note=note, doubtful=number.doubtful)


def count_of(number: TableValue | None) -> int | None:
    """Return a count as an int, which tables print without decimals."""
    return None if number is None or number.value is None else int(number.value)


def section(heading: str, rows: Iterable[TableRow]) -> list[TableRow]:
    """Return the rows under a heading; nothing where there are none."""
    block = list(rows)
    return [TableRow(label=heading, origin="heading"), *block] if block else []


def with_our_rows(tables: Iterable[Table]) -> list[Table]:
    """Return the tables that have a row of ours, which chance is not."""
    return [table for table in tables if any(row.origin == "ours" and not row.baseline for row in table.rows)]


def filled(rows: Iterable[TableRow]) -> list[TableRow]:
    """Return the rows that have at least one cell."""
    return [row for row in rows if any(cell is not None for cell in row.cells)]


def _key(model: str, row: Metric | PublishedValue) -> Key:
    return Key(row.metric, row.task, row.setting, row.subset, row.category, model)


def _number(value: float | None, unit: str) -> float | None:
    if value is None or math.isnan(value):
        return None
    return int(value) if unit == "count" and float(value).is_integer() else float(value)  # a mean of counts is none


def _measured(metric: Metric) -> TableValue:
    return TableValue(
        value=_number(metric.value, metric.unit),
        low=_number(metric.ci_low, ""),
        high=_number(metric.ci_high, ""),
        n=metric.n,
        n_failed=metric.n_failed,
        note=metric.note,
    )
