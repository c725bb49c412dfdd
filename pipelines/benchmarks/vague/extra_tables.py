"""Tables of VAGUE that the paper does not have: models against the human, how answers were read, what position does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, Literal

from pipelines.benchmarks.tables import Style, Table, TableCell, TableRow, TableValue
from pipelines.benchmarks.vague.facts import HUMAN_SUBSETS, SIZES
from pipelines.benchmarks.vague.results import ERRORS, HUMAN, SETTING_LABELS, Key, Results, count_of, without_interval
from pipelines.metrics.stats import wilson_ci

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
_FREE: Final[Mapping[str, str]] = {
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
_CHANCE: Final = 0.25
_HUMAN_NOTE: Final = (
    "Human: one person; 94.0 is 374 of the 398 answers counted, 93.5 of all 400 items. The human's answers to single "
    "items are unpublished, so that there is no paired test and no agreement."
)
_APPROXIMATE: Final = "Approximate: which 400 items the human answered is unpublished; these are the best-rated ones."
_RULES_NOTE: Final = (
    "R0 and R1 take a whole answer, R2 its beginning, R3 a letter behind a cue word, R4 a letter that stands alone, R5 "
    "the wording of a reading; a rule may find an answer invalid."
)


def own_tables(book: Results) -> list[Table]:
    """Those tables for which there is any row of ours."""
    asked = [subset for subset in HUMAN_SUBSETS if book.asked(SETTING_LABELS, subset=subset)]
    ids = ("vague_human", "vague_human_approx")
    found = [_human(book, subset, name) for subset, name in zip(asked, ids, strict=False)]
    found += [_reading(book), _letters(book), _ratings(book), _free(book)]
    return [table for table in found if any(row.origin == "ours" for row in table.rows)]


# ------------------------------------------------------------------------------------------------ human


def _human(book: Results, subset: str, name: str) -> Table:
    """Models beside the human and chance, with what stands between."""
    approximate = subset != HUMAN_SUBSETS[0]
    human_key = Key(model=HUMAN, setting="vlm", metric="accuracy", subset=HUMAN_SUBSETS[0])
    human = book.find("Table 2", human_key)
    level = human.value if human is not None else None
    rows = [
        _human_row(book, "Table 2", HUMAN, replace(human_key, metric="accuracy"), None),
        TableRow(label="Random", cells=(_CHANCE, _minus(_CHANCE, level), *(None,) * 8), origin="reference"),
    ]
    if not approximate:
        printed = [model for model in book.printed_models("Table 2") if model != HUMAN]
        rows += [_human_row(book, "Table 2", one, replace(human_key, model=one), level) for one in printed]
    for setting in ("vlm", "vlm-cot"):
        for model in book.asked([setting], subset=subset):
            key = Key(model=model, setting=setting, metric="accuracy", subset=subset)
            rows.append(_human_row(book, "", f"{model}, {SETTING_LABELS[setting]}", key, level))
    styles: tuple[Style, ...] = ("percent1", "percent1", *("plain",) * 5, *("percent1",) * 3)
    heads = ("Accuracy", "Gap to human", *ERRORS.values(), "Correct", "Invalid", *ERRORS.values())
    return Table(
        id=name,
        title=f"VAGUE: models against the human{', approximate' if approximate else ''} ({subset})",
        columns=heads,
        groups=(("", 2), ("Chosen", 5), ("Share of errors", 3)),
        rows=tuple(rows),
        styles=styles,
        notes=(
            "Percent and points; in brackets 95% Wilson intervals, the gap's with the human's accuracy taken as fixed.",
            _HUMAN_NOTE,
            *([_APPROXIMATE] if approximate else book.incomplete([subset])),
        ),
    )


def _minus(value: float | None, level: float | None) -> float | None:
    return None if value is None or level is None else value - level


def _human_row(book: Results, table: str, label: str, key: Key, level: float | None) -> TableRow:
    names = (*ERRORS, "count_correct")
    counts = [count_of(book.find(table, replace(key, metric=name))) for name in names]
    found = book.find(table, key)
    errors, correct = counts[:3], counts[3]
    size = SIZES[HUMAN_SUBSETS[0]] if table else (found.n if found is not None else None)
    interval = wilson_ci(correct, size) if correct is not None and size and key.model != HUMAN else None
    low, high = (interval.low, interval.high) if interval else (None, None)
    value = found.value if found is not None else None
    cells: tuple[TableCell, ...] = (
        TableValue(value=value, low=low, high=high, n=None if table else size),
        TableValue(value=_minus(value, level), low=_minus(low, level), high=_minus(high, level)),
        *counts,
        _invalid(book, table, key, counts),
        *_shares(errors),
    )
    origin: Literal["ours", "published", "reference"]
    origin = "reference" if key.model == HUMAN else "published" if table else "ours"
    return TableRow(label=label, cells=cells, origin=origin)


def _invalid(book: Results, table: str, key: Key, counts: Sequence[int | None]) -> TableCell:
    if not table:
        return count_of(book.find("", replace(key, metric="count_invalid")))
    known = [count for count in counts if count is not None]
    return SIZES[HUMAN_SUBSETS[0]] - sum(known) if len(known) == len(counts) else None


def _shares(errors: Sequence[int | None]) -> tuple[float | None, ...]:
    """Each kind's part of all errors of a kind."""
    known = [count for count in errors if count is not None]
    total = sum(known)
    if len(known) < len(errors) or not total:
        return (None,) * len(errors)
    return tuple(count / total for count in known)


