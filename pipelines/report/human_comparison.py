"""Models beside people, published models and chance, over all benchmarks: one table and one figure.

What there is to compare, each benchmark declares as `pipelines.benchmarks.human.HumanLevel`; none is named here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from pipelines.benchmarks.figures import Bars, Figure, Series
from pipelines.benchmarks.human import ANNOTATOR, SAME_ITEMS, HumanLevel, gap_metric, human_metric
from pipelines.benchmarks.tables import Table, TableRow, TableValue
from pipelines.report.published import doubtful
from pipelines.report.tables.overview import number_or_none

if TYPE_CHECKING:
    import pandas as pd

_Row: TypeAlias = Mapping[Any, Any]
_Ours: TypeAlias = Mapping[tuple[str, ...], _Row]
"""Rows by place, setting and model."""
_NO_MODELS = ("Human", "Random")
_ITEMS = {"same": "same", "approximate": "approximate", "unpublished": "none"}
_COLUMNS = ("Task", "Setting", "Measure", "Value", "Human", "Chance", "Gap to human", "Items")
_NOTES = (
    "Percent and points. Gap: the value minus people's, with its 95% interval from resampling what shares media.",
    "Where people's single answers are at hand, both are resampled together; else people's value is taken as fixed.",
    "Items: whether ours are those that people answered; approximate: theirs are not known, so that ours are others.",
    "None: nobody has published how well people do.",
    "Italics: as published; of a measure without a human figure, only the best published model of each setting.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HumanComparison:
    """One benchmark's share."""

    title: str
    levels: tuple[HumanLevel, ...]
    metrics: pd.DataFrame
    """Rows of `metrics.json`."""
    published: pd.DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """One value beside people."""

    model: str
    setting: str
    level: HumanLevel
    value: TableValue
    human: TableValue
    chance: float | None
    gap: TableValue
    printed: bool = False


def people_tables(shares: Sequence[HumanComparison]) -> list[Table]:
    """The joint table, a block a benchmark; none where no benchmark has anything to compare."""
    rows: list[TableRow] = []
    sources: dict[str, None] = {}
    for share in shares:
        lines = list(_lines(share))
        rows += [TableRow(label=share.title, origin="heading")] if lines else []
        rows += [_table_row(line) for line in lines]
        sources |= dict.fromkeys(f"{share.title}: {line.level.source}." for line in lines if line.level.source)
    if not rows:
        return []
    return [
        Table(
            id="human",
            title="Models beside people, published models and chance",
            columns=_COLUMNS,
            rows=tuple(rows),
            style="percent1",
            notes=(*_NOTES, *sources),
        )
    ]


def people_figures(shares: Sequence[HumanComparison]) -> list[Figure]:
    """Bars of our models and the best published one, a line for people and one for chance, in each drawn setting."""
    groups: dict[str, list[_Line]] = {}
    for share in shares:
        for line in _lines(share):
            if line.setting in line.level.drawn:
                words = ", ".join(part for part in (line.level.task, _measure(line.level), line.setting) if part)
                groups.setdefault(f"{share.title}: {words}", []).append(line)
    groups = {name: lines for name, lines in groups.items() if any(_is_measured(line) for line in lines)}
    if not groups:
        return []
    models = dict.fromkeys(line.model for lines in groups.values() for line in lines if not line.printed)
    ours = [_series(model, [_of(lines, model) for lines in groups.values()]) for model in models]
    best = tuple(_best(lines) for lines in groups.values())
    first = [next(line for line in lines if not line.printed) for lines in groups.values()]
    human, chance = tuple(line.human.value for line in first), tuple(line.chance for line in first)
    series = [
        *ours,
        *([Series(label="Best published", values=best, origin="published")] if _any(best) else []),
        *([Series(label="Chance", values=chance, origin="reference")] if _any(chance) else []),
        *([Series(label="People", values=human, origin="reference")] if _any(human) else []),
    ]
    notes = (
        "Ours with 95% intervals. No line for people: nobody published how well they do.",
        "People and published models answered other or more items than ours where the table says approximate.",
    )
    return [
        Bars(
            id="human_figure",
            title="Models beside people and chance",
            categories=tuple(groups),
            series=tuple(series),
            y_label="Correct, by each benchmark's measure",
            horizontal=True,
            notes=notes,
        )
    ]


def _lines(share: HumanComparison) -> Iterator[_Line]:
    rows = share.metrics.to_dict("records")
    ours: _Ours = {(*_place(row), str(row["setting"]), str(row["model"])): row for row in rows}
    for level in share.levels:
        found = [_own(level, row, ours) for row in rows if _is_of(level, row)]
        if found:
            yield from _printed(level, share.published)
            yield from found
        for row in rows:
            if _on_same_items(level, row, ours):
                yield _paired(level, row, ours)


def _place(row: _Row) -> tuple[str, str, str, str]:
    return str(row["task"]), str(row["metric"]), str(row["subset"]), str(row["category"])


def _is_of(level: HumanLevel, row: _Row) -> bool:
    wanted = (level.task, level.metric, level.subset, level.category)
    asked = not level.settings or row["setting"] in level.settings
    return _place(row) == wanted and asked and not _is_person(row)


