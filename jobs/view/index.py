"""The index of all answers: a DuckDB database in a temporary folder, which filters and sorts a million rows.

It reads no file and no address by itself: Arrow tables are handed to it, and values only as bound parameters. What a
page shows beyond these columns is read from the part that `parts` names.
"""

import contextlib
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import duckdb
import pyarrow as pa

from pipelines.benchmarks import benchmark, benchmark_names
from pipelines.benchmarks.base import BenchmarkDefinition
from pipelines.benchmarks.records import is_person
from pipelines.errors import StoreError
from pipelines.rendering.formats import format_value
from pipelines.report.metrics_file import TABLES, Measured
from pipelines.report.references import References
from pipelines.samples.outputs import Output

Column: TypeAlias = tuple[str, str]  # task and setting
Origin: TypeAlias = Literal["ours", "baseline", "people", "chance", "published"]  # a baseline is a model that guesses
_PEOPLE = ("Human", "Humans", "People")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One number as people read it."""

    text: str = ""
    interval: str = ""
    n: int | None = None
    n_failed: int = 0
    note: str = ""


@dataclass(slots=True, kw_only=True)
class Row:
    """One line of a table."""

    model: str
    out: str = ""  # the output; '' for what models are compared with
    note: str = ""
    origin: Origin = "ours"
    cells: dict[Column, Cell] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class BenchmarkTable:
    """One benchmark's models by tasks and settings, for one metric."""

    name: str
    title: str
    metric: str
    metrics: list[str]
    columns: list[Column]
    rows: list[Row]
    published: list[Row]
    tasks: tuple[str, ...]  # tasks that have answers; the others are computed from them
    main: Column | None  # the task and setting that stands for the benchmark, as in the report

    def asked_task(self, column: Column) -> str:
        """Return the task whose answers are behind a column; '' where it is computed from several."""
        return column[0] if column[0] in self.tasks else ""


def benchmark_tables(outputs: Sequence[Output]) -> list[BenchmarkTable]:
    """Return the headline of every benchmark that an output holds."""
    names = {row.benchmark for output in outputs for row in output.metrics()}
    names |= {entry.benchmark for output in outputs for entry in output.entries()}
    ordered = [name for name in benchmark_names() if name in names]
    return [benchmark_table(outputs, name) for name in ordered]


def benchmark_table(outputs: Sequence[Output], name: str, metric: str = "") -> BenchmarkTable:
    """Return one benchmark's table for a metric of the whole, '' for its headline; UnknownNameError for none."""
    definition = benchmark(name)
    ours = [(output, row) for output in outputs for row in output.metrics() if row.benchmark == name and row.is_overall]
    metrics = list(dict.fromkeys(row.label for _, row in ours))
    metric = metric if metric in metrics else definition.headline
    rows: dict[tuple[str, str], Row] = {}
    for output, number in ours:
        if number.label == metric:
            key = (output.label, number.model)
            origin = _origin(output, number.model)
            note = "guesses" if origin == "baseline" else ""
            row = rows.setdefault(key, Row(model=number.model, out=output.label, origin=origin, note=note))
            row.cells[number.task, number.setting] = metric_cell(number)
    columns = _ordered({column for row in rows.values() for column in row.cells}, definition)
    published = _published(definition, metric, columns)
    return BenchmarkTable(
        name=name,
        title=definition.title,
        metric=metric,
        metrics=metrics,
        columns=columns,
        rows=[
            *sorted(rows.values(), key=lambda row: row.origin == "baseline"),
            *(row for output in outputs for row in _references(output, definition, metric, several=len(outputs) > 1)),
        ],
        published=[row for row in published if row.model not in _PEOPLE],
        tasks=tuple(definition.tasks),
        main=definition.headline_group(columns),
    )


def category_rows(outputs: Sequence[Output], name: str, metric: str, column: Column) -> tuple[list[str], list[Row]]:
    """Return the categories of a benchmark, and each model's numbers in them, by a pseudo column ('', category)."""
    rows: dict[tuple[str, str], Row] = {}
    for output in outputs:
        for number in output.metrics():
            if _origin(output, number.model) == "baseline":
                continue
            place = (number.benchmark, number.label, number.task, number.setting)
            if place == (name, metric, *column) and number.category and replace(number, category="").is_overall:
                row = rows.setdefault((output.label, number.model), Row(model=number.model, out=output.label))
                row.cells["", number.category] = metric_cell(number)
    categories = sorted({category for row in rows.values() for _, category in row.cells})
    return categories, list(rows.values())


