"""MAIA's tables: the paper's (arXiv 2502.16989), ours next to the published ones, then others; and radars."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from pipelines.benchmarks.figures import Figure, Radar, Series, model_slugs
from pipelines.benchmarks.layout import BOTH, Rows, Shown, TableDef, View, curves, if_ours
from pipelines.benchmarks.maia.facts import (
    AGG,
    ALL_HEADS,
    BASELINES,
    CATEGORIES,
    CATEGORY_HEADS,
    COLUMNS,
    FULL,
    MEASURES,
    OEVQA,
    POOL_SIZE,
    POOLS,
    SETTING_HEADS,
    STATEMENTS,
    gain_key,
    subset_notes,
)
from pipelines.benchmarks.results import Key, Results, Source, mean_of, with_our_rows, without_interval
from pipelines.benchmarks.tables import Table, TableCell, TableRow, TableValue

_AUTHORS_SIMILARITY: Final = [
    Key(metric, "oevqa") for metric in ("rouge1", "bertscore", "bleu_shortest", "meteor_wordnet", "cider_ptb")
]


def make_tables(results: Results) -> list[Table]:
    """Lay out Tables 1 to 5 of the paper, then those that the paper does not have."""
    results = results.without_people()
    tables = (*map(_category_table, (POOLS, OEVQA, AGG)), _TABLE_4, _category_table(STATEMENTS))
    further = (_DELTAS, _GAINS, _READING, _POOLS, _CONTINGENCY)
    return [*(table.lay_out(results) for table in tables), *with_our_rows(table.lay_out(results) for table in further)]


def _measured(number: TableValue | None) -> TableCell:
    return None if number is None or number.value is None else without_interval(number)


def _average(number: TableValue | None) -> TableCell:
    has_ends = number is not None and number.low is not None
    return replace(number, n=None, n_failed=None, note="") if number and has_ends else _measured(number)


def _reasons(view: View) -> str:
    """Return why numbers of a row are missing: a note on the row, for most have one reason."""
    numbers = map(view.find, CATEGORIES.values())
    return "; ".join(filter(None, dict.fromkeys(n.note for n in numbers if n is not None and n.value is None)))


def _published_notes(results: Results, _rows: Sequence[TableRow]) -> Iterable[str]:
    """Yield what the paper says on its similarities."""
    numbers = dict.fromkeys(number.note for number in results.index("published", "Table 4").values())
    return (f"Published: {note}." for note in numbers if note)


def _clashes(results: Results, _rows: Sequence[TableRow]) -> Iterable[str]:
    notes = (number.note for key, number in results.ours.items() if key.metric == "contradictory_pools")
    return (f"Contradictory pools, kept: {note}." for note in dict.fromkeys(notes) if note)


def _kappa(results: Results, _rows: Sequence[TableRow]) -> Iterable[str]:
    for source in reversed(BOTH):
        for key, number in results.index(source).items():
            if key.metric == "fleiss_kappa" and number.value is not None:
                yield f"Fleiss' kappa of the judge and human raters, {source}: {number.value:.2f}."


_TITLES: Final = {
    POOLS: (1, "pool accuracy"),
    OEVQA: (2, "accuracy of open answers"),
    AGG: (3, "aggregate accuracy, pool right and answer accepted"),
    STATEMENTS: (5, "statement accuracy"),
}


def _category_table(key: Key) -> TableDef:
    number, title = _TITLES[key]
    settings = {"": "unimodal", **{heading: setting for setting, heading in ALL_HEADS.items()}}
    return TableDef(
        id=f"maia_table{number}",
        title=f"MAIA Table {number}: {title}",
        columns={**CATEGORIES, "Avg.": Shown(CATEGORIES["Avg."], _average)},
        rows=[Rows(heading, [key.of("", name)], sources=BOTH, note=_reasons) for heading, name in settings.items()],
        show=_measured,
        best_of="block",
        better="higher",
        notes=[
            if_ours("Avg. is the mean over questions; in brackets its 95% interval over videos."),
            "Human accuracy: not published.",
        ],
        coverage=subset_notes,
    )


# The paper does not name its input; ours are of 32 frames.
_TABLE_4: Final = TableDef(
    id="maia_table4",
    title="MAIA Table 4: open answers at 32 frames compared with human answers",
    columns={head: Key(head.lower(), "oevqa") for head in ("ROUGE", "BERTScore", "BLEU", "METEOR", "CIDEr")},
    rows=[
        Rows(sources=["published"], table="Table 4"),
        Rows("As the authors' scripts compute them", [Key(setting="32-frames")], columns=_AUTHORS_SIMILARITY),
        Rows("Variants of our own", [Key(setting="32-frames")]),
    ],
    better="higher",
    notes=[
        _published_notes,
        (
            "The scripts: ROUGE-1, corpus BLEU with the shortest reference's length, English METEOR with WordNet,"
            " CIDEr-D."
        ),
        "Our own: ROUGE-L, BLEU with the closest length, METEOR with Italian stems, CIDEr-D on words.",
        "CIDEr-D depends on the set of questions.",
    ],
    coverage=subset_notes,
)


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


def _deltas(results: Results) -> Iterator[TableRow]:
    models = [key.model for key in results.published if key.of("", "") == POOLS and key.setting in SETTING_HEADS]
    published = {model: [_published_delta(results, model, *keys) for keys in _PUBLISHED_DELTAS] for model in models}
    ours = {
        model: [(n := results.find(key.of(model))) and replace(n, n=None, n_failed=None) for key in _OUR_DELTAS]
        for model in results.models()
    }
    ours = {model: cells for model, cells in ours.items() if any(cell is not None for cell in cells)}
    yield from (*_delta_rows("published", published), *_delta_rows("ours", ours))


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


_BY_SETTING: Final = [
    Rows(heading, [Key(setting=setting)]) for setting, heading in {**ALL_HEADS, "unimodal": "Unimodal"}.items()
]
_DELTAS: Final = TableDef(
    id="maia_deltas",
    title="MAIA: differences between inputs and between tasks",
    columns=[
        ("32-Frames \N{MINUS SIGN} 1-Frame", None),
        *((heading, None) for _ in range(2) for heading in SETTING_HEADS.values()),
    ],
    rows=[_deltas],
    groups=(("Pool", 1), ("Statement − pool", 3), ("Open answer − pool", 3)),
    notes=["Ours with the 95% interval of the paired difference over videos.", _kappa],
    coverage=subset_notes,
)
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
    notes=["With the 95% interval of the paired difference over videos."],
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
    notes=[
        "None: neither letter could be parsed, which is wrong. True at A or B: place of the true statement.",
        "As the authors read: statement accuracy by the first capital A or B that is a word of its own.",
        _clashes,
    ],
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


_FIGURES: Final[Mapping[Key, tuple[str, int, str]]] = {
    STATEMENTS: ("3a", 6, "statement"),
    POOLS: ("3b", 7, "pool"),
    OEVQA: ("3c", 8, "oevqa"),
}
"""Figure of the model shown in the paper's text, figure of the others, name in the ids of ours."""
_SHOWN_IN_TEXT: Final = "Qwen-2.5-VL 72B"