# -------------------------------------------------------------------------------------------- own views


def _blocks(book: Results, task: str) -> Iterator[tuple[str, str, bool]]:
    """Setting, model, and whether the setting's block begins here."""
    for setting in SETTING_LABELS:
        for index, model in enumerate(book.asked([setting], task=task)):
            yield setting, model, index == 0


def _by_setting(book: Results, task: str, names: Sequence[tuple[str, str]]) -> tuple[TableRow, ...]:
    """Our models under the headings of their settings, a column a (metric, category)."""
    rows: list[TableRow] = []
    for setting, model, first in _blocks(book, task):
        key = Key(model=model, setting=setting, metric="", task=task)
        cells = tuple(without_interval(book.find("", replace(key, metric=m, category=c))) for m, c in names)
        rows += [TableRow(label=SETTING_LABELS[setting], origin="heading")] if first else []
        rows.append(TableRow(label=model, cells=cells))
    return tuple(rows)


def _reading(book: Results) -> Table:
    names = [*(("count_rule", rule) for rule in _RULES), *(("count_invalid", reason) for reason in _REASONS)]
    return Table(
        id="vague_reading",
        title="VAGUE: how chosen letters were read",
        columns=(*_RULES, *_REASONS.values()),
        groups=(("Rule that decided", len(_RULES)), ("Invalid, and why", len(_REASONS))),
        rows=_by_setting(book, "mcq", names),
        notes=(_RULES_NOTE,),
    )


def _letters(book: Results) -> Table:
    """Which letter was said, by the letter of the correct reading: position bias shows as a tall column."""
    said = (*_LETTERS, "invalid")
    rows: list[TableRow] = []
    for setting, model, _ in _blocks(book, "mcq"):
        key = Key(model=model, setting=setting, metric="count_letter")
        rows.append(TableRow(label=f"{model}, {SETTING_LABELS[setting]}", origin="heading"))
        for right in _LETTERS:
            found = (book.find("", replace(key, category=f"{right}/{letter}")) for letter in said)
            rows.append(TableRow(label=f"Correct at {right}", cells=tuple(count_of(one) for one in found)))
    return Table(
        id="vague_letters",
        title="VAGUE: letters said, by the letter of the correct reading",
        label_head="Items",
        columns=(*(f"Said {letter}" for letter in _LETTERS), "Invalid"),
        rows=tuple(rows),
    )


def _ratings(book: Results) -> Table:
    ratings = sorted({key.category for key in book.ours if key.metric == "accuracy_by_rating"}, key=float)
    return Table(
        id="vague_rating",
        title="VAGUE: accuracy by how people rated the item",
        columns=tuple(ratings),
        rows=_by_setting(book, "mcq", [("accuracy_by_rating", rating) for rating in ratings]) if ratings else (),
        style="percent1",
        notes=("Percent; columns are the mean of the ratings of the direct and the indirect utterance, of 5.",),
    )


def _free(book: Results) -> Table:
    styles: tuple[Style, ...] = (*("fraction3",) * 5, *("plain",) * 4)
    return Table(
        id="vague_freeform",
        title="VAGUE: free answers, in all ways of scoring",
        columns=tuple(_FREE.values()),
        rows=_by_setting(book, "freeform", [(name, "") for name in _FREE]),
        styles=styles,
        notes=("Flags change no score. Without opener: `The speaker wants ... to` is taken off both sides first.",),
    )