def metric_cell(number: Measured) -> Cell:
    """Return a number as people read it: fractions in percent."""
    value, unit, low, high = number.value, number.unit, number.ci_low, number.ci_high
    return Cell(
        text=format_value(value, unit),
        interval="" if low is None or high is None else f"{format_value(low, unit)}–{format_value(high, unit)}",
        n=number.n,
        n_failed=number.n_failed,
        note="not measured" if value is None else "",
    )


def _ordered(columns: Iterable[Column], definition: BenchmarkDefinition) -> list[Column]:
    """Return columns in the order of the definition's tasks and settings; others last."""
    defined = [(task, setting) for task, settings in definition.tasks.items() for setting in settings]
    return sorted(columns, key=lambda column: (defined.index(column) if column in defined else len(defined), column))


def _published(definition: BenchmarkDefinition, metric: str, columns: Sequence[Column]) -> list[Row]:
    rows: dict[str, Row] = {}
    for value in definition.published:
        column = (value.task, definition.publication.settings.get(value.setting, value.setting))
        if (
            value.metric not in _printed(definition, metric)
            or value.subset
            or value.category
            or value.value is None
            or column not in columns
        ):
            continue
        row = rows.setdefault(value.model, Row(model=value.model, origin="published"))
        note = value.note if value.doubtful else ""
        row.cells[column] = Cell(text=format_value(value.value, value.unit), note=f"{value.table}. {note}".strip())
    return list(rows.values())


def _printed(definition: BenchmarkDefinition, metric: str) -> set[str]:
    """Return the names under which papers and people's values have a metric."""
    return {metric, definition.printed_headline if metric == definition.headline else metric}


def _origin(output: Output, model: str) -> Origin:
    return "people" if is_person(model) else "baseline" if model in output.run().baselines else "ours"


def _references(output: Output, definition: BenchmarkDefinition, metric: str, *, several: bool) -> list[Row]:
    """Return people as published and chance, on the rows of the best model of each task and setting."""
    numbers = [row for row in output.metrics() if row.benchmark == definition.name and row.source == TABLES]
    references = References(definition, numbers, output.run().baselines)
    where = f", {output.label}" if several else ""
    people = Row(model=f"People{where}", origin="people", note="as published")
    chance = Row(model=f"Chance{where}", origin="chance")
    for column, row in _best(output, definition, numbers, metric).items():
        if (level := references.people(row)) is not None and level.is_published:
            note = "as published" if level.rows == "same" else "as published, of other items than the models'"
            people.cells[column] = Cell(text=format_value(level.value.value, "fraction"), n=level.value.n, note=note)
        if (guess := references.chance(row)) is not None:
            chance.cells[column] = Cell(text=format_value(guess.value, row.unit), note=str(guess) or "by arithmetic")
    return [row for row in (people, chance) if row.cells]


def _best(
    output: Output, definition: BenchmarkDefinition, numbers: Iterable[Measured], metric: str
) -> dict[Column, Measured]:
    """Return the number of the best model in each task and setting; of one that guesses if there is no other."""
    sign = -1 if metric in definition.lower_is_better else 1
    ours = [row for row in numbers if row.metric == metric and row.is_whole and not is_person(row.model)]
    ours.sort(key=lambda row: (_origin(output, row.model) == "ours", sign * (row.value or 0.0)))
    return {(row.task, row.setting): row for row in ours}


MEMORY: Final = "400MB"
THREADS: Final = 2


def read_query(name: str) -> str:
    """Return a query of the folder `sql`."""
    return files("jobs.view").joinpath("sql", f"{name}.sql").read_text(encoding="utf-8")


_TABLES, _ITEMS, _INSERT = map(read_query, ("tables", "items", "insert"))

PREDICTION_COLUMNS: Final = pa.schema(
    [
        *((name, pa.string()) for name in ("request_id", "sample_id", "benchmark", "task", "setting", "variant")),
        *((name, pa.string()) for name in ("model", "status", "output", "error")),
        ("latency_s", pa.float64()),
    ]
)
SCORE_COLUMNS: Final = pa.schema(
    [
        *((name, pa.string()) for name in ("request_id", "category", "answer", "verdict_state")),
        ("correct", pa.float64()),
        ("accepted", pa.float64()),
    ]
)
JUDGEMENT_COLUMNS: Final = pa.schema([(name, pa.string()) for name in ("model", "prompt_sha256", "output", "error")])


