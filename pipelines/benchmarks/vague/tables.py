"""VAGUE's tables in the paper's layout, published rows first: Tables 1, 2, 3, H3, H4 and B1 (arXiv 2411.14137).

Tables of errors also count unreadable answers, because those make errors look fewer than they are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, Literal

from pipelines.benchmarks.published import load_dataset_facts
from pipelines.benchmarks.results import Key, Results, count_of, section, without_interval
from pipelines.benchmarks.tables import Origin, Style, Table, TableCell, TableRow, TableValue
from pipelines.benchmarks.vague.extra_tables import extra_tables
from pipelines.benchmarks.vague.facts import (
    HUMAN_APPROXIMATE,
    HUMAN_LISTED,
    SIZES,
    SUBSETS,
)
from pipelines.benchmarks.vague.results import (
    ERRORS,
    FULL_TABLES,
    HUMAN,
    SETTING_LABELS,
    counts,
    incomplete_notes,
    mcq_key,
    models_in,
)
from pipelines.metrics.stats import half_up

_FULL_TABLE_SETTINGS: Final = ("vlm", "vlm-cot", "sm", "sm-cot", "lm")
_COT_SETTINGS: Final[Mapping[str, str]] = {"sm": "", "sm-cot": "cot_delta", "vlm": "", "vlm-cot": "cot_delta"}
"""Setting -> the metric of its change."""
_MEANS: Final[Mapping[str, str]] = {
    "avg_object_count": "Object tags",
    "avg_people_count": "People",
    "avg_word_count_direct": "Words, direct",
    "avg_word_count_indirect": "Words, indirect",
}
_ERRORS_NOTE: Final = (
    "FS fake scene, SU superficial, NE nonexistent entity: readings chosen instead of the correct one. Invalid: "
    "answers that could not be read; they are wrong, and no error of a kind."
)
_SCORERS_NOTE: Final = (
    "BERT F1 and BLEU-1: scorer settings unpublished, ours may be others. Ours: BERTScore F1 rescaled by the baseline "
    "of the scorer named in the run, BLEU-1 by sentence on lower-cased 13a tokens."
)
_CHANCE_NOTE: Final = "Chance is 25%; models without picture often stay below it: the superficial reading attracts."


def make_tables(results: Results) -> list[Table]:
    """Lay out Tables 1, 2, 3, H3, H4 and B1 of the paper, then those that the paper does not have."""
    return [
        _accuracy_table(results),
        _human_items_table(results),
        _cot_table(results),
        *(_full_table(results, subset) for subset in SUBSETS),
        _means_table(results),
        *extra_tables(results),
    ]


def _better(notes: Sequence[str], columns: int) -> tuple[Literal["higher", ""], ...]:
    """Mark the first column as better higher; mark nothing where ours is not comparable with the published rows."""
    unmarked: Literal["higher", ""] = ""
    return () if notes else ("higher", *(unmarked for _ in range(columns - 1)))


def _models(results: Results, table: str, settings: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield (table, model) of the published models, then of ours, for which the table is ''."""
    yield from ((table, model) for model in results.models("published", table=table))
    yield from (("", model) for model in models_in(results, settings))


def _row(label: str, cells: Sequence[TableCell], table: str) -> TableRow:
    origin: Origin = "human" if label == HUMAN else "published" if table else "ours"
    return TableRow(label=label, cells=tuple(cells), origin=origin)


def _with_change(results: Results, table: str, key: Key, metric: str) -> TableCell:
    """Return an accuracy with its change, where the metric of the change is not ''."""
    number = results.find(key, table=table)
    change = results.find(key._replace(metric=metric), table=table) if metric else None
    if number is None or change is None or change.value is None:
        return without_interval(number)
    note = change.note if change.doubtful else number.note if number.doubtful or number.value is None else ""
    return TableValue(value=number.value, delta=change.value, note=note, doubtful=number.doubtful)


