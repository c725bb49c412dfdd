"""VAGUE's tables beyond the paper's: how answers were parsed, position bias, free answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pipelines.benchmarks.results import Key, Results, count_of, with_interval, with_our_rows, without_interval
from pipelines.benchmarks.tables import Style, Table, TableRow
from pipelines.benchmarks.vague.facts import CAPTIONED
from pipelines.benchmarks.vague.results import (
    SETTING_LABELS,
    mcq_key,
    models_in,
)

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
_FREEFORM: Final[Mapping[str, str]] = {
    "bert_f1": "BERT F1, rescaled",
    "bert_f1_raw": "BERT F1, raw",
    "bleu1": "BLEU-1",
    "bleu1_noopener": "BLEU-1 without opener",
    "bleu1_corpus": "BLEU-1, corpus",
    "valid_count": "Valid",
    "count_over_15_words": "Over 15 words",
    "count_opener_missing": "Opener missing",
    "count_refusal": "Refusals",
}
_RULES_NOTE: Final = (
    "R0 and R1 take a whole answer, R2 its beginning, R3 a letter behind a cue word, R4 a letter that stands alone, R5 "
    "the wording of a reading; a rule may find an answer invalid."
)


def _captioner_table(results: Results) -> list[Table]:
    """Return the table of own captions against the captioner's; none where no model had the captioner's."""
    columns = {
        "LM": mcq_key("accuracy", "lm", ""),
        "Own captions": mcq_key("accuracy", "sm", ""),
        "Captioner's": mcq_key("accuracy", CAPTIONED, ""),
        "Change": mcq_key("caption_delta", CAPTIONED, ""),
    }
    rows = [
        TableRow(
            label=model,
            cells=tuple(with_interval(results.find(key.of(model))) for key in columns.values()),
        )
        for model in models_in(results, [CAPTIONED])
    ]
    if not rows:
        return []
    return [
        Table(
            id="vague_captioner",
            title="VAGUE: choices from a text with the model's own captions and with another model's",
            columns=tuple(columns),
            rows=tuple(rows),
            style="percent1",
            notes=(
                "Captioner's: setting sm-other, captions of the model that --captioner names, of several the first.",
                "Change: the captioner's minus own, paired. Several captioners have a table of their own.",
            ),
        )
    ]


def extra_tables(results: Results) -> list[Table]:
    """Lay out those tables that have a row of ours."""
    tables = (_parsing_table(results), _letters_table(results), _rating_table(results), _freeform_table(results))
    return with_our_rows([*tables, *_captioner_table(results)])


def _rows_by_setting(results: Results, task: str, columns: Sequence[tuple[str, str]]) -> tuple[TableRow, ...]:
    """Return our models under the headings of their settings, a column a (metric, category)."""
    rows: list[TableRow] = []
    for setting, label in SETTING_LABELS.items():
        models = models_in(results, [setting], task)
        rows += [TableRow(label=label, origin="heading")] if models else []
        for model in models:
            keys = (Key(metric, task, setting, "", category, model) for metric, category in columns)
            rows.append(TableRow(label=model, cells=tuple(without_interval(results.find(key)) for key in keys)))
    return tuple(rows)


def _parsing_table(results: Results) -> Table:
    columns = [*(("count_rule", rule) for rule in _RULES), *(("count_invalid", reason) for reason in _REASONS)]
    return Table(
        id="vague_reading",
        title="VAGUE: parsing of chosen letters",
        columns=(*_RULES, *_REASONS.values()),
        groups=(("Rule that decided", len(_RULES)), ("Invalid, and why", len(_REASONS))),
        rows=_rows_by_setting(results, "mcq", columns),
        notes=(_RULES_NOTE,),
    )


def _letters_table(results: Results) -> Table:
    """Lay out letters chosen by the letter of the correct reading: position bias shows as a tall column."""
    return Table(
        id="vague_letters",
        title="VAGUE: chosen letters by the letter of the correct interpretation",
        label_head="Items",
        columns=(*(f"Said {letter}" for letter in _LETTERS), "Invalid"),
        rows=tuple(_letters_rows(results)),
    )


def _letters_rows(results: Results) -> Iterator[TableRow]:
    for setting, label in SETTING_LABELS.items():
        for model in models_in(results, [setting]):
            yield TableRow(label=f"{model}, {label}", origin="heading")
            for right in _LETTERS:
                categories = (f"{right}/{letter}" for letter in (*_LETTERS, "invalid"))
                keys = (mcq_key("count_letter", setting, model, category=category) for category in categories)
                cells = tuple(count_of(results.find(key)) for key in keys)
                yield TableRow(label=f"Correct at {right}", cells=cells)


def _rating_table(results: Results) -> Table:
    ratings = sorted({key.category for key in results.ours if key.metric == "accuracy_by_rating"}, key=float)
    columns = [("accuracy_by_rating", rating) for rating in ratings]
    return Table(
        id="vague_rating",
        title="VAGUE: accuracy by human rating of the item",
        columns=tuple(ratings),
        rows=_rows_by_setting(results, "mcq", columns) if ratings else (),
        style="percent1",
        notes=("Percent; columns are the mean of the ratings of the direct and the indirect utterance, of 5.",),
    )


def _freeform_table(results: Results) -> Table:
    styles: tuple[Style, ...] = (*("fraction3",) * 5, *("plain",) * 4)
    return Table(
        id="vague_freeform",
        title="VAGUE: free-form answers by all metrics",
        columns=tuple(_FREEFORM.values()),
        rows=_rows_by_setting(results, "freeform", [(name, "") for name in _FREEFORM]),
        styles=styles,
        notes=("Flags change no score. Without opener: `The speaker wants ... to` is removed from both sides first.",),
    )
