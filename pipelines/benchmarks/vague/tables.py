"""VAGUE's tables in the paper's layout, published rows first: Tables 1, 2, 3, H3, H4 and B1 (arXiv 2411.14137).

Tables of errors also count unreadable answers, because those make errors look fewer than they are. Tables beyond the
paper's follow: how answers were parsed, position bias, free answers. The columns of all are in `tables.yaml`.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Final

from pipelines.benchmarks.layout import BOTH, Rows, TableDef, View, table_def
from pipelines.benchmarks.published import load_dataset_facts
from pipelines.benchmarks.results import Key, Results, count_of, with_interval, with_our_rows
from pipelines.benchmarks.tables import Table, TableCell, TableRow, TableValue
from pipelines.benchmarks.vague.facts import (
    CAPTIONED,
    ERRORS,
    FULL_TABLES,
    HUMAN,
    HUMAN_APPROXIMATE,
    HUMAN_LISTED,
    SETTING_LABELS,
    SIZES,
    SUBSETS,
    incomplete_notes,
)
from pipelines.metrics.stats import half_up

_MEANS: Final = ("avg_object_count", "avg_people_count", "avg_word_count_direct", "avg_word_count_indirect")
_LETTERS: Final = ("A", "B", "C", "D")


def make_tables(results: Results) -> list[Table]:
    """Lay out Tables 1, 2, 3, H3, H4, B1 and B2 of the paper, then others that have a row of ours."""
    further = (_PARSING, _BY_LETTER, _rating_table(results), _FREEFORM, _CAPTIONER)
    return [
        *(table.lay_out(results) for table in (_TABLE_1, _TABLE_2, _TABLE_3, *_FULL_TABLES, _TABLE_B1)),
        _tag_probe_table(),
        *with_our_rows(table.lay_out(results) for table in further),
    ]


def _unreadable(view: View, _key: Key) -> TableCell:
    """Return the count of unreadable answers; of published models what the others leave of all items."""
    if view.source == "ours":
        return count_of(view.find(Key("count_invalid")))
    counts = [count_of(view.find(Key(metric))) for metric in (*ERRORS, "count_correct")]
    valid = [count for count in counts if count is not None]
    return SIZES[view.key.subset] - sum(valid) if len(valid) == len(counts) else None


def _invalid(view: View, _key: Key) -> TableCell:
    """Return the count of unreadable answers; of published models, what Tables H3 and H4 leave of all items."""
    if view.source == "ours":
        return count_of(view.find(Key("count_invalid")))
    subsets = [view.key.subset] if view.key.subset else list(SUBSETS)
    keys = {subset: view.key._replace(metric="valid_count", subset=subset) for subset in subsets}
    valid = [count_of(view.results.find(key, table=FULL_TABLES[subset])) for subset, key in keys.items()]
    return None if None in valid else sum(SIZES[subset] for subset in subsets) - sum(count or 0 for count in valid)


def _chosen(view: View, key: Key) -> TableCell:
    return count_of(view.find(Key(category=f"{view.key.category}/{key.category}")))


_define: Final = partial(
    table_def, __package__, functions={"unreadable": _unreadable, "invalid": _invalid, "chosen": _chosen}
)
_TABLE_1: Final = _define(
    "vague_table1",
    [Rows(keys=[Key("accuracy", "mcq")], sources=BOTH, table="Table 1")],
    coverage=partial(incomplete_notes, subsets=SUBSETS),
)


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


_TABLE_2: Final = _define(
    "vague_table2",
    [
        Rows(keys=[Key("", "mcq", "vlm", HUMAN_LISTED)], sources=BOTH, table="Table 2", order=_by_accuracy),
        Rows(HUMAN_APPROXIMATE, [Key("", "mcq", "vlm", HUMAN_APPROXIMATE)], order=_by_accuracy),
    ],
    notes=[_approximate_note],
    coverage=partial(incomplete_notes, subsets=[HUMAN_LISTED]),
)


def _by_input(table: str, subset: str, settings: Iterable[str]) -> list[Rows]:
    parts = {SETTING_LABELS[setting]: Key(setting=setting) for setting in settings}
    rows = Rows(keys=[Key("accuracy", "mcq", "", subset)], sources=BOTH, table=table, parts=parts)
    return [rows]


_TABLE_3: Final = _define(
    "vague_table3",
    _by_input("Table 3", "", ("sm", "sm-cot", "vlm", "vlm-cot")),
    coverage=partial(incomplete_notes, subsets=[""]),
)
_FULL_TABLES: Final = [
    _define(
        f"vague_{table.lower().replace(' ', '')}",
        _by_input(table, subset, ("vlm", "vlm-cot", "sm", "sm-cot", "lm")),
        coverage=partial(incomplete_notes, subsets=[subset]),
    )
    for subset, table in FULL_TABLES.items()
]


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


def _means(results: Results) -> Iterator[TableRow]:
    """Yield the rows of Table B1; the means are the same for every model with requests for all items."""
    facts = load_dataset_facts("vague")
    published = tuple(float(facts[f"{metric}_{subset.lower()}"]) for metric in _MEANS for subset in SUBSETS)
    yield TableRow(label="Published", cells=published, origin="published")
    models_by_cells: dict[tuple[TableCell, ...], list[str]] = {}
    for model in results.without_people().models():
        means = [results.value(Key(metric, subset=subset, model=model)) for metric in _MEANS for subset in SUBSETS]
        cells: tuple[TableCell, ...] = tuple(None if mean is None else float(half_up(mean, 2)) for mean in means)
        models_by_cells.setdefault(cells, []).append(model)
    for row_cells, models in models_by_cells.items():
        label = "Items of this sweep" if len(models_by_cells) == 1 else f"Items asked of {', '.join(models)}"
        yield TableRow(label=label, cells=row_cells)


_TABLE_B1: Final = _define("vague_tableb1", [_means], coverage=partial(incomplete_notes, subsets=[""]))


def _rows_by_setting(task: str) -> list[Rows]:
    return [Rows(label, [Key("", task, setting)]) for setting, label in SETTING_LABELS.items()]


def _rating_table(results: Results) -> TableDef:
    ratings = sorted({key.category for key in results.ours if key.metric == "accuracy_by_rating"}, key=float)
    columns = {rating: Key("accuracy_by_rating", category=rating) for rating in ratings}
    return _define("vague_rating", _rows_by_setting("mcq"), columns=columns)


_PARSING: Final = _define("vague_reading", _rows_by_setting("mcq"))
# Position bias shows as a tall column.
_BY_LETTER: Final = _define(
    "vague_letters",
    [
        Rows(
            keys=[Key("count_letter", "mcq", setting) for setting in SETTING_LABELS],
            label=lambda view: f"{view.key.model}, {SETTING_LABELS[view.key.setting]}",
            parts={f"Correct at {letter}": Key(category=letter) for letter in _LETTERS},
        )
    ],
)
_FREEFORM: Final = _define("vague_freeform", _rows_by_setting("freeform"))
_CAPTIONER: Final = _define(
    "vague_captioner",
    [Rows(keys=[Key("", "mcq")], where=lambda view: view.find(Key("accuracy", setting=CAPTIONED)) is not None)],
    show=with_interval,
)
