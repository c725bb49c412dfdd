"""Models compared with humans, published models and chance over all benchmarks, by their `HumanLevel`s."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import mean
from typing import Literal

from pipelines.benchmarks.figures import Bars, Figure, Series
from pipelines.benchmarks.human import SAME_ITEMS, HumanLevel, gap_metric, human_metric
from pipelines.benchmarks.metrics_kernel.labels import MetricName, metric_label
from pipelines.benchmarks.records import PublishedValue, is_person
from pipelines.benchmarks.results import section
from pipelines.benchmarks.tables import Table, TableRow, TableValue
from pipelines.report.metrics_file import Measured, MetricKey
from pipelines.report.references import NumberIndex, chance_on_rows
from pipelines.report.worded import worded

_NO_MODELS = ("Human", "Random")
_ITEMS = {"same": "same", "approximate": "approximate", "unpublished": "none"}


@dataclass(frozen=True, slots=True, kw_only=True)
class HumanComparison:
    """The measures and numbers of one benchmark."""

    title: str
    levels: tuple[HumanLevel, ...]
    metrics: Sequence[Measured]
    published: Sequence[PublishedValue]
    baselines: Collection[str] = ()  # models that guess, which are compared with and never the best


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    model: str
    setting: str
    level: HumanLevel
    value: TableValue
    human: TableValue
    chance: float | None
    gap: TableValue
    origin: Literal["ours", "published"] = "ours"
    items: str = ""  # of whom, where not as the level says


def human_tables(comparisons: Sequence[HumanComparison]) -> list[Table]:
    """Return the joint table, one block per benchmark; empty if no benchmark has a comparable measure."""
    rows: list[TableRow] = []
    sources: dict[str, None] = {}
    for comparison in comparisons:
        lines = list(_lines(comparison))
        rows += section(comparison.title, [_table_row(line, comparison.baselines) for line in lines])
        sources |= dict.fromkeys(f"{comparison.title}: {line.level.source}." for line in lines if line.level.source)
    return [worded("human", rows, notes=[*sources])] if rows else []


def gap_tables(comparisons: Sequence[HumanComparison]) -> list[Table]:
    """Return our best model beside people, one row a drawn measure with a human value; empty if there is none."""
    rows = [
        TableRow(label=comparison.title, cells=(group, best.model, best.value, best.human, best.gap, best.chance))
        for comparison in comparisons
        for group, lines in _drawn(comparison).items()
        if (best := _best_own(lines, comparison.baselines)) is not None
    ]
    return [worded("human_gap", rows)] if rows else []


def human_figures(comparisons: Sequence[HumanComparison]) -> list[Figure]:
    """Return bars of our models and the best published one, with lines for humans and chance, per drawn setting."""
    groups = {
        f"{comparison.title}: {name}": lines for comparison in comparisons for name, lines in _drawn(comparison).items()
    }
    if not groups:
        return []
    models = dict.fromkeys(line.model for lines in groups.values() for line in lines if line.origin == "ours")
    guessing = {name for comparison in comparisons for name in comparison.baselines}
    ours = [
        replace(Series.of(model, [_value_of(lines, model) for lines in groups.values()]), baseline=model in guessing)
        for model in models
    ]
    best = tuple(_best(lines) for lines in groups.values())
    first = [next(line for line in lines if line.origin == "ours") for lines in groups.values()]
    human, chance = tuple(line.human.value for line in first), tuple(line.chance for line in first)
    series = [
        *ours,
        *([Series(label="Best published", values=best, origin="published")] if _has_value(best) else []),
        *([Series(label="Chance", values=chance, baseline=True)] if _has_value(chance) else []),
        *([Series(label="People", values=human, origin="human", baseline=True)] if _has_value(human) else []),
    ]
    without = "; ".join(name for name, value in zip(groups, human, strict=True) if value is None)
    notes = (
        "Ours with 95% intervals.",
        *([f"No line for people: no human value has been published of {without}."] if without else []),
        "Where the table says approximate, people and published models answered other or more items than ours.",
    )
    return [
        Bars(
            id="human_figure",
            title="Models compared with people and chance",
            categories=tuple(groups),
            series=tuple(series),
            y_label="Correct, by each benchmark's measure",
            horizontal=True,
            notes=notes,
        )
    ]


def _drawn(comparison: HumanComparison) -> dict[str, list[_Line]]:
    """Return the lines of each measure and setting that figures show, where a model of ours has a value."""
    groups: dict[str, list[_Line]] = {}
    for line in _lines(comparison):
        if line.setting in line.level.drawn:
            name = ", ".join(part for part in (line.level.task, _measure(line.level), line.setting) if part)
            groups.setdefault(name, []).append(line)
    return {name: lines for name, lines in groups.items() if any(_is_measured(line) for line in lines)}


def _best_own(lines: Sequence[_Line], baselines: Collection[str]) -> _Line | None:
    """Return the line of our model with the highest value, where people have a value too; no model that guesses."""
    measured = [
        line for line in lines if _is_measured(line) and line.human.value is not None and line.model not in baselines
    ]
    return max(measured, key=lambda line: line.value.value or 0.0, default=None)


def _lines(comparison: HumanComparison) -> Iterator[_Line]:
    rows = comparison.metrics
    index = {(row.model, row.key): row for row in rows}
    paired_measures: set[tuple[str, str]] = set()
    for level in comparison.levels:
        own_lines = [_own_line(level, row, index) for row in rows if _matches(level, row)]
        if own_lines:
            yield from _published_lines(level, comparison.published)
            yield from own_lines
        if (level.task, level.metric) not in paired_measures:
            paired_measures.add((level.task, level.metric))
            yield from (_paired_line(level, row, index) for row in rows if _has_paired_human(level, row, index))


def _matches(level: HumanLevel, row: Measured) -> bool:
    is_comparable = not level.settings or row.setting in level.settings
    key = MetricKey(level.metric, level.task, row.setting, level.subset, level.category)
    return row.key == key and is_comparable and not is_person(row.model)


def _own_line(level: HumanLevel, row: Measured, index: NumberIndex) -> _Line:
    value, human = _measured(row), TableValue(value=level.value, n=level.n)
    return _Line(
        model=row.model,
        setting=row.setting,
        level=level,
        value=value,
        human=human,
        chance=chance_on_rows(row, [level], index),
        gap=value.minus(None if row.unit == "count" else level.value),
    )


def _has_paired_human(level: HumanLevel, row: Measured, index: NumberIndex) -> bool:
    """Return whether a row is a value of a level's measure on the items of the human files."""
    if (row.task, row.metric, row.subset) != (level.task, level.metric, SAME_ITEMS):
        return False
    return _related_row(row, human_metric(level.metric), index) is not None


