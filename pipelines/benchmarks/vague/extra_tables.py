"""VAGUE's tables beyond the paper's: how answers were parsed, position bias, free answers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from pipelines.benchmarks.layout import Column, Rows, TableDef, View
from pipelines.benchmarks.results import Key, Results, count_of, with_interval, with_our_rows
from pipelines.benchmarks.tables import Table, TableCell
from pipelines.benchmarks.vague.facts import CAPTIONED
from pipelines.benchmarks.vague.results import SETTING_LABELS

_LETTERS: Final = ("A", "B", "C", "D")
_RULES: Final = ("R0", "R1", "R2", "R3", "R4", "R5", "none")
_REASONS: Final[Mapping[str, str]] = {
    "empty": "Empty",
    "empty_answer2": "Second answer empty",
    "multiple": "Several letters",
    "no_answer2": "No second answer",
    "out_of_range": "No such letter",
    "refusal": "Refusal",
    "unclosed_think": "Reasoning unfinished",
    "unparsed": "Unparsed",
}


def extra_tables(results: Results) -> list[Table]:
    """Lay out those tables that have a row of ours."""
    definitions = (_PARSING, _BY_LETTER, _rating_table(results), _FREEFORM, _CAPTIONER)
    return with_our_rows(table.lay_out(results) for table in definitions)


def _rows_by_setting(task: str) -> list[Rows]:
    return [Rows(label, [Key("", task, setting)]) for setting, label in SETTING_LABELS.items()]


def _chosen(view: View, letter: str) -> TableCell:
    return count_of(view.find(Key(category=f"{view.key.category}/{letter}")))


def _rating_table(results: Results) -> TableDef:
    ratings = sorted({key.category for key in results.ours if key.metric == "accuracy_by_rating"}, key=float)
    return TableDef(
        id="vague_rating",
        title="VAGUE: accuracy by human rating of the item",
        columns={rating: Key("accuracy_by_rating", category=rating) for rating in ratings},
        rows=_rows_by_setting("mcq"),
        style="percent1",
        notes=("Percent; columns are the mean of the ratings of the direct and the indirect utterance, of 5.",),
    )


_PARSING: Final = TableDef(
    id="vague_reading",
    title="VAGUE: parsing of chosen letters",
    columns={
        **{rule: Key("count_rule", category=rule) for rule in _RULES},
        **{head: Key("count_invalid", category=reason) for reason, head in _REASONS.items()},
    },
    groups=(("Rule that decided", len(_RULES)), ("Invalid, and why", len(_REASONS))),
    rows=_rows_by_setting("mcq"),
    notes=(
        (
            "R0 and R1 take a whole answer, R2 its beginning, R3 a letter behind a cue word, R4 a letter that stands "
            "alone, R5 the wording of a reading; a rule may find an answer invalid."
        ),
    ),
)
_CHOSEN: Final[Mapping[str, Column]] = {f"Said {letter}": partial(_chosen, letter=letter) for letter in _LETTERS}
# Position bias shows as a tall column.
_BY_LETTER: Final = TableDef(
    id="vague_letters",
    title="VAGUE: chosen letters by the letter of the correct interpretation",
    label_head="Items",
    columns={**_CHOSEN, "Invalid": partial(_chosen, letter="invalid")},
    rows=[
        Rows(
            keys=[Key("count_letter", "mcq", setting) for setting in SETTING_LABELS],
            label=lambda view: f"{view.key.model}, {SETTING_LABELS[view.key.setting]}",
            parts={f"Correct at {letter}": Key(category=letter) for letter in _LETTERS},
        )
    ],
)
_FREEFORM: Final = TableDef(
    id="vague_freeform",
    title="VAGUE: free-form answers by all metrics",
    columns={
        "BERT F1, rescaled": Key("bert_f1"),
        "BERT F1, raw": Key("bert_f1_raw"),
        "BLEU-1": Key("bleu1"),
        "BLEU-1 without opener": Key("bleu1_noopener"),
        "BLEU-1, corpus": Key("bleu1_corpus"),
        "Valid": Key("valid_count"),
        "Over 15 words": Key("count_over_15_words"),
        "Opener missing": Key("count_opener_missing"),
        "Refusals": Key("count_refusal"),
    },
    rows=_rows_by_setting("freeform"),
    styles=(*("fraction3",) * 5, *("plain",) * 4),
    notes=("Flags change no score. Without opener: `The speaker wants ... to` is removed from both sides first.",),
)
_CAPTIONER: Final = TableDef(
    id="vague_captioner",
    title="VAGUE: choices from a text with the model's own captions and with another model's",
    columns={
        "LM": Key("accuracy", setting="lm"),
        "Own captions": Key("accuracy", setting="sm"),
        "Captioner's": Key("accuracy", setting=CAPTIONED),
        "Change": Key("caption_delta", setting=CAPTIONED),
    },
    rows=[
        Rows(keys=[Key("", "mcq")], where=lambda view: view.find(Key("accuracy", setting=CAPTIONED)) is not None),
    ],
    show=with_interval,
    style="percent1",
    notes=(
        "Captioner's: setting sm-other, captions of the model that --captioner names, of several the first.",
        "Change: the captioner's minus own, paired. Several captioners have a table of their own.",
    ),
)
