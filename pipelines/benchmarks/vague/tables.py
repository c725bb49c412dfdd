"""VAGUE's tables in the paper's layout, the published rows first, then ours.

Tables 1, 2, 3, H3, H4 and B1 of Nam et al., ICCV 2025, arXiv 2411.14137. Beside every table of errors stands the number
of answers that could not be read, for those make errors look fewer than they are. Tables that the paper does not have
are in `vague_own_tables`, figures in `vague_figures`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, Literal

from pipelines.benchmarks.results import Results as ReportResults
from pipelines.benchmarks.results import to_frames
from pipelines.benchmarks.tables import Style, Table, TableCell, TableRow, TableValue
from pipelines.benchmarks.vague.extra_tables import own_tables
from pipelines.benchmarks.vague.facts import HUMAN_SUBSETS, PUBLISHED_MEANS, SIZES
from pipelines.benchmarks.vague.results import ERRORS, HUMAN, SETTING_LABELS, Key, Results, count_of, without_interval
from pipelines.metrics.stats import half_up

_SUBSETS: Final = ("VCR", "Ego4D")
_TABLE_H: Final[Mapping[str, str]] = {"VCR": "Table H3", "Ego4D": "Table H4"}
_H_ORDER: Final = ("vlm", "vlm-cot", "sm", "sm-cot", "lm")
_COT: Final[Mapping[str, str]] = {"sm": "", "sm-cot": "cot_delta", "vlm": "", "vlm-cot": "cot_delta"}

_ERRORS_NOTE: Final = (
    "FS fake scene, SU superficial, NE nonexistent entity: readings chosen instead of the correct one. Invalid: "
    "answers that could not be read; they are wrong, and no error of a kind."
)
_SCORERS_NOTE: Final = (
    "BERT F1 and BLEU-1: scorer settings unpublished, ours may be others. Ours: BERTScore F1 rescaled by the baseline "
    "of the scorer named in the run, BLEU-1 by sentence on lower-cased 13a tokens."
)
_MATCHED: Final = "Chance is 25%, and models without picture often stay below it, for the superficial reading attracts."

_FACTS: Final[Mapping[str, str]] = {
    "avg_object_count": "Object tags",
    "avg_people_count": "People",
    "avg_word_count_direct": "Words, direct",
    "avg_word_count_indirect": "Words, indirect",
}


def make_tables(results: ReportResults) -> list[Table]:
    """Tables 1, 2, 3, H3, H4 and B1, then ours."""
    book = Results.of(*to_frames(results))
    return [
        _accuracies(book),
        _human_items(book),
        _reasoning(book),
        *(_everything(book, subset) for subset in _SUBSETS),
        _data_means(book),
        *own_tables(book),
    ]


def _better(notes: Sequence[str], columns: int) -> tuple[Literal["higher", ""], ...]:
    """Accuracy is better higher; nothing is marked where ours cannot be compared with the published."""
    unmarked: Literal["higher", ""] = ""
    return () if notes else ("higher", *(unmarked for _ in range(columns - 1)))


def _with_delta(book: Results, table: str, key: Key, metric: str) -> TableCell:
    """An accuracy with its change in brackets."""
    found = book.find(table, key)
    if found is None or not metric:
        return without_interval(found)
    change = book.find(table, replace(key, metric=metric))
    if change is None or change.value is None:
        return without_interval(found)
    note = change.note if change.doubtful else found.note if found.doubtful or found.value is None else ""
    return TableValue(value=found.value, delta=change.value, note=note, doubtful=found.doubtful)


def _accuracies(book: Results) -> Table:
    """Table 1."""
    rows = []
    for table, model in _who(book, "Table 1", ("lm", "sm", "vlm")):
        cells: list[TableCell] = []
        for subset in _SUBSETS:
            for setting in ("lm", "sm", "vlm"):
                key = Key(model=model, setting=setting, metric="accuracy", subset=subset)
                cells.append(_with_delta(book, table, key, "" if setting == "lm" else "delta_vs_lm"))
        rows.append(TableRow(label=model, cells=tuple(cells), origin="published" if table else "ours"))
    notes = book.incomplete(_SUBSETS)
    return Table(
        id="vague_table1",
        title="VAGUE Table 1: accuracy by what the model is shown",
        columns=("LM", "SM", "VLM") * 2,
        groups=tuple((subset, 3) for subset in _SUBSETS),
        rows=tuple(rows),
        style="percent1",
        better=() if notes else ("higher",) * 6,
        notes=("Percent; in brackets the change against LM, ours before rounding.", _MATCHED, *notes),
    )


def _who(book: Results, table: str, settings: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The rows of a table: published models first, then ours, for which the table is ''."""
    yield from ((table, model) for model in book.printed_models(table))
    yield from (("", model) for model in book.asked(settings))


