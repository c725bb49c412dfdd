"""Tables of metrics: the headline of every benchmark, models by settings, with rows of people and published models."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from pipelines.benchmarks import benchmark, benchmark_names
from pipelines.benchmarks.base import BenchmarkDefinition
from pipelines.benchmarks.records import is_person
from pipelines.rendering.formats import format_value
from pipelines.report.measured import TABLES, Measured
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
