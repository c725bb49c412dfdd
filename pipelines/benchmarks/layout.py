"""Tables as data: a `TableDef` says what its columns measure and whose rows it has; `lay_out` looks the numbers up.

    TableDef(
        id="maia_reading",
        title="MAIA: parsing of answers",
        columns={"None rate": Key("none_rate", "vsv"), "Failed answers": Key("errors", "oevqa")},
        rows=[Rows("1-Frame", [Key(setting="1-frame")])],
    ).lay_out(results)

A column's key leaves open what its rows have in common; a row's key and model fill it in.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from pipelines.benchmarks.figures import Series
from pipelines.benchmarks.results import Key, Results, Source, section, without_interval
from pipelines.benchmarks.tables import Origin, Style, Table, TableCell, TableRow, TableValue

BOTH: Final[Sequence[Source]] = ("published", "ours")
EACH_SETTING: Final = "*"  # setting of a key of `Rows`: a row for each setting of a model, in the order of its numbers


@dataclass(frozen=True, slots=True)
class View:
    """The numbers that one row shows: of a model, from a source, with what the row's measures have in common."""

    results: Results
    key: Key
    source: Source = "ours"
    table: str = ""  # the published table that they are printed in; '': the last one that prints them

    def find(self, key: Key) -> TableValue | None:
        """Return one number; what `key` leaves open is the row's."""
        return self.results.find(key.within(self.key), self.source, table=self.table)

    def value(self, key: Key) -> float | None:
        """Return one number without its interval."""
        number = self.find(key)
        return None if number is None else number.value


Show: TypeAlias = Callable[[TableValue | None], TableCell]
Cell: TypeAlias = Callable[[View], TableCell]


class Shown(NamedTuple):
    """A column that shows its numbers otherwise than the rest of its table."""

    key: Key
    show: Show | None = None
    change: str = ""  # the metric of a change that stands behind the number


Column: TypeAlias = Key | Shown | Cell | None
Lines: TypeAlias = Callable[[Results], Iterable[TableRow]]
Note: TypeAlias = str | Callable[[Results, Sequence[TableRow]], Iterable[str]]


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows under a heading: for each key and source one of every model with a number in a column.

    With `parts` each of them is a heading instead, above a row for every part that has a number.
    """

    heading: str = ""
    keys: Sequence[Key] = (Key(),)
    _: KW_ONLY
    sources: Sequence[Source] = ("ours",)
    table: str = ""  # the published table whose models have a row
    models: Collection[str] = ()  # the only models; empty: all
    label: str | Callable[[View], str] = "{model}"  # with places for the fields of the row's key
    parts: Mapping[str, Key] = field(default_factory=dict)
    columns: Sequence[Column] = ()  # in place of the table's, where these rows are measured otherwise
    show: Show | None = None  # in place of the table's
    where: Callable[[View], bool] = lambda _view: True
    note: Callable[[View], str] = lambda _view: ""
    measured: bool = False  # leave out rows whose numbers all lack their value
    order: Callable[[TableRow], Any] | None = None  # sorts the rows by this key
    by_model: bool = False  # the keys of a model follow each other, not the models of a key
    baseline: bool = False

    def label_of(self, view: View) -> str:
        """Return the label of a row, or of a heading."""
        return self.label.format_map(view.key._asdict()) if isinstance(self.label, str) else self.label(view)

    def views(self, results: Results) -> Iterator[View]:
        """Return the view of each row, or of each heading."""
        views = [view for key in self.keys for source in self.sources for view in self._views(results, key, source)]
        models = [*results.models("published"), *results.models()] if self.by_model else []
        return iter(sorted(views, key=lambda view: models.index(view.key.model)) if models else views)

    def _views(self, results: Results, key: Key, source: Source) -> Iterator[View]:
        table = self.table if source == "published" else ""
        each = key.setting == EACH_SETTING
        # A paper may order its models otherwise in each setting.
        numbers = sorted(results.index(source, table), key=lambda number: number.setting != key.setting)
        for model, setting in dict.fromkeys((n.model, n.setting if each else key.setting) for n in numbers):
            view = View(results, key.of(model, setting), source, table)
            if not self.models or model in self.models:
                yield view


@dataclass(frozen=True, slots=True)
class Fixed:
    """Rows that are not one of each model: label -> what the numbers of the row have in common, its model perhaps."""

    parts: Mapping[str, Key]
    source: Source = "ours"
    table: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDef:
    """A table as data. The fields that `Table` has too mean the same."""

    id: str
    title: str
    columns: Mapping[str, Column] | Sequence[tuple[str, Column]]
    rows: Sequence[Rows | Fixed | Lines]
    show: Show = without_interval
    label_head: str = "Model"
    style: Style = "fraction2"
    styles: tuple[Style, ...] = ()
    groups: tuple[tuple[str, int], ...] = ()
    better: Literal["higher", ""] | tuple[Literal["higher", "lower", ""], ...] = ""  # a word: of every column
    best_of: Literal["table", "block"] = "table"
    second: Literal["table", "block", ""] = ""
    heat: tuple[float, float] | None = None
    notes: Sequence[Note] = ()
    caption: str = ""
    coverage: Callable[[Results], Sequence[str]] = lambda _results: ()
    """Notes on items that our numbers lack; where there are any, nothing is marked as the best."""

    def lay_out(self, results: Results) -> Table:
        """Return the table of a report's numbers."""
        rows = tuple(row for block in self.rows for row in self._block(block, results))
        gaps = tuple(self.coverage(results))
        notes = (line for note in self.notes for line in ([note] if isinstance(note, str) else note(results, rows)))
        better = (self.better,) * len(self.heads) if self.better == "higher" else self.better or ()
        given: dict[str, Any] = {name.name: getattr(self, name.name) for name in fields(Table)}
        given |= {"columns": tuple(head for head, _ in self.heads), "rows": rows, "notes": (*notes, *gaps)}
        return Table(**{**given, "better": () if gaps else better})

    @property
    def heads(self) -> Sequence[tuple[str, Column]]:
        """The heads with their columns."""
        return tuple(self.columns.items()) if isinstance(self.columns, Mapping) else self.columns

    def _block(self, block: Rows | Fixed | Lines, results: Results) -> Iterable[TableRow]:
        if isinstance(block, Fixed):
            parts = ((label, View(results, key, block.source, block.table)) for label, key in block.parts.items())
            return filter(None, [self._row(label, view) for label, view in parts])
        if not isinstance(block, Rows):
            return block(results)
        views = block.views(results)
        if not block.parts:
            rows = filter(None, [self._row(block.label_of(view), view, block) for view in views if block.where(view)])
            ordered = sorted(rows, key=block.order) if block.order else rows
            return section(block.heading, ordered) if block.heading else ordered
        return [row for view in views for row in section(block.label_of(view), self._parts(block, view))]

    def _parts(self, block: Rows, view: View) -> Iterable[TableRow]:
        parts = ((label, replace(view, key=key.within(view.key))) for label, key in block.parts.items())
        return filter(None, [self._row(label, part, block) for label, part in parts if block.where(part)])

    def _row(self, label: str, view: View, block: Rows = Rows()) -> TableRow | None:
        """Return a row; None where it has no number."""
        cells, numbers = list[TableCell](), list[TableValue | None]()
        for column in block.columns or [column for _, column in self.heads]:
            cell, number = _cell(column, view, block.show or self.show)
            cells.append(cell)
            numbers.append(number)
        if all(number is None or (block.measured and number.value is None) for number in numbers):
            return None
        origin: Origin = "human" if view.source == "published" and view.key.model.startswith("Human") else view.source
        return TableRow(label=label, cells=tuple(cells), origin=origin, baseline=block.baseline, note=block.note(view))