def _human_items(book: Results) -> Table:
    """Table 2: models by ascending accuracy, the human last; items that only stand in for the human's apart."""
    rows: list[TableRow] = []
    title = "VAGUE Table 2: readings chosen on the items that a human answered, with picture"
    listed = [("Table 2", model, HUMAN_SUBSETS[0]) for model in book.printed_models("Table 2")]
    listed += [("", model, HUMAN_SUBSETS[0]) for model in book.asked(["vlm"], subset=HUMAN_SUBSETS[0])]
    stand_ins = [("", model, HUMAN_SUBSETS[1]) for model in book.asked(["vlm"], subset=HUMAN_SUBSETS[1])]
    for heading, block in (("", listed), (HUMAN_SUBSETS[1], stand_ins)):
        found = [(model, _human_row(book, table, model, subset)) for table, model, subset in block]
        found.sort(key=lambda entry: (entry[0] == HUMAN, _accuracy_of(entry[1])))
        rows += [TableRow(label=heading, origin="heading")] if heading and found else []
        rows += [row for _, row in found]
    notes = [
        "Human: one person; 94.0 as printed, which is 374 of the 398 counted answers; of all 400 items it is 93.5.",
        _ERRORS_NOTE,
    ]
    if stand_ins:
        notes.append(
            f"{HUMAN_SUBSETS[1]}: the list of the human's items is unpublished; these are the 400 best-rated ones, and "
            "not comparable with the rows above."
        )
    shortfall = book.incomplete([HUMAN_SUBSETS[0]])
    return Table(
        id="vague_table2",
        title=title,
        columns=("Accuracy", *ERRORS.values(), "Correct", "Invalid"),
        rows=tuple(rows),
        style="percent1",
        better=_better(shortfall, 6),
        best_of="block",
        notes=(*notes, *shortfall),
    )


def _accuracy_of(row: TableRow) -> float:
    cell = row.cells[0]
    value = cell.value if isinstance(cell, TableValue) else cell
    return float(value) if isinstance(value, float | int) else -1.0


def _human_row(book: Results, table: str, model: str, subset: str) -> TableRow:
    key = Key(model=model, setting="vlm", metric="accuracy", subset=subset)
    names = (*ERRORS, "count_correct")
    counts = [count_of(book.find(table, replace(key, metric=name))) for name in names]
    known = [count for count in counts if count is not None]
    if table:
        invalid: TableCell = SIZES[subset] - sum(known) if len(known) == len(names) else None
    else:
        invalid = count_of(book.find("", replace(key, metric="count_invalid")))
    return TableRow(
        label=model,
        cells=(without_interval(book.find(table, key)), *counts, invalid),
        origin="published" if table else "ours",
    )


def _invalid(book: Results, table: str, key: Key) -> TableCell:
    """Answers that could not be read; for the published, what Tables H3 and H4 leave of all items."""
    if not table:
        return count_of(book.find("", replace(key, metric="count_invalid")))
    left = 0
    for subset in [key.subset] if key.subset else _SUBSETS:
        valid = count_of(book.find(_TABLE_H[subset], replace(key, metric="valid_count", subset=subset)))
        if valid is None:
            return None
        left += SIZES[subset] - valid
    return left


