"""UNPIE's tables: 4 to 6 as in the paper (arXiv 2410.01023), ours next to the published ones, then further ones.

Where more than 1% of our requests are excluded, our rows are in a table of their own without published numbers. The
paper's tables on its data and its metrics, 1, 2, 3, 7, 8 and 9, come last. The columns of all are in `tables.yaml`.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Final

from pipelines.benchmarks.layout import BOTH, Column, Rows, TableDef, View, table_def
from pipelines.benchmarks.published import load_dataset_facts
from pipelines.benchmarks.results import Key, Results, with_our_rows, without_interval
from pipelines.benchmarks.tables import Table, TableCell, TableRow, TableValue
from pipelines.benchmarks.unpie.agreement import VERDICT_METRICS
from pipelines.benchmarks.unpie.facts import ALL, HEADLINES, INPUTS, KINDS, PAIRS, TYPES, has_low_coverage, subset_notes

_ONE_PICTURE: Final = (
    "all printed values are multiples of 0.2, as with 500 rows: these may rest on one picture a pun, ours on both"
)
_NO_ENDPOINT: Final = "the endpoint that the paper names takes no pictures"
_LOW_COVERAGE: Final = (
    "More than 1% of the requests lack a picture or a caption, so they are not compared with published numbers."
)
_COMPARISON_NOTES: Final = 2  # the last ones of each compared table, on published numbers
_DATA_SETS: Final = ("Multi30k", "CoMMuTE", "UNPIE")  # rows of Table 1
_FREQUENCIES: Final = ("Freq↑", "Freq↓")


def make_tables(results: Results) -> list[Table]:
    """Lay out Tables 4 to 6, then tables that the paper does not have, then those without any number of ours."""
    compared = [table for definition in (_TABLE_4, _TABLE_5, _TABLE_6) for table in _by_coverage(results, definition)]
    further = with_our_rows(table.lay_out(results) for table in (_STRICT, _TRANSLATIONS, _READING))
    return [*compared, *further, *(table.lay_out(results) for table in _OF_THE_PAPER)]


def _by_coverage(results: Results, definition: TableDef) -> Iterator[Table]:
    """Yield the table, and one without published numbers for our rows of low coverage."""
    table = definition.lay_out(results)
    yield table
    rows = [row for row in definition.rows if isinstance(row, Rows) and not row.baseline]
    low = replace(
        definition,
        id=f"{table.id}_low_coverage",
        title=f"{table.title}, of rows with low coverage",
        rows=[replace(row, sources=["ours"], where=has_low_coverage) for row in rows],
        better=table.better,
        notes=(*definition.notes[:-_COMPARISON_NOTES], _LOW_COVERAGE),
        coverage=lambda _results: (),
    )
    yield from with_our_rows([low.lay_out(results)])


def _rows(table: int, heading: str, *keys: Key) -> Rows:
    return Rows(heading, keys, sources=BOTH, table=f"Table {table}", where=_is_compared, note=_row_note)


def _is_compared(view: View) -> bool:
    return view.key.model != "Random" if view.source == "published" else not has_low_coverage(view)


def _row_note(view: View) -> str:
    if view.source == "published" and (view.key.model, view.key.setting) == ("GPT-4", "vlm"):
        return _NO_ENDPOINT
    is_single = (view.source, view.key.task, view.key.setting) == ("published", "disambiguation", "sm")
    return _ONE_PICTURE if is_single else ""


def _random_phrase(results: Results) -> list[TableRow]:
    """Return the row of a blind guess of one word, which depends on the sentences and not on the model."""
    for key in results.ours:
        if key.metric == "random_exact_match":
            values = [results.value(key._replace(category=kind)) for kind in KINDS]
            note = "one word of the sentence at random; not printed in the paper"
            return [TableRow(label="Random", cells=("", *values), baseline=True, note=note)]
    return []


def _type(view: View, _key: Key) -> TableCell:
    return TYPES[view.key.setting]


def _inputs(view: View, _key: Key) -> TableCell:
    return INPUTS.get(view.key.setting, "")


def _meteor(view: View, key: Key) -> TableCell:
    number, value = (view.find(key._replace(metric=metric)) for metric in ("meteor", "meteor_nowordnet"))
    if number is None and value is not None and value.value is not None:
        return TableValue(value=value.value, note="METEOR without WordNet's synonyms")
    return without_interval(number)


def _whole(view: View, key: Key) -> TableCell:
    """Show the mean of both kinds, or the pooled value where there is one kind only."""
    for category in (ALL, ""):
        number = view.find(key._replace(category=category))
        if number is not None:
            return replace(number, note=number.note if number.value is None else "")
    return None


_define: Final = partial(
    table_def, __package__, functions={"type": _type, "inputs": _inputs, "meteor": _meteor, "whole": _whole}
)
_TABLE_4: Final = _define(
    "unpie_table4",
    [_random_phrase, *(_rows(4, label, Key("exact_match", "grounding", setting)) for setting, label in TYPES.items())],
    coverage=partial(subset_notes, task="grounding"),
)
_TABLE_5: Final = _define(
    "unpie_table5",
    [
        Rows(keys=[Key("accuracy", "disambiguation")], sources=["published"], models=["Random"], baseline=True),
        *(_rows(5, TYPES[setting], Key("accuracy", "disambiguation", setting)) for setting in ("sm", "vlm")),
    ],
    coverage=partial(subset_notes, task="disambiguation"),
)
_TABLE_6: Final = _define(
    "unpie_table6",
    [
        _rows(6, pair, *(Key("", "reconstruction", setting, pair) for setting in TYPES))
        for pair in PAIRS["reconstruction"]
    ],
    coverage=partial(subset_notes, task="reconstruction"),
)
_STRICT: Final = _define("unpie_strict", [Rows(keys=[Key("", "grounding", setting) for setting in TYPES])])
_TRANSLATIONS: Final = _define(
    "unpie_translations",
    [
        Rows(pair, [Key("", "disambiguation", setting, pair) for setting in ("sm", "vlm")], measured=True)
        for pair in PAIRS["disambiguation"]
    ],
)
_READING: Final = _define(
    "unpie_reading", [Rows(task.capitalize(), [Key("", task, setting) for setting in TYPES]) for task in HEADLINES]
)


def _sizes(results: Results) -> Iterator[TableRow]:
    facts = load_dataset_facts("unpie")
    generative = facts["generative"].split("; ")
    for name in _DATA_SETS:
        ambiguous = float(facts[f"ambiguous_pct/{name}"]) / 100
        cells = (int(facts[f"size/{name}"]), ambiguous, name in generative)
        yield TableRow(label=name, cells=cells, origin="published")
    largest = max(results.models(), key=lambda model: results.value(Key("puns", model=model)) or 0, default="")
    if (puns := results.value(Key("puns", model=largest))) is not None:
        share = results.value(Key("ambiguous", model=largest))
        yield TableRow(label="UNPIE, puns of this sweep", cells=(int(puns), share, True))


_FREQUENCY_COLUMNS: Final[list[Column]] = [
    lambda view: TYPES[view.key.setting],
    *(Key(subset=pair, category=name) for pair in ("De-En", "Fr-En") for name in _FREQUENCIES),
]
_BY_FREQUENCY: Final = [
    Rows(keys=[Key("correct_pct", "", setting) for setting in TYPES], sources=["published"], measured=True),
    Rows(
        keys=[Key("correct_pct", "reconstruction", setting) for setting in TYPES],
        columns=_FREQUENCY_COLUMNS,
        measured=True,
    ),
]


def _verdicts(setting: str) -> Rows:
    ours = [Key("agreement_accuracy"), Key("agreement_phi")]
    return Rows(
        keys=[Key("", "disambiguation", setting, category=metric) for metric in VERDICT_METRICS],
        columns=[*ours, None, None] if setting == "vlm" else [None, None, *ours],
        label=lambda view: f"{view.key.category}, {view.key.model}",
        measured=True,
    )


_JUDGEMENT_METRICS: Final = ("precision", "recall", "f1", "accuracy", "pearson")


_OF_THE_PAPER: Final = (
    _define("unpie_table1", [_sizes]),
    _define("unpie_table2", _BY_FREQUENCY),
    _define("unpie_table2_ordering"),
    _define("unpie_table3"),
    _define("unpie_table7"),
    _define("unpie_table8", [_verdicts("sm"), _verdicts("vlm")]),
    _define(
        "unpie_table9",
        [
            Rows(
                keys=[
                    Key("", "reconstruction", setting, pair) for pair in PAIRS["reconstruction"] for setting in TYPES
                ],
                columns=[Key(f"agreement_{name}") for name in _JUDGEMENT_METRICS],
                label=lambda view: f"{view.key.subset}, {TYPES[view.key.setting]}, {view.key.model}",
                measured=True,
            )
        ],
    ),
    # What people judged: whether pictures and metrics are valid, which is no ceiling for the tasks.
    _define("unpie_human_validity"),
)