def _accuracy_table(results: Results) -> Table:
    settings = ("lm", "sm", "vlm")
    rows = []
    for table, model in _models(results, "Table 1", settings):
        cells = [
            _with_change(
                results, table, mcq_key("accuracy", setting, model, subset), "" if setting == "lm" else "delta_vs_lm"
            )
            for subset in SUBSETS
            for setting in settings
        ]
        rows.append(_row(model, cells, table))
    notes = incomplete_notes(results, SUBSETS)
    return Table(
        id="vague_table1",
        title="VAGUE Table 1: accuracy by input",
        columns=("LM", "SM", "VLM") * 2,
        groups=tuple((subset, 3) for subset in SUBSETS),
        rows=tuple(rows),
        style="percent1",
        better=() if notes else ("higher",) * 6,
        notes=("Percent; in brackets the change against LM, ours before rounding.", _CHANCE_NOTE, *notes),
    )


def _human_items_table(results: Results) -> Table:
    """Lay out Table 2: models by ascending accuracy, the human last; items that stand in for the human's apart."""
    listed = [("Table 2", model) for model in results.models("published", table="Table 2")]
    listed += [("", model) for model in models_in(results, ["vlm"], subset=HUMAN_LISTED)]
    approximate = [("", model) for model in models_in(results, ["vlm"], subset=HUMAN_APPROXIMATE)]
    rows = _human_items_rows(results, listed, HUMAN_LISTED)
    rows += section(HUMAN_APPROXIMATE, _human_items_rows(results, approximate, HUMAN_APPROXIMATE))
    notes = [
        "Human: one person; 94.0 as printed, which is 374 of the 398 counted answers; of all 400 items it is 93.5.",
        _ERRORS_NOTE,
    ]
    if approximate:
        notes.append(
            f"{HUMAN_APPROXIMATE}: the human's items are unpublished; these are the 400 best-rated ones, and not "
            "comparable with the rows above."
        )
    incomplete = incomplete_notes(results, [HUMAN_LISTED])
    return Table(
        id="vague_table2",
        title="VAGUE Table 2: chosen interpretations on the items that a human answered, with picture",
        columns=("Accuracy", *ERRORS.values(), "Correct", "Invalid"),
        rows=tuple(rows),
        style="percent1",
        better=_better(incomplete, 6),
        best_of="block",
        notes=(*notes, *incomplete),
    )


def _human_items_rows(results: Results, models: Sequence[tuple[str, str]], subset: str) -> list[TableRow]:
    rows = []
    for table, model in models:
        key = mcq_key("accuracy", "vlm", model, subset)
        chosen = counts(results, key, table, (*ERRORS, "count_correct"))
        if table:
            valid = [count for count in chosen if count is not None]
            invalid = SIZES[subset] - sum(valid) if len(valid) == len(chosen) else None
        else:
            invalid = count_of(results.find(key._replace(metric="count_invalid")))
        accuracy = results.find(key, table=table)
        value = -1.0 if accuracy is None or accuracy.value is None else accuracy.value
        rows.append((model == HUMAN, value, _row(model, (without_interval(accuracy), *chosen, invalid), table)))
    rows.sort(key=lambda row: row[:2])
    return [row for _, _, row in rows]


def _invalid(results: Results, table: str, key: Key) -> TableCell:
    """Return the count of unreadable answers; of published models, what Tables H3 and H4 leave of all items."""
    if not table:
        return count_of(results.find(key._replace(metric="count_invalid")))
    invalid = 0
    for subset in [key.subset] if key.subset else SUBSETS:
        valid_key = key._replace(metric="valid_count", subset=subset)
        valid = count_of(results.find(valid_key, table=FULL_TABLES[subset]))
        if valid is None:
            return None
        invalid += SIZES[subset] - valid
    return invalid