def _reasoning(book: Results) -> Table:
    """Table 3: with and without reasoning, on the whole."""
    rows: list[TableRow] = []
    for table, model in _who(book, "Table 3", tuple(_COT)):
        rows.append(TableRow(label=model, origin="heading"))
        for setting, change in _COT.items():
            key = Key(model=model, setting=setting, metric="accuracy")
            if book.find(table, key) is None:
                continue
            counts = (count_of(book.find(table, replace(key, metric=name))) for name in ERRORS)
            cells = (_with_delta(book, table, key, change), *counts, _invalid(book, table, key))
            rows.append(TableRow(label=SETTING_LABELS[setting], cells=cells, origin="published" if table else "ours"))
    notes = book.incomplete([""])
    return Table(
        id="vague_table3",
        title="VAGUE Table 3: what reasoning changes",
        label_head="Input",
        columns=("Accuracy", *ERRORS.values(), "Invalid"),
        rows=tuple(rows),
        style="percent1",
        better=_better(notes, 5),
        best_of="block",
        notes=("Percent; in brackets the change against the same input without reasoning.", _ERRORS_NOTE, *notes),
    )


def _everything(book: Results, subset: str) -> Table:
    """Table H3 or H4."""
    table, rows = _TABLE_H[subset], list[TableRow]()
    ours = [("", model) for model in book.models]
    for origin, model in [*((table, model) for model in book.printed_models(table)), *ours]:
        block = []
        for setting in _H_ORDER:
            cells = _everything_cells(book, origin, model, setting, subset)
            if any(cell is not None for cell in cells):
                row = TableRow(label=SETTING_LABELS[setting], cells=cells, origin="published" if origin else "ours")
                block.append(row)
        rows += [TableRow(label=model, origin="heading"), *block] if block else []
    notes = book.incomplete([subset])
    styles: tuple[Style, ...] = ("percent1", *("plain",) * 6, "fraction3", "fraction3", "plain")
    return Table(
        id=f"vague_{table.lower().replace(' ', '')}",
        title=f"VAGUE {table}: all numbers on {subset}",
        label_head="Input",
        columns=("Accuracy", *ERRORS.values(), "Correct", "Valid", "Invalid", "BERT F1", "BLEU-1", "Valid"),
        groups=(("Choice among readings", 7), ("Free answer", 3)),
        rows=tuple(rows),
        styles=styles,
        notes=(_ERRORS_NOTE, _SCORERS_NOTE, *notes),
    )


def _everything_cells(book: Results, table: str, model: str, setting: str, subset: str) -> tuple[TableCell, ...]:
    key = Key(model=model, setting=setting, metric="accuracy", subset=subset)
    counts = (
        count_of(book.find(table, replace(key, metric=name))) for name in (*ERRORS, "count_correct", "valid_count")
    )
    free = replace(key, task="freeform")
    return (
        without_interval(book.find(table, key)),
        *counts,
        _invalid(book, table, key),
        *(without_interval(book.find(table, replace(free, metric=name))) for name in ("bert_f1", "bleu1")),
        count_of(book.find(table, replace(free, metric="valid_count"))),
    )


def _data_means(book: Results) -> Table:
    """Table B1; the means are of the items asked, the same for every model that was asked all of them."""
    printed: tuple[TableCell, ...] = tuple(value for pair in PUBLISHED_MEANS.values() for value in pair)
    rows = [TableRow(label="Published", cells=printed, origin="published")]
    by_cells: dict[tuple[TableCell, ...], list[str]] = {}
    for model in book.models:
        found = [
            book.find("", Key(model=model, setting="", metric=metric, task="", subset=subset))
            for metric in _FACTS
            for subset in _SUBSETS
        ]
        cells: tuple[TableCell, ...] = tuple(
            None if one is None or one.value is None else float(half_up(one.value, 2)) for one in found
        )
        by_cells.setdefault(cells, []).append(model)
    for cells, models in by_cells.items():
        label = "Items of this sweep" if len(by_cells) == 1 else f"Items asked of {', '.join(models)}"
        rows.append(TableRow(label=label, cells=cells))
    return Table(
        id="vague_tableb1",
        title="VAGUE Table B1: means over pictures and utterances",
        label_head="Data",
        columns=_SUBSETS * len(_FACTS),
        groups=tuple((name, 2) for name in _FACTS.values()),
        rows=tuple(rows),
        style="plain",
        notes=("Object tags and people for each picture; words are what blanks separate.", *book.incomplete([""])),
    )
