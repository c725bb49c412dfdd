"""Tables of UNPIE that the paper does not have: more on translations, how answers were read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from pipelines.benchmarks.layout import Cell, Column, Rows, Shown, TableDef, View
from pipelines.benchmarks.results import Key, Results, with_our_rows
from pipelines.benchmarks.tables import Table, TableCell
from pipelines.benchmarks.unpie.aggregate import ALL
from pipelines.benchmarks.unpie.results import HEADLINES, PAIRS, TYPES

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


def extra_tables(results: Results) -> list[Table]:
    """Return the tables that have any row of ours."""
    return with_our_rows(table.lay_out(results) for table in (_STRICT, _TRANSLATIONS, _READING))


def input_type(view: View) -> TableCell:
    """Return the words for the setting of a row."""
    return TYPES[view.key.setting]


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