def make_figures(results: Results) -> list[Figure]:
    """Lay out radars with a curve per setting, ours first; a model without any value of a metric has none of it."""
    results = results.without_people()
    figures: list[Figure] = []
    for key, (_, _, name) in _FIGURES.items():
        for model, slug in model_slugs(results.models()).items():
            figures += _radar(results, "ours", key.of(model), figure=(f"maia_radar_{name}_{slug}", ""))
    for key, (number, _, _) in _FIGURES.items():
        figure = (f"maia_figure{number}", f" Figure {number}")
        figures += _radar(results, "published", key.of(_SHOWN_IN_TEXT), figure=figure)
    slugs = model_slugs(model for model in results.models("published") if model != _SHOWN_IN_TEXT)
    for key, (_, appendix_number, _) in _FIGURES.items():
        for model, slug in slugs.items():
            figure = (f"maia_figure{appendix_number}_{slug}", f" Figure {appendix_number}")
            figures += _radar(results, "published", key.of(model), figure=figure)
    return figures


def _radar(results: Results, source: Source, key: Key, *, figure: tuple[str, str]) -> Iterator[Figure]:
    keys = {
        heading: [key._replace(setting=setting, category=category) for category in COLUMNS]
        for setting, heading in SETTING_HEADS.items()
    }
    if not curves(results, keys, source):
        return
    doubts = [
        f"{heading}, {axis}: {number.note}"
        for heading, points in keys.items()
        for axis, point in zip(CATEGORY_HEADS, points, strict=True)
        if (number := results.find(point, source)) is not None and number.doubtful
    ]
    yield Radar(
        id=figure[0],
        title=f"MAIA{figure[1]}: {key.model}, {_TITLES[key.of('', '')][1]}",
        axes=CATEGORY_HEADS,
        series=tuple(
            Series(label=heading, values=tuple(results.value(point, source) for point in points), origin=source)
            for heading, points in keys.items()
        ),
        notes=(*doubts, *(subset_notes(results) if source == "ours" else ())),
    )