def _paired_line(level: HumanLevel, row: Measured, index: NumberIndex) -> _Line:
    human, gap = (_related_row(row, name, index) for name in (human_metric(level.metric), gap_metric(level.metric)))
    same_items = HumanLevel(
        task=level.task,
        metric=level.metric,
        subset=SAME_ITEMS,
        category=row.category,
        items="same",
        drawn=level.drawn if not row.category else (),
        source=f"{SAME_ITEMS}: answers of the people in the human files",
    )
    return _Line(
        model=row.model,
        setting=row.setting,
        level=same_items,
        value=_measured(row),
        human=_measured(human) if human else TableValue(value=None),
        chance=chance_on_rows(row, [level], index),
        gap=_measured(gap) if gap else TableValue(value=None),
    )


def _related_row(row: Measured, metric: str, index: NumberIndex) -> Measured | None:
    return index.get((row.model, row.key._replace(metric=metric)))


def _published_lines(level: HumanLevel, published: Sequence[PublishedValue]) -> Iterator[_Line]:
    """Yield the published models of a level: all in the tables with humans, and the best of each setting in others."""
    rows = list(published_values(level, published))
    human_rows = [row for row in rows if row.table in level.tables]
    best: dict[str, PublishedValue] = {}
    others = [row for row in rows if row.table in level.best_of and not row.doubtful]
    for row in sorted(others, key=lambda row: -(row.value or 0.0)):
        best.setdefault(row.setting, row)
    for row in (*human_rows, *best.values()):
        same_items = row.table in level.tables
        value = TableValue(value=row.value, n=level.n if same_items else None, note=row.note)
        yield _Line(
            model=row.model,
            setting=row.setting,
            level=level,
            value=value,
            human=TableValue(value=level.value, n=level.n),
            chance=level.chance,
            gap=value.minus(level.value),
            origin="published",
            items="the people's" if same_items else "",
        )


def published_values(level: HumanLevel, published: Sequence[PublishedValue]) -> Iterator[PublishedValue]:
    """Yield the published models' values of a level; where only its parts are printed, their mean."""
    subset = level.subset if level.printed_subset is None else level.printed_subset
    parts: dict[tuple[str, str, str], list[PublishedValue]] = {}
    for row in published:
        is_model = row.model not in _NO_MODELS and row.value is not None and row.setting
        if is_model and (row.task, row.metric, row.subset) == (level.task, level.metric, subset):
            if row.category == level.category:
                yield row
            elif row.category in level.printed_parts:
                parts.setdefault((row.table, row.model, row.setting), []).append(row)
    for rows in parts.values():
        if len(rows) == len(level.printed_parts):
            yield replace(rows[0], category=level.category, value=mean(row.value or 0.0 for row in rows))


def _measured(row: Measured) -> TableValue:
    value = int(row.value) if row.unit == "count" and row.value is not None else row.value
    return replace(row.cell, value=value, n_failed=None)


def _table_row(line: _Line, baselines: Collection[str]) -> TableRow:
    is_published = line.origin == "published"
    items = line.items or _ITEMS[line.level.items]
    return TableRow(
        label=line.model,
        cells=(
            line.level.task,
            line.setting,
            _measure(line.level, published=is_published),
            line.value,
            line.human,
            line.chance,
            line.gap,
            items,
        ),
        origin=line.origin,
        baseline=line.model in baselines,
    )


def _measure(level: HumanLevel, *, published: bool = False) -> str:
    subset = level.printed_subset if published and level.printed_subset is not None else level.subset
    names, words = (
        ", ".join(part for part in (metric, subset, level.category) if part)
        for metric in (level.metric.replace("_", " "), metric_label(level.metric))
    )
    return MetricName(names, words)


def _is_measured(line: _Line) -> bool:
    return line.origin == "ours" and line.value.value is not None


def _value_of(lines: Sequence[_Line], model: str) -> TableValue:
    return next((line.value for line in lines if line.model == model and line.origin == "ours"), TableValue(value=None))


def _best(lines: Sequence[_Line]) -> float | None:
    return max(
        (line.value.value for line in lines if line.origin == "published" and line.value.value is not None),
        default=None,
    )


def _has_value(values: Sequence[float | None]) -> bool:
    return any(value is not None for value in values)
