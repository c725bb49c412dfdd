"""Tables of MAIA that the paper does not have: deltas, reading, pools, both tasks together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from pipelines.benchmarks.layout import BOTH, Rows, TableDef
from pipelines.benchmarks.maia.categories import POOL_SIZE
from pipelines.benchmarks.maia.results import (
    AGG,
    ALL_HEADS,
    BASELINES,
    CATEGORIES,
    FULL,
    MEASURES,
    OEVQA,
    POOLS,
    SETTING_HEADS,
    STATEMENTS,
    gain_key,
    subset_notes,
)
from pipelines.benchmarks.results import Key, Results, Source, mean_of, with_our_rows
from pipelines.benchmarks.tables import Table, TableRow, TableValue

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


def extra_tables(results: Results) -> list[Table]:
    """Return the tables that have any row of ours."""
    laid_out = (table.lay_out(results) for table in (_GAINS, _READING, _POOLS, _CONTINGENCY))
    return with_our_rows([_deltas(results), *laid_out])


def _deltas(results: Results) -> Table:
    models = [key.model for key in results.published if key.of("", "") == POOLS and key.setting in SETTING_HEADS]
    published = {model: [_published_delta(results, model, *keys) for keys in _PUBLISHED_DELTAS] for model in models}
    ours = {model: [_without_counts(results.find(key.of(model))) for key in _OUR_DELTAS] for model in results.models()}
    ours = {model: cells for model, cells in ours.items() if any(cell is not None for cell in cells)}
    kappa = [
        f"Fleiss' kappa of the judge and human raters, {source}: {number.value:.2f}."
        for source in reversed(BOTH)
        for key, number in results.index(source).items()
        if key.metric == "fleiss_kappa" and number.value is not None
    ]
    return Table(
        id="maia_deltas",
        title="MAIA: differences between inputs and between tasks",
        columns=("32-Frames \N{MINUS SIGN} 1-Frame", *SETTING_HEADS.values(), *SETTING_HEADS.values()),
        groups=(("Pool", 1), ("Statement \N{MINUS SIGN} pool", 3), ("Open answer \N{MINUS SIGN} pool", 3)),
        rows=(*_delta_rows("published", published), *_delta_rows("ours", ours)),
        notes=(
            "Ours with the 95% interval of the paired difference over videos.",
            *kappa,
            *subset_notes(results),
        ),
    )


def _delta_rows(source: Source, cells_by_model: Mapping[str, Sequence[TableValue | None]]) -> Iterator[TableRow]:
    for model, cells in cells_by_model.items():
        yield TableRow(label=model, cells=tuple(cells), origin=source)
    if len(cells_by_model) > 1:
        means = map(mean_of, zip(*cells_by_model.values(), strict=True))
        yield TableRow(label=f"Mean, {source}", cells=tuple(means), origin=source)


def _published_delta(results: Results, model: str, minuend: Key, subtrahend: Key) -> TableValue | None:
    first, second = (results.find(key._replace(model=model), "published") for key in (minuend, subtrahend))
    if first is None or second is None or first.value is None or second.value is None:
        return None
    doubts = [number.note for number in (first, second) if number.doubtful]
    return TableValue(value=first.value - second.value, note="; ".join(doubts), doubtful=bool(doubts))


def _without_counts(number: TableValue | None) -> TableValue | None:
    return number and replace(number, n=None, n_failed=None)


def _clashes(results: Results, _rows: Sequence[TableRow]) -> Iterable[str]:
    notes = (number.note for key, number in results.ours.items() if key.metric == "contradictory_pools")
    return (f"Contradictory pools, kept: {note}." for note in dict.fromkeys(notes) if note)


_BY_SETTING: Final = [
    Rows(heading, [Key(setting=setting)]) for setting, heading in {**ALL_HEADS, "unimodal": "Unimodal"}.items()
]
_GAINS: Final = TableDef(
    id="maia_category_deltas",
    title="MAIA: differences between inputs by category",
    columns=CATEGORIES,
    rows=[
        Rows(f"{label}: {SETTING_HEADS[FULL]} \N{MINUS SIGN} {SETTING_HEADS[baseline]}", [gain_key(measure, baseline)])
        for baseline in BASELINES
        for measure, (_, label) in MEASURES.items()
    ],
    show=lambda number: number,
    notes=("With the 95% interval of the paired difference over videos.",),
    coverage=subset_notes,
)
_READING: Final = TableDef(
    id="maia_reading",
    title="MAIA: parsing of answers",
    columns={
        "None rate": Key("none_rate", "vsv"),
        "Accuracy, true at A": Key("accuracy_ts_a", "vsv"),
        "Accuracy, true at B": Key("accuracy_ts_b", "vsv"),
        "As the authors read": Key("statement_accuracy_authors", "vsv"),
        "Readings differ": Key("readings_differ", "vsv"),
        "By elimination": Key("elimination_count", "vsv"),
        "By echo": Key("echo_count", "vsv"),
        "Failed pairs": Key("errors", "vsv"),
        "Judge errors": Key("judge_error_count", "oevqa"),
        "Truncated": Key("truncated_count", "oevqa"),
        "Failed answers": Key("errors", "oevqa"),
        "Contradictory pools": Key("contradictory_pools", "vsv"),
    },
    rows=_BY_SETTING,
    style="fraction3",
    notes=(
        "None: neither letter could be parsed, which is wrong. True at A or B: place of the true statement.",
        "As the authors read: statement accuracy by the first capital A or B that is a word of its own.",
        _clashes,
    ),
)
_POOLS: Final = TableDef(
    id="maia_pools",
    title="MAIA: questions by number of correct statement pairs, of eight",
    columns={str(right): Key(f"pool_right_{right}", "vsv") for right in range(POOL_SIZE + 1)},
    rows=_BY_SETTING,
)
_CONTINGENCY: Final = TableDef(
    id="maia_contingency",
    title="MAIA: questions by correct pool and accepted open answer",
    label_head="Category",
    columns={
        "Both right": Key("agg_both"),
        "Pool only": Key("agg_pool_only"),
        "Open answer only": Key("agg_judge_only"),
        "Neither": Key("agg_neither"),
    },
    rows=[
        Rows(
            keys=[AGG.of("", setting) for setting in SETTING_HEADS],
            label=lambda view: f"{view.key.model}, {SETTING_HEADS[view.key.setting]}",
            by_model=True,
            parts={head if head != "Avg." else "All": key for head, key in CATEGORIES.items()},
        )
    ],
)
