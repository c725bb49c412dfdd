"""VAGUE's tables in the paper's layout, published rows first: Tables 1, 2, 3, H3, H4 and B1 (arXiv 2411.14137).

Tables of errors also count unreadable answers, because those make errors look fewer than they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from pipelines.benchmarks.layout import BOTH, Rows, Shown, TableDef, View
from pipelines.benchmarks.published import load_dataset_facts
from pipelines.benchmarks.results import Key, Results, count_of
from pipelines.benchmarks.tables import Table, TableCell, TableRow, TableValue
from pipelines.benchmarks.vague.extra_tables import extra_tables
from pipelines.benchmarks.vague.facts import HUMAN_APPROXIMATE, HUMAN_LISTED, SIZES, SUBSETS
from pipelines.benchmarks.vague.results import ERRORS, FULL_TABLES, HUMAN, SETTING_LABELS, incomplete_notes
from pipelines.metrics.stats import half_up

_MEANS: Final[Mapping[str, str]] = {
    "avg_object_count": "Object tags",
    "avg_people_count": "People",
    "avg_word_count_direct": "Words, direct",
    "avg_word_count_indirect": "Words, indirect",
}
_ERRORS: Final = {head: Shown(Key(metric), count_of) for metric, head in ERRORS.items()}
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
    """Lay out Tables 1, 2, 3, H3, H4, B1 and B2 of the paper, then those that the paper does not have."""
    definitions = (_TABLE_1, _TABLE_2, _TABLE_3, *map(_full_table, SUBSETS))
    laid_out = [table.lay_out(results) for table in definitions]
    return [*laid_out, _means_table(results), _tag_probe_table(), *extra_tables(results)]


_TABLE_1: Final = TableDef(
    id="vague_table1",
    title="VAGUE Table 1: accuracy by input",
    columns=[
        (label, Shown(Key(setting=setting, subset=subset), change=change))
        for subset in SUBSETS
        for label, setting, change in (("LM", "lm", ""), ("SM", "sm", "delta_vs_lm"), ("VLM", "vlm", "delta_vs_lm"))
    ],
    groups=tuple((subset, 3) for subset in SUBSETS),
    rows=[Rows(keys=[Key("accuracy", "mcq")], sources=BOTH, table="Table 1")],
    style="percent1",
    better="higher",
    notes=("Percent; in brackets the change against LM, ours before rounding.", _CHANCE_NOTE),
    coverage=partial(incomplete_notes, subsets=SUBSETS),
)


def _unreadable(view: View) -> TableCell:
    """Return the count of unreadable answers; of published models what the others leave of all items."""
    if view.source == "ours":
        return count_of(view.find(Key("count_invalid")))
    counts = [count_of(view.find(Key(metric))) for metric in (*ERRORS, "count_correct")]
    valid = [count for count in counts if count is not None]
    return SIZES[view.key.subset] - sum(valid) if len(valid) == len(counts) else None


def _by_accuracy(row: TableRow) -> tuple[bool, float]:
    """Sort by accuracy, the human last."""
    accuracy = row.cells[0].value if isinstance(row.cells[0], TableValue) else row.cells[0]
    return row.label == HUMAN, accuracy if isinstance(accuracy, float) else -1.0


def _approximate_note(_results: Results, rows: Sequence[TableRow]) -> Iterable[str]:
    if any(row.label == HUMAN_APPROXIMATE for row in rows):
        yield (
            f"{HUMAN_APPROXIMATE}: the human's items are unpublished; these are the 400 best-rated ones, and not "
            "comparable with the rows above."
        )


_TABLE_2: Final = TableDef(
    id="vague_table2",
    title="VAGUE Table 2: chosen interpretations on the items that a human answered, with picture",
    columns={
        "Accuracy": Key("accuracy"),
        **_ERRORS,
        "Correct": Shown(Key("count_correct"), count_of),
        "Invalid": _unreadable,
    },
    rows=[
        Rows(keys=[Key("", "mcq", "vlm", HUMAN_LISTED)], sources=BOTH, table="Table 2", order=_by_accuracy),
        Rows(HUMAN_APPROXIMATE, [Key("", "mcq", "vlm", HUMAN_APPROXIMATE)], order=_by_accuracy),
    ],
    style="percent1",
    better=("higher", *("",) * 5),
    best_of="block",
    notes=(
        "Human: one person; 94.0 as printed, which is 374 of the 398 counted answers; of all 400 items it is 93.5.",
        _ERRORS_NOTE,
        _approximate_note,
    ),
    coverage=partial(incomplete_notes, subsets=[HUMAN_LISTED]),
)


def _invalid(view: View) -> TableCell:
    """Return the count of unreadable answers; of published models, what Tables H3 and H4 leave of all items."""
    if view.source == "ours":
        return count_of(view.find(Key("count_invalid")))
    subsets = [view.key.subset] if view.key.subset else list(SUBSETS)
    keys = {subset: view.key._replace(metric="valid_count", subset=subset) for subset in subsets}
    valid = [count_of(view.results.find(key, table=FULL_TABLES[subset])) for subset, key in keys.items()]
    return None if None in valid else sum(SIZES[subset] for subset in subsets) - sum(count or 0 for count in valid)


def _by_input(table: str, subset: str, settings: Iterable[str]) -> list[Rows]:
    parts = {SETTING_LABELS[setting]: Key(setting=setting) for setting in settings}
    rows = Rows(keys=[Key("accuracy", "mcq", "", subset)], sources=BOTH, table=table, parts=parts)
    return [rows]


# With and without reasoning, over all items.
_TABLE_3: Final = TableDef(
    id="vague_table3",
    title="VAGUE Table 3: effect of reasoning",
    label_head="Input",
    columns={"Accuracy": Shown(Key("accuracy"), change="cot_delta"), **_ERRORS, "Invalid": _invalid},
    rows=_by_input("Table 3", "", ("sm", "sm-cot", "vlm", "vlm-cot")),
    style="percent1",
    better=("higher", *("",) * 4),
    best_of="block",
    notes=("Percent; in brackets the change against the same input without reasoning.", _ERRORS_NOTE),
    coverage=partial(incomplete_notes, subsets=[""]),
)


def _full_table(subset: str) -> TableDef:
    table = FULL_TABLES[subset]
    return TableDef(
        id=f"vague_{table.lower().replace(' ', '')}",
        title=f"VAGUE {table}: all numbers on {subset}",
        label_head="Input",
        columns=[
            ("Accuracy", Key("accuracy")),
            *_ERRORS.items(),
            ("Correct", Shown(Key("count_correct"), count_of)),
            ("Valid", Shown(Key("valid_count"), count_of)),
            ("Invalid", _invalid),
            ("BERT F1", Key("bert_f1", "freeform")),
            ("BLEU-1", Key("bleu1", "freeform")),
            ("Valid", Shown(Key("valid_count", "freeform"), count_of)),
        ],
        groups=(("Choice among readings", 7), ("Free answer", 3)),
        rows=_by_input(table, subset, ("vlm", "vlm-cot", "sm", "sm-cot", "lm")),
        styles=("percent1", *("plain",) * 6, "fraction3", "fraction3", "plain"),
        notes=(_ERRORS_NOTE, _SCORERS_NOTE),
        coverage=partial(incomplete_notes, subsets=[subset]),
    )


def _tag_probe_table() -> Table:
    """Lay out Table B2: whether models read the numbers on people in three pictures."""
    facts = load_dataset_facts("vague")
    persons, sizes, models = (facts[f"tag_probe_{name}"].split("; ") for name in ("person", "people", "models"))
    answer = facts["tag_probe_answer"]
    return Table(
        id="vague_tableb2",
        title="VAGUE Table B2: the colour of a numbered person's shirt",
        columns=tuple(
            f"({letter}) person {person} of {size}" for letter, person, size in zip("abc", persons, sizes, strict=True)
        ),
        rows=tuple(TableRow(label=model, cells=(answer,) * len(persons), origin="published") for model in models),
        notes=(
            f"Right: {answer}. The answers are printed as sentences that name this colour.",
            "As printed: the three pictures, of COCO, are not part of the data, so that our models are not asked.",
        ),
    )


def _means_table(results: Results) -> Table:
    """Lay out Table B1; the means are the same for every model with requests for all items."""
    facts = load_dataset_facts("vague")
    published = tuple(float(facts[f"{metric}_{subset.lower()}"]) for metric in _MEANS for subset in SUBSETS)
    rows = [TableRow(label="Published", cells=published, origin="published")]
    models_by_cells: dict[tuple[TableCell, ...], list[str]] = {}
    for model in results.without_people().models():
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