def _cell(column: Column, view: View, show: Show) -> tuple[TableCell, TableValue | None]:
    """Return a cell, and its number if there is any."""
    if isinstance(column, Key):
        column = Shown(column)
    if isinstance(column, Shown):
        number = view.find(column.key)
        if column.change:
            return without_interval(number, view.find(column.key._replace(metric=column.change))), number
        return (column.show or show)(number), number
    cell = column(view) if column else None
    if cell is None or isinstance(cell, str | TableValue):
        return cell, cell if isinstance(cell, TableValue) else None
    return cell, TableValue(value=cell)


def if_ours(*texts: str) -> Note:
    """Return notes that stand where the table has rows of ours."""
    return lambda _results, rows: texts if any(row.origin == "ours" and not row.baseline for row in rows) else ()


def if_published(*texts: str) -> Note:
    """Return notes that stand where the report has published numbers."""
    return lambda results, _rows: texts if results.published else ()


def curves(
    results: Results, lines: Mapping[str, Sequence[Key]], source: Source = "ours", *, table: str = "", ends: bool = True
) -> tuple[Series, ...]:
    """Return a series of numbers for each line that has a value; without `ends` no intervals."""
    found = {label: [results.find(key, source, table=table) for key in keys] for label, keys in lines.items()}
    drawn = [replace(Series.of(label, numbers), origin=source) for label, numbers in found.items()]
    shown = [line for line in drawn if any(value is not None for value in line.values)]
    return tuple(shown if ends else [replace(line, low=(), high=()) for line in shown])


def value_of(number: TableValue | None) -> TableCell:
    """Show a number without its interval and notes."""
    return number and number.value


def rows_behind(number: TableValue | None) -> TableCell:
    """Show how many rows a number is computed from."""
    return number and number.n


def coverage_notes(sizes: Iterable[int], full: int, words: str) -> tuple[str, ...]:
    """Return a note for each number of items that is less than all; `words` has places for `size` and `full`."""
    return tuple(words.format(size=size, full=full) for size in sorted(sizes) if size < full)