def _cot_table(results: Results) -> Table:
    """Lay out Table 3: with and without reasoning, over all items."""
    rows: list[TableRow] = []
    for table, model in _models(results, "Table 3", _COT_SETTINGS):
        rows.append(TableRow(label=model, origin="heading"))
        for setting, change in _COT_SETTINGS.items():
            key = mcq_key("accuracy", setting, model)
            if results.find(key, table=table) is not None:
                accuracy = _with_change(results, table, key, change)
                cells = (accuracy, *counts(results, key, table, ERRORS), _invalid(results, table, key))
                rows.append(_row(SETTING_LABELS[setting], cells, table))
    notes = incomplete_notes(results, [""])
    return Table(
        id="vague_table3",
        title="VAGUE Table 3: effect of reasoning",
        label_head="Input",
        columns=("Accuracy", *ERRORS.values(), "Invalid"),
        rows=tuple(rows),
        style="percent1",
        better=_better(notes, 5),
        best_of="block",
        notes=("Percent; in brackets the change against the same input without reasoning.", _ERRORS_NOTE, *notes),
    )


def _full_table(results: Results, subset: str) -> Table:
    table, rows = FULL_TABLES[subset], list[TableRow]()
    published = ((table, model) for model in results.models("published", table=table))
    for source, model in [*published, *(("", model) for model in results.models())]:
        block = []
        for setting in _FULL_TABLE_SETTINGS:
            cells = _full_table_cells(results, source, mcq_key("accuracy", setting, model, subset))
            if any(cell is not None for cell in cells):
                block.append(_row(SETTING_LABELS[setting], cells, source))
        rows += section(model, block)
    styles: tuple[Style, ...] = ("percent1", *("plain",) * 6, "fraction3", "fraction3", "plain")
    return Table(
        id=f"vague_{table.lower().replace(' ', '')}",
        title=f"VAGUE {table}: all numbers on {subset}",
        label_head="Input",
        columns=("Accuracy", *ERRORS.values(), "Correct", "Valid", "Invalid", "BERT F1", "BLEU-1", "Valid"),
        groups=(("Choice among readings", 7), ("Free answer", 3)),
        rows=tuple(rows),
        styles=styles,
        notes=(_ERRORS_NOTE, _SCORERS_NOTE, *incomplete_notes(results, [subset])),
    )


def _full_table_cells(results: Results, table: str, key: Key) -> tuple[TableCell, ...]:
    freeform = key._replace(task="freeform")
    return (
        without_interval(results.find(key, table=table)),
        *counts(results, key, table, (*ERRORS, "count_correct", "valid_count")),
        _invalid(results, table, key),
        *(without_interval(results.find(freeform._replace(metric=m), table=table)) for m in ("bert_f1", "bleu1")),
        *counts(results, freeform, table, ["valid_count"]),
    )


def _means_table(results: Results) -> Table:
    """Lay out Table B1; the means are the same for every model with requests for all items."""
    facts = load_dataset_facts("vague")
    published = tuple(float(facts[f"{metric}_{subset.lower()}"]) for metric in _MEANS for subset in SUBSETS)
    rows = [TableRow(label="Published", cells=published, origin="published")]
    models_by_cells: dict[tuple[TableCell, ...], list[str]] = {}
    for model in results.models():
        means = [results.value(Key(metric, subset=subset, model=model)) for metric in _MEANS for subset in SUBSETS]
        cells: tuple[TableCell, ...] = tuple(None if mean is None else float(half_up(mean, 2)) for mean in means)
        models_by_cells.setdefault(cells, []).append(model)
    for row_cells, models in models_by_cells.items():
        label = "Items of this sweep" if len(models_by_cells) == 1 else f"Items asked of {', '.join(models)}"
        rows.append(TableRow(label=label, cells=row_cells))
    return Table(
        id="vague_tableb1",
        title="VAGUE Table B1: means over pictures and utterances",
        label_head="Data",
        columns=tuple(SUBSETS) * len(_MEANS),
        groups=tuple((name, 2) for name in _MEANS.values()),
        rows=tuple(rows),
        style="plain",
        notes=(
            "Object tags and people for each picture; words are separated by blanks.",
            *incomplete_notes(results, [""]),
        ),
    )
