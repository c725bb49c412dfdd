"""VAGUE's tables and figures in the paper's layout, published rows first (arXiv 2411.14137).

Tables of errors also count unreadable answers, because those make errors look fewer than they are. Tables beyond the
paper's follow: how answers were parsed, position bias, free answers. Figure 4 shows which wrong
readings models choose, Figure B1 what speakers ask for.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Final

from pipelines.benchmarks.figures import Bars, Figure, Radar, Series, model_slugs
from pipelines.benchmarks.layout import BOTH, Column, Rows, Shown, TableDef, View
from pipelines.benchmarks.published import load_dataset_facts
from pipelines.benchmarks.results import Key, Results, count_of, with_interval, with_our_rows
from pipelines.benchmarks.tables import Origin, Table, TableCell, TableRow, TableValue
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
from pipelines.benchmarks.vague.prompts import LETTERS
from pipelines.metrics.intervals import half_up

_MEANS: Final = {
    "avg_object_count": "Object tags",
    "avg_people_count": "People",
    "avg_word_count_direct": "Words, direct",
    "avg_word_count_indirect": "Words, indirect",
}


def make_tables(results: Results) -> list[Table]:
    """Lay out Tables 1, 2, 3, H3, H4, B1 and B2 of the paper, then others that have a row of ours."""
    further = (_PARSING, _BY_LETTER, _rating_table(results), _FREEFORM, _CAPTIONER)
    return [
        *(table.lay_out(results) for table in (_TABLE_1, _TABLE_2, _TABLE_3, *_FULL_TABLES, _TABLE_B1)),
        _tag_probe_table(),
        *with_our_rows(table.lay_out(results) for table in further),
    ]


def _unreadable(view: View) -> TableCell:
    """Return the count of unreadable answers; of published models what the others leave of all items."""
    if view.source == "ours":
        return count_of(view.find(Key("count_invalid")))
    counts = [count_of(view.find(Key(metric))) for metric in (*ERRORS, "count_correct")]
    valid = [count for count in counts if count is not None]
    return SIZES[view.key.subset] - sum(valid) if len(valid) == len(counts) else None


def _invalid(view: View) -> TableCell:
    """Return the count of unreadable answers; of published models, what Tables H3 and H4 leave of all items."""
    if view.source == "ours":
        return count_of(view.find(Key("count_invalid")))
    subsets = [view.key.subset] if view.key.subset else list(SUBSETS)
    keys = {subset: view.key._replace(metric="valid_count", subset=subset) for subset in subsets}
    valid = [count_of(view.results.find(key, table=FULL_TABLES[subset])) for subset, key in keys.items()]
    return None if None in valid else sum(SIZES[subset] for subset in subsets) - sum(count or 0 for count in valid)


_COUNTS: Final[dict[str, Column]] = {head: Shown(Key(metric), count_of) for metric, head in ERRORS.items()}
_CORRECT: Final = Shown(Key("count_correct"), count_of)
_ERRORS_NOTE: Final = (
    "FS fake scene, SU superficial, NE nonexistent entity: readings chosen instead of the correct one. Invalid: answers"
    " that could not be read; they are wrong, and no error of a kind."
)
_TABLE_1: Final = TableDef(
    id="vague_table1",
    title="VAGUE Table 1: accuracy by input",
    columns=[
        (SETTING_LABELS[setting], Shown(Key("", "", setting, subset), change="" if setting == "lm" else "delta_vs_lm"))
        for subset in SUBSETS
        for setting in ("lm", "sm", "vlm")
    ],
    rows=[Rows(keys=[Key("accuracy", "mcq")], sources=BOTH, table="Table 1")],
    style="percent1",
    groups=tuple((subset, 3) for subset in SUBSETS),
    better="higher",
    notes=[
        "Percent; in brackets the change against LM, ours before rounding.",
        "Chance is 25%; models without picture often stay below it: the superficial reading attracts.",
    ],
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


_TABLE_2: Final = TableDef(
    id="vague_table2",
    title="VAGUE Table 2: chosen interpretations on the items that a human answered, with picture",
    columns={"Accuracy": Key("accuracy"), **_COUNTS, "Correct": _CORRECT, "Invalid": _unreadable},
    rows=[
        Rows(keys=[Key("", "mcq", "vlm", HUMAN_LISTED)], sources=BOTH, table="Table 2", order=_by_accuracy),
        Rows(HUMAN_APPROXIMATE, [Key("", "mcq", "vlm", HUMAN_APPROXIMATE)], order=_by_accuracy),
    ],
    style="percent1",
    better=("higher", "", "", "", "", ""),
    best_of="block",
    notes=[
        "Human: one person; 94.0 as printed, which is 374 of the 398 counted answers; of all 400 items it is 93.5.",
        _ERRORS_NOTE,
        _approximate_note,
    ],
    coverage=partial(incomplete_notes, subsets=[HUMAN_LISTED]),
)


def _by_input(table: str, subset: str, settings: Iterable[str]) -> list[Rows]:
    parts = {SETTING_LABELS[setting]: Key(setting=setting) for setting in settings}
    return [Rows(keys=[Key("accuracy", "mcq", "", subset)], sources=BOTH, table=table, parts=parts)]


_TABLE_3: Final = TableDef(
    id="vague_table3",
    title="VAGUE Table 3: effect of reasoning",
    label_head="Input",
    columns={"Accuracy": Shown(Key("accuracy"), change="cot_delta"), **_COUNTS, "Invalid": _invalid},
    rows=_by_input("Table 3", "", ("sm", "sm-cot", "vlm", "vlm-cot")),
    style="percent1",
    better=("higher", "", "", "", ""),
    best_of="block",
    notes=["Percent; in brackets the change against the same input without reasoning.", _ERRORS_NOTE],
    coverage=partial(incomplete_notes, subsets=[""]),
)
_FULL_TABLES: Final = [
    TableDef(
        id=f"vague_{table.lower().replace(' ', '')}",
        title=f"VAGUE {table}: all numbers on {subset}",
        label_head="Input",
        columns=[
            ("Accuracy", Key("accuracy")),
            *_COUNTS.items(),
            ("Correct", _CORRECT),
            ("Valid", Shown(Key("valid_count"), count_of)),
            ("Invalid", _invalid),
            ("BERT F1", Key("bert_f1", "freeform")),
            ("BLEU-1", Key("bleu1", "freeform")),
            ("Valid", Shown(Key("valid_count", "freeform"), count_of)),
        ],
        rows=_by_input(table, subset, ("vlm", "vlm-cot", "sm", "sm-cot", "lm")),
        styles=("percent1", *(("plain",) * 6), "fraction3", "fraction3", "plain"),
        groups=(("Choice among readings", 7), ("Free answer", 3)),
        notes=[
            _ERRORS_NOTE,
            (
                "BERT F1 and BLEU-1: scorer settings unpublished, ours may be others. Ours: BERTScore F1 rescaled by"
                " the baseline of the scorer named in the run, BLEU-1 by sentence on lower-cased 13a tokens."
            ),
        ],
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


_TABLE_B1: Final = TableDef(
    id="vague_tableb1",
    title="VAGUE Table B1: means over pictures and utterances",
    label_head="Data",
    columns=[(subset, None) for _ in _MEANS for subset in SUBSETS],
    rows=[_means],
    style="plain",
    groups=tuple((head, 2) for head in _MEANS.values()),
    notes=["Object tags and people for each picture; words are separated by blanks."],
    coverage=partial(incomplete_notes, subsets=[""]),
)


def _rows_by_setting(task: str) -> list[Rows]:
    return [Rows(label, [Key("", task, setting)]) for setting, label in SETTING_LABELS.items()]


def _rating_table(results: Results) -> TableDef:
    ratings = sorted({key.category for key in results.ours if key.metric == "accuracy_by_rating"}, key=float)
    return TableDef(
        id="vague_rating",
        title="VAGUE: accuracy by human rating of the item",
        columns={rating: Key("accuracy_by_rating", category=rating) for rating in ratings},
        rows=_rows_by_setting("mcq"),
        style="percent1",
        notes=["Percent; columns are the mean of the ratings of the direct and the indirect utterance, of 5."],
    )


_REASONS: Final = {
    "Empty": "empty",
    "Second answer empty": "empty_answer2",
    "Several letters": "multiple",
    "No second answer": "no_answer2",
    "No such letter": "out_of_range",
    "Refusal": "refusal",
    "Reasoning unfinished": "unclosed_think",
    "Unparsed": "unparsed",
}
_PARSING: Final = TableDef(
    id="vague_reading",
    title="VAGUE: parsing of chosen letters",
    columns={
        **{rule: Key("count_rule", category=rule) for rule in ("R0", "R1", "R2", "R3", "R4", "R5", "none")},
        **{head: Key("count_invalid", category=reason) for head, reason in _REASONS.items()},
    },
    rows=_rows_by_setting("mcq"),
    groups=(("Rule that decided", 7), ("Invalid, and why", 8)),
    notes=[
        (
            "R0 and R1 take a whole answer, R2 its beginning, R3 a letter behind a cue word, R4 a letter that stands"
            " alone, R5 the wording of a reading; a rule may find an answer invalid."
        )
    ],
)


# Position bias shows as a tall column.
_BY_LETTER: Final = TableDef(
    id="vague_letters",
    title="VAGUE: chosen letters by the letter of the correct interpretation",
    label_head="Items",
    columns={
        **{f"Said {letter}": Shown(Key(category=f"{{}}/{letter}"), count_of) for letter in LETTERS},
        "Invalid": Shown(Key(category="{}/invalid"), count_of),
    },
    rows=[
        Rows(
            keys=[Key("count_letter", "mcq", setting) for setting in SETTING_LABELS],
            label=lambda view: f"{view.key.model}, {SETTING_LABELS[view.key.setting]}",
            parts={f"Correct at {letter}": Key(category=letter) for letter in LETTERS},
            measured=True,
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
    styles=(*(("fraction3",) * 5), *(("plain",) * 4)),
    notes=["Flags change no score. Without opener: `The speaker wants ... to` is removed from both sides first."],
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
    rows=[Rows(keys=[Key("", "mcq")], where=lambda view: view.find(Key("accuracy", setting=CAPTIONED)) is not None)],
    show=with_interval,
    style="percent1",
    notes=[
        "Captioner's: setting sm-other, captions of the model that --captioner names, of several the first.",
        "Change: the captioner's minus own, paired. Several captioners have a table of their own.",
    ],
)


_SETTINGS: Final = ("lm", "sm", "vlm")
_READINGS: Final = ("Fake scene", "Superficial", "Nonexistent entity")


def make_figures(results: Results) -> list[Figure]:
    """Lay out Figure 4 for each model, ours first, then the actions of the data."""
    figures: list[Figure] = []
    for model, slug in model_slugs(results.models()).items():
        figures += _error_bars(results, model, f"vague_errors_{slug}", is_published=False)
    for model, slug in model_slugs(results.models("published", table="Table H3")).items():
        figures += _error_bars(results, model, f"vague_figure4_{slug}", is_published=True)
    for subset in FULL_TABLES:
        figures += _action_figure(results, subset)
    return figures


def _error_bars(results: Results, model: str, figure_id: str, *, is_published: bool) -> Iterator[Figure]:
    """Yield bars of wrong readings chosen, a series a setting; nothing without numbers."""
    origin: Origin = "published" if is_published else "ours"
    series = []
    for setting in _SETTINGS:
        keys = (Key(metric, "mcq", setting, model=model) for metric in ERRORS)
        values = tuple(_published_count(results, key) if is_published else results.value(key) for key in keys)
        if any(value is not None for value in values):
            series.append(Series(label=SETTING_LABELS[setting], values=values, origin=origin))
    if not series:
        return
    answered = (results.find(Key("accuracy", "mcq", setting, model=model)) for setting in _SETTINGS)
    size = SIZES[""] if is_published else max((number.n or 0 for number in answered if number is not None), default=0)
    yield Bars(
        id=figure_id,
        title=f"VAGUE{' Figure 4' if is_published else ''}: {model}, wrong interpretations chosen",
        categories=_READINGS,
        series=tuple(series),
        y_label=f"items of {size:,}",
        percent=False,
        notes=() if is_published else incomplete_notes(results, [""]),
    )


def _published_count(results: Results, key: Key) -> float | None:
    """Return a published count over all items, the sum over both subsets."""
    total = 0.0
    for subset, table in FULL_TABLES.items():
        count = results.value(key._replace(subset=subset), table=table)
        if count is None:
            return None
        total += count
    return total


def _action_figure(results: Results, subset: str) -> Iterator[Figure]:
    """Yield the actions that speakers ask for most; the data of the first model, because it is the same for all."""
    actions: dict[str, dict[str, float]] = {}
    for key, number in results.ours.items():
        if (key.metric, key.subset) == ("count_action", subset):
            actions.setdefault(key.model, {})[key.category] = number.value or 0.0
    if not actions:
        return
    counts = next(iter(actions.values()))
    figure_id, title = f"vague_figureb1_{subset.lower()}", f"VAGUE Figure B1: what speakers ask for most, {subset}"
    series, notes = (Series(label="Items", values=tuple(counts.values())),), incomplete_notes(results, [subset])
    names = tuple(counts)
    if len(counts) < 3:
        yield Bars(id=figure_id, title=title, categories=names, series=series, percent=False, notes=notes)
    else:
        maximum = 5.0 * math.ceil(max(counts.values()) / 5)  # five rings, each a whole number
        yield Radar(id=figure_id, title=title, axes=names, series=series, maximum=maximum, notes=notes)
