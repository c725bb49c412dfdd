"""Tables of MAIA that the paper does not have: deltas, reading, pools, both tasks together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from pipelines.benchmarks.maia.categories import COLUMNS, POOL_SIZE
from pipelines.benchmarks.maia.gains import gain_table
from pipelines.benchmarks.maia.results import (
    AGG,
    CATEGORY_HEADS,
    OEVQA,
    POOLS,
    SETTING_HEADS,
    STATEMENTS,
    MaiaResults,
)
from pipelines.benchmarks.results import Key, Source, filled, mean_of, section, with_our_rows, without_interval
from pipelines.benchmarks.tables import Table, TableRow, TableValue

_READING: Final[Mapping[Key, str]] = {
    Key("none_rate", "vsv"): "None rate",
    Key("accuracy_ts_a", "vsv"): "Accuracy, true at A",
    Key("accuracy_ts_b", "vsv"): "Accuracy, true at B",
    Key("elimination_count", "vsv"): "By elimination",
    Key("echo_count", "vsv"): "By echo",
    Key("errors", "vsv"): "Failed pairs",
    Key("judge_error_count", "oevqa"): "Judge errors",
    Key("truncated_count", "oevqa"): "Truncated",
    Key("errors", "oevqa"): "Failed answers",
    Key("contradictory_pools", "vsv"): "Contradictory pools",
}
_CONTINGENCY: Final[Mapping[str, str]] = {
    "agg_both": "Both right",
    "agg_pool_only": "Pool only",
    "agg_judge_only": "Open answer only",
    "agg_neither": "Neither",
}
_OUR_DELTAS: Final = (
    Key("pool_gain_over_1_frame", "vsv", "32-frames"),
    *(Key("statement_minus_pool", "vsv", setting) for setting in SETTING_HEADS),
    *(Key("oevqa_minus_pool", "aggregate", setting) for setting in SETTING_HEADS),
)
_PUBLISHED_DELTAS: Final = (
    (POOLS.of("", "32-frames"), POOLS.of("", "1-frame")),
    *((STATEMENTS.of("", setting), POOLS.of("", setting)) for setting in SETTING_HEADS),
    *((OEVQA.of("", setting), POOLS.of("", setting)) for setting in SETTING_HEADS),
)
"""Minuend and subtrahend of each column."""


def extra_tables(maia: MaiaResults) -> list[Table]:
    """Return the tables that have any row of ours."""
    tables = (_deltas(maia), gain_table(maia), _reading(maia), _pools(maia), _contingency(maia))
    return with_our_rows(tables)


def _deltas(maia: MaiaResults) -> Table:
    models = maia.models_of(POOLS, SETTING_HEADS, "published")
    published = {model: [_published_delta(maia, model, *keys) for keys in _PUBLISHED_DELTAS] for model in models}
    ours = {model: [_our_delta(maia, key.of(model)) for key in _OUR_DELTAS] for model in maia.models()}
    ours = {model: cells for model, cells in ours.items() if any(cell is not None for cell in cells)}
    sources: tuple[Source, ...] = ("ours", "published")
    kappa = [
        f"Fleiss' kappa of the judge and human raters, {source}: {number.value:.2f}."
        for source in sources
        for key, number in maia.results.index(source).items()
        if key.metric == "fleiss_kappa" and number.value is not None
    ]
    return Table(
        id="maia_deltas",
        title="MAIA: differences between inputs and between tasks",
        columns=("32-Frames \N{MINUS SIGN} 1-Frame", *SETTING_HEADS.values(), *SETTING_HEADS.values()),
        groups=(("Pool", 1), ("Statement \N{MINUS SIGN} pool", 3), ("Open answer \N{MINUS SIGN} pool", 3)),
        rows=(*_delta_rows("published", published), *_delta_rows("ours", ours)),
        notes=(
            "Ours with the 95% interval of the paired difference: both sides are resampled together, by video.",
            *kappa,
            *maia.subset_notes(),
        ),
    )


def _delta_rows(source: Source, cells_by_model: Mapping[str, Sequence[TableValue | None]]) -> Iterator[TableRow]:
    for model, cells in cells_by_model.items():
        yield TableRow(label=model, cells=tuple(cells), origin=source)
    if len(cells_by_model) > 1:
        means = map(mean_of, zip(*cells_by_model.values(), strict=True))
        yield TableRow(label=f"Mean, {source}", cells=tuple(means), origin=source)


def _published_delta(maia: MaiaResults, model: str, minuend: Key, subtrahend: Key) -> TableValue | None:
    first, second = (maia.find(key._replace(model=model), "published") for key in (minuend, subtrahend))
    if first is None or second is None or first.value is None or second.value is None:
        return None
    doubts = [number.note for number in (first, second) if number.doubtful]
    return TableValue(value=first.value - second.value, note="; ".join(doubts), doubtful=bool(doubts))


def _our_delta(maia: MaiaResults, key: Key) -> TableValue | None:
    number = maia.find(key)
    return None if number is None else replace(number, n=None, n_failed=None)


def _reading(maia: MaiaResults) -> Table:
    clashes = dict.fromkeys(
        number.note for key, number in maia.results.ours.items() if key.metric == "contradictory_pools" and number.note
    )
    return Table(
        id="maia_reading",
        title="MAIA: parsing of answers",
        columns=tuple(_READING.values()),
        rows=tuple(_rows_by_setting(maia, list(_READING))),
        style="fraction3",
        notes=(
            "None: neither letter could be parsed, which is wrong. True at A or B: place of the true statement.",
            *(f"Contradictory pools, kept: {note}." for note in clashes),
        ),
    )


def _pools(maia: MaiaResults) -> Table:
    keys = [Key(f"pool_right_{right}", "vsv") for right in range(POOL_SIZE + 1)]
    return Table(
        id="maia_pools",
        title="MAIA: questions by number of correct statement pairs, of eight",
        columns=tuple(str(right) for right in range(POOL_SIZE + 1)),
        rows=tuple(_rows_by_setting(maia, keys)),
    )


def _rows_by_setting(maia: MaiaResults, keys: Sequence[Key]) -> Iterator[TableRow]:
    """Yield our models under the headings of their settings, a column per key."""
    for setting, heading in {**SETTING_HEADS, "unimodal": "Unimodal"}.items():
        rows = (
            TableRow(label=model, cells=tuple(without_interval(maia.find(key.of(model, setting))) for key in keys))
            for model in maia.models()
        )
        yield from section(heading, filled(rows))


def _contingency(maia: MaiaResults) -> Table:
    """Lay out questions by their results in both tasks, for the whole and each category."""
    rows: list[TableRow] = []
    for model in maia.models():
        for setting, heading in SETTING_HEADS.items():
            agg = AGG.of(model, setting)
            if maia.find(agg) is None:
                continue
            rows.append(TableRow(label=f"{model}, {heading}", origin="heading"))
            for category, name in zip(("", *COLUMNS), ("All", *CATEGORY_HEADS), strict=True):
                keys = [agg._replace(metric=metric, category=category) for metric in _CONTINGENCY]
                rows += filled([TableRow(label=name, cells=tuple(without_interval(maia.find(key)) for key in keys))])
    return Table(
        id="maia_contingency",
        title="MAIA: questions by correct pool and accepted open answer",
        label_head="Category",
        columns=tuple(_CONTINGENCY.values()),
        rows=tuple(rows),
    )