def _is_person(row: _Row) -> bool:
    return str(row["model"]).startswith(ANNOTATOR)


def _own(level: HumanLevel, row: _Row, ours: _Ours) -> _Line:
    value, human = _measured(row), TableValue(value=level.value, n=level.n)
    return _Line(
        model=str(row["model"]),
        setting=str(row["setting"]),
        level=level,
        value=value,
        human=human,
        chance=_chance(level, row, ours),
        gap=_fixed_gap(value, level.value),
    )


def _on_same_items(level: HumanLevel, row: _Row, ours: _Ours) -> bool:
    """Whether this is the whole of a level on the items of people's own files."""
    if level.category or level.subset or _place(row) != (level.task, level.metric, SAME_ITEMS, ""):
        return False
    return _other(row, human_metric(level.metric), ours) is not None


def _paired(level: HumanLevel, row: _Row, ours: _Ours) -> _Line:
    human, gap = (_other(row, name, ours) for name in (human_metric(level.metric), gap_metric(level.metric)))
    here = HumanLevel(
        task=level.task,
        metric=level.metric,
        subset=SAME_ITEMS,
        items="same",
        drawn=level.drawn,
        source=f"{SAME_ITEMS}: answers of the people in the files given",
    )
    return _Line(
        model=str(row["model"]),
        setting=str(row["setting"]),
        level=here,
        value=_measured(row),
        human=_measured(human) if human else TableValue(value=None),
        chance=level.chance,
        gap=_measured(gap) if gap else TableValue(value=None),
    )


def _other(row: _Row, metric: str, ours: _Ours) -> _Row | None:
    """Another metric of the same model in the same place."""
    task, _, subset, category = _place(row)
    return ours.get((task, metric, subset, category, str(row["setting"]), str(row["model"])))


def _chance(level: HumanLevel, row: _Row, ours: _Ours) -> float | None:
    found = _other(row, level.chance_metric, ours) if level.chance_metric else None
    return number_or_none(found["value"]) if found else level.chance


def _printed(level: HumanLevel, published: pd.DataFrame) -> Iterator[_Line]:
    """Published models of a level: all that stand beside people, or the best of each setting."""
    subset = level.subset if level.printed_subset is None else level.printed_subset
    rows = published[published["table"].isin([*level.tables, *level.best_of]) & ~published["model"].isin(_NO_MODELS)]
    rows = rows[(rows["task"] == level.task) & (rows["metric"] == level.metric)]
    rows = rows[(rows["subset"] == subset) & (rows["category"] == level.category) & rows["value"].notna()]
    rows = rows[rows["setting"] != ""]
    if level.best_of:
        rows = rows[~doubtful(rows)].sort_values("value", ascending=False, kind="stable").drop_duplicates("setting")
    for row in rows.to_dict("records"):
        value = TableValue(value=float(row["value"]), n=level.n, note=str(row["note"]))
        yield _Line(
            model=str(row["model"]),
            setting=str(row["setting"]),
            level=level,
            value=value,
            human=TableValue(value=level.value, n=level.n),
            chance=level.chance,
            gap=_fixed_gap(value, level.value),
            printed=True,
        )


def _fixed_gap(value: TableValue, human: float | None) -> TableValue:
    def minus(end: float | None) -> float | None:
        return None if end is None or human is None else end - human

    return TableValue(value=minus(value.value), low=minus(value.low), high=minus(value.high))


def _measured(row: _Row) -> TableValue:
    value = number_or_none(row["value"])
    return TableValue(
        value=value,
        low=number_or_none(row["ci_low"]),
        high=number_or_none(row["ci_high"]),
        n=int(row["n"]),
        note=str(row.get("note") or "") if value is None else "",
    )


def _table_row(line: _Line) -> TableRow:
    items = "the people's" if line.printed and line.level.tables else _ITEMS[line.level.items]
    return TableRow(
        label=line.model,
        cells=(
            line.level.task,
            line.setting,
            _measure(line.level, printed=line.printed),
            line.value,
            line.human,
            line.chance,
            line.gap,
            items,
        ),
        origin="published" if line.printed else "ours",
    )


def _measure(level: HumanLevel, *, printed: bool = False) -> str:
    subset = level.printed_subset if printed and level.printed_subset is not None else level.subset
    return ", ".join(part for part in (level.metric.replace("_", " "), subset, level.category) if part)


def _is_measured(line: _Line) -> bool:
    return not line.printed and line.value.value is not None


def _of(lines: Sequence[_Line], model: str) -> TableValue:
    return next((one.value for one in lines if one.model == model and not one.printed), TableValue(value=None))


def _best(lines: Sequence[_Line]) -> float | None:
    return max((one.value.value for one in lines if one.printed and one.value.value is not None), default=None)


def _series(label: str, values: Sequence[TableValue]) -> Series:
    return Series(
        label=label,
        values=tuple(one.value for one in values),
        low=tuple(one.low for one in values),
        high=tuple(one.high for one in values),
    )


def _any(values: Sequence[float | None]) -> bool:
    return any(value is not None for value in values)