class Index:
    """Answers of all outputs; an item is what several models answered. Safe to use from several threads."""

    def __init__(self, folder: Path) -> None:
        settings: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": MEMORY,
            "threads": THREADS,
            "temp_directory": str(folder / "spill"),
        }
        self._folder = folder
        self._connection = duckdb.connect(str(folder / "index.duckdb"), config=settings)
        self._connection.execute("SET enable_external_access = false")
        self._connection.execute("SET lock_configuration = true")
        self._connection.execute(_TABLES)
        self._connection.execute(_ITEMS)
        self._writing = threading.Lock()
        self._next_part = 0

    def close(self) -> None:
        """Close the database."""
        self._connection.close()

    def rows(self, query: str, parameters: Sequence[Any] = ()) -> list[dict[str, Any]]:
        """Return the rows of a query, whose text is constant and whose values are bound."""
        with self._cursor() as cursor:
            cursor.execute(query, list(parameters))
            names = [column[0] for column in cursor.description or ()]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def add_parts(self, out: int, parts: Sequence[tuple[str, str, pa.Table, pa.Table]]) -> None:
        """Add parts of an output: path, signature, predictions and scores of each, with the columns above."""
        numbers = range(self._next_part, self._next_part + len(parts))
        self._next_part += len(parts)
        names = [[number, out, path, signature] for number, (path, signature, _, _) in zip(numbers, parts, strict=True)]
        predictions = [_numbered(part[2], number) for number, part in zip(numbers, parts, strict=True)]
        scores = [_numbered(part[3], number) for number, part in zip(numbers, parts, strict=True)]
        with self._writing, self._cursor() as cursor:
            cursor.register("predictions", pa.concat_tables(predictions))
            cursor.register("scores", pa.concat_tables(scores))
            cursor.begin()
            cursor.execute(_INSERT, [out])
            cursor.executemany("INSERT INTO parts VALUES (?, ?, ?, ?)", names)
            cursor.commit()

    def drop_parts(self, out: int, paths: Sequence[str]) -> None:
        """Remove parts of an output that were replaced or deleted."""
        with self._writing, self._cursor() as cursor:
            cursor.begin()
            selected = "SELECT part FROM parts WHERE out = ? AND list_contains(?, path)"
            cursor.execute(f"DELETE FROM answers WHERE part IN ({selected})", [out, list(paths)])  # noqa: S608
            cursor.execute("DELETE FROM parts WHERE out = ? AND list_contains(?, path)", [out, list(paths)])
            cursor.commit()

    def add_questions(self, benchmark: str, shard: str, texts: Sequence[tuple[str, str]]) -> None:
        """Add sample ids of a benchmark's shard with the text by which they are found."""
        table = pa.table({"sample_id": [name for name, _ in texts], "text": [text for _, text in texts]})
        with self._writing, self._cursor() as cursor:
            cursor.register("texts", table)
            cursor.execute("INSERT INTO questions SELECT ?, sample_id, ?, lower(text) FROM texts", [benchmark, shard])

    def replace_judgements(self, out: int, path: str, replies: pa.Table) -> None:
        """Add the replies of one part of judgements, in place of those that it held before."""
        with self._writing, self._cursor() as cursor:
            cursor.register("replies", replies)
            cursor.begin()
            cursor.execute("DELETE FROM judgements WHERE out = ? AND path = ?", [out, path])
            cursor.execute(
                "INSERT INTO judgements SELECT ?, ?, model, prompt_sha256, coalesce(output, error) FROM replies",
                [out, path],
            )
            cursor.commit()

    def signatures(self, out: int) -> dict[str, str]:
        """Return path -> signature of the parts of an output."""
        rows = self.rows("SELECT path, signature FROM parts WHERE out = ?", [out])
        return {row["path"]: row["signature"] for row in rows}

    def refresh_items(self) -> None:
        """Group the answers to items, after parts were added or removed."""
        with self._writing, self._cursor() as cursor:
            cursor.execute(_ITEMS)

    @contextlib.contextmanager
    def _cursor(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Yield a cursor; StoreError where the memory of all queries or the temporary folder has no room."""
        try:
            with self._connection.cursor() as cursor:
                yield cursor
        except duckdb.OutOfMemoryException as error:
            problem = f"the index has no room for this beside what else is asked ({MEMORY} for all)"
            raise StoreError(f"{problem}; try again in a moment, or filter first", is_transient=True) from error
        except duckdb.IOException as error:
            problem = f"the index in {self._folder} cannot be written, is the disk full? ({str(error)[:200]})"
            raise StoreError(f"{problem}; start again with TMPDIR on a disk with room") from error


def _numbered(table: pa.Table, number: int) -> pa.Table:
    return table.append_column("part", pa.array([number] * table.num_rows, pa.int32()))
