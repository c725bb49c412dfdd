"""UNPIE's tables: 4 to 6 as in the paper (arXiv 2410.01023), ours next to the published ones, then further ones.

Where more than 1% of our requests are excluded, our rows are in a table of their own without published numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from pipelines.benchmarks.layout import BOTH, Cell, Column, Rows, Shown, TableDef, View
from pipelines.benchmarks.results import Key, Results, with_our_rows, without_interval
from pipelines.benchmarks.tables import Table, TableCell, TableRow, TableValue
from pipelines.benchmarks.unpie.aggregate import ALL, KINDS
from pipelines.benchmarks.unpie.published_tables import published_tables
from pipelines.benchmarks.unpie.results import (
    HEADLINES,
    INPUTS,
    PAIRS,
    TYPES,
    has_low_coverage,
    input_type,
    subset_notes,
)

_CATEGORIES: Final = (*KINDS, ALL)
_COMPARED: Final = (
    "The paper's Vicuna is 13B in its text and 7B in its appendix; its GPT-4 rows with pictures name no endpoint.",
    "Human scores on the three tasks: not published.",
)
_ONE_PICTURE: Final = (
    "all printed values are multiples of 0.2, as with 500 rows: these may rest on one picture a pun, ours on both"
)
_NO_ENDPOINT: Final = "the endpoint that the paper names takes no pictures"
_LOW_COVERAGE: Final = (
    "More than 1% of the requests lack a picture or a caption, so they are not compared with published numbers."
)


def make_tables(results: Results) -> list[Table]:
    """Lay out Tables 4 to 6, then tables that the paper does not have, then those without any number of ours."""
    compared = [table for definition in (_TABLE_4, _TABLE_5, _TABLE_6) for table in _by_coverage(results, definition)]
    further = with_our_rows(table.lay_out(results) for table in (_STRICT, _TRANSLATIONS, _READING))
    return [*compared, *further, *published_tables(results)]


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
        notes=(*definition.notes[: -len(_COMPARED)], _LOW_COVERAGE),
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


def _inputs(view: View) -> TableCell:
    return INPUTS.get(view.key.setting, "")


def _random_phrase(results: Results) -> list[TableRow]:
    """Return the row of a blind guess of one word, which depends on the sentences and not on the model."""
    for key in results.ours:
        if key.metric == "random_exact_match":
            values = [results.value(key._replace(category=kind)) for kind in KINDS]
            note = "one word of the sentence at random; not printed in the paper"
            return [TableRow(label="Random", cells=("", *values), baseline=True, note=note)]
    return []


def _meteor(category: str) -> Cell:
    def cell(view: View) -> TableCell:
        number, value = (view.find(Key(metric, category=category)) for metric in ("meteor", "meteor_nowordnet"))
        if number is None and value is not None and value.value is not None:
            return TableValue(value=value.value, note="METEOR without WordNet's synonyms")
        return without_interval(number)

    return cell


_TABLE_4: Final = TableDef(
    id="unpie_table4",
    title="UNPIE Table 4: exact match of the pun's phrase",
    columns={"Inputs": _inputs, **{kind: Shown(Key(category=kind), change="delta_vs_lm") for kind in KINDS}},
    rows=[
        _random_phrase,
        *(_rows(4, label, Key("exact_match", "grounding", setting)) for setting, label in TYPES.items()),
    ],
    style="percent1",
    better=("", "higher", "higher"),
    notes=("Percent; in brackets the change against LM.", *_COMPARED),
    coverage=partial(subset_notes, task="grounding"),
)
_TABLE_5: Final = TableDef(
    id="unpie_table5",
    title="UNPIE Table 5: translations closer to the meaning that the picture shows",
    columns=[
        ("Inputs", _inputs),
        *((name, Key(subset=pair, category=name)) for pair in PAIRS["disambiguation"] for name in _CATEGORIES),
    ],
    groups=(("", 1), *((pair, len(_CATEGORIES)) for pair in PAIRS["disambiguation"])),
    rows=[
        Rows(keys=[Key("accuracy", "disambiguation")], sources=["published"], models=["Random"], baseline=True),
        *(_rows(5, TYPES[setting], Key("accuracy", "disambiguation", setting)) for setting in ("sm", "vlm")),
    ],
    style="percent1",
    better=("", *("higher",) * 9),
    second="table",
    notes=(
        "Percent; ties are wrong. All is the mean of Homo and Hetero.",
        "BERTScore F1 of bert-base-multilingual-cased, layer 9, is our choice: the paper names no model.",
        *_COMPARED,
    ),
    coverage=partial(subset_notes, task="disambiguation"),
)


def _reconstruction(category: str) -> list[tuple[str, Column]]:
    return [
        ("Correct %", Key("correct_pct", category=category)),
        ("Change", Key("delta_vs_lm", category=category)),
        ("BLEU-4", Key("bleu4", category=category)),
        ("METEOR", _meteor(category)),
    ]


_TABLE_6: Final = TableDef(
    id="unpie_table6",
    title="UNPIE Table 6: puns reconstructed from one translation",
    columns=[
        ("Type", input_type),
        ("Inputs", _inputs),
        *(column for category in _CATEGORIES for column in _reconstruction(category)),
    ],
    groups=(("", 2), *((category, 4) for category in _CATEGORIES)),
    rows=[
        _rows(6, pair, *(Key("", "reconstruction", setting, pair) for setting in TYPES))
        for pair in PAIRS["reconstruction"]
    ],
    style="percent1",
    better=("", "", *("", "higher", "", "") * len(_CATEGORIES)),
    best_of="block",
    notes=(
        "Percent. Change: of Correct % against LM, the largest gain of each block in bold.",
        "All is the mean of Homo and Hetero, of BLEU-4, too.",
        (
            "Other judge: the published Correct % are gpt-4-0613's by an unpublished prompt, ours those "
            "of the run's judge. The paper names no variant of BLEU and METEOR."
        ),
        *_COMPARED,
    ),
    coverage=partial(subset_notes, task="reconstruction"),
)


_COUNTS: Final[Mapping[str, str]] = {
    "errors": "Failed",
    "invalid": "Invalid",
    "truncated": "Truncated",
    "extra_text": "More lines",
    "untranslated": "Untranslated",
    "wrong_script": "Wrong script",
    "refusal": "Refusals",
    "judge_invalid": "Judge unread",
    "judged_by_rule": "Judged by rule",
}


def _whole(metric: str) -> Cell:
    """Show the mean of both kinds, or the pooled value where there is one kind only."""

    def cell(view: View) -> TableCell:
        for category in (ALL, ""):
            number = view.find(Key(metric, category=category))
            if number is not None:
                return replace(number, note=number.note if number.value is None else "")
        return None

    return cell


_STRICT: Final = TableDef(
    id="unpie_strict",
    title="UNPIE: exact match with and without normalisation",
    columns={
        "Type": input_type,
        "Normalised": _whole("exact_match"),
        "As it came": _whole("exact_match_strict"),
    },
    rows=[Rows(keys=[Key("", "grounding", setting) for setting in TYPES])],
    style="percent1",
    notes=("The paper does not specify whether case and a final full stop count.",),
)
_TRANSLATIONS: Final = TableDef(
    id="unpie_translations",
    title="UNPIE: translations by both pictures of a pun",
    columns={
        "Type": input_type,
        "Accuracy": Key("accuracy"),
        "Both right": Key("pair_accuracy"),
        "Ties": Key("tie_rate"),
        "Same output": Key("same_output_rate"),
        "Margin": Key("margin"),
    },
    rows=[
        Rows(pair, [Key("", "disambiguation", setting, pair) for setting in ("sm", "vlm")], measured=True)
        for pair in PAIRS["disambiguation"]
    ],
    styles=(*("percent1",) * 5, "fraction4"),
    notes=(
        (
            "Both right: both meanings of a pun, by chance about 25%. Same output: both pictures gave one text, so "
            "the picture was ignored. Margin: BERTScore to the wanted translation minus that to the other."
        ),
    ),
)
_READING_COLUMNS: Final[Mapping[str, Column]] = {
    "Type": input_type,
    "Answers": Shown(Key("invalid"), lambda number: number and number.n),
    "Coverage": Shown(Key("coverage"), lambda number: number and number.value),
    **{head: Key(metric) for metric, head in _COUNTS.items()},
}
_READING: Final = TableDef(
    id="unpie_reading",
    title="UNPIE: parsing of answers",
    columns=_READING_COLUMNS,
    rows=[Rows(task.capitalize(), [Key("", task, setting) for setting in TYPES]) for task in HEADLINES],
    style="percent1",
    notes=(
        (
            "Coverage: share of the requests with their picture, caption and text. Invalid answers are wrong; "
            "other flags change no score. Judge unread: verdicts that could not be read, which count as no."
        ),
    ),
)
