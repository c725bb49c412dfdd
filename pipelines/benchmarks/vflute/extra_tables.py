"""V-FLUTE's tables beyond the paper's: by subset, both parsers, labels alone, and tests."""

from __future__ import annotations

import re
from collections.abc import Iterator
from statistics import mean, stdev
from typing import Final

from pipelines.benchmarks.layout import Rows, Shown, TableDef
from pipelines.benchmarks.results import Key, Results, section, with_interval, with_our_rows
from pipelines.benchmarks.tables import Origin, Table, TableCell, TableRow, TableValue
from pipelines.benchmarks.vflute.facts import GROUPS, SETTINGS, TASK, TUNED_FOR
from pipelines.benchmarks.vflute.results import ModelSetting, entry_label, our_entries, subset_notes

_BY_TEMPLATE: Final = ("accuracy_by_template", "f1_at_0_by_template")
_TESTS: Final = (
    ("LLaVA-7B-eViL+VF", "GPT-4, 5-shot", "< 0.03"),
    ("LLaVA-7B-VF", "LLaVA-7B-VF \N{MINUS SIGN} Image", "< 0.002"),
    ("Human, annotator 1", "LLaVA-7B-eViL+VF", "< 0.05"),
    ("Human, annotator 2", "LLaVA-7B-eViL+VF", "< 0.07"),
    ("Labels and explanations", "Labels only", "< 0.1"),
)
"""Better, worse, and p as printed."""
_P: Final = "p_better_than_"
_PERSON: Final = re.compile(r"p_(?P<person>.+)_is_better")


def extra_tables(results: Results) -> list[Table]:
    """Lay out the tables that have a number of ours; appendix J and the tests always."""
    laid_out = [_BY_SUBSET.lay_out(results), _PARSING.lay_out(results), _templates_table(results)]
    return [*with_our_rows(laid_out), _LABEL_ONLY.lay_out(results), _tests_table(results)]


def _p_cell(number: TableValue | None) -> TableCell:
    if number is None or number.value is None:
        return number and TableValue(value=None, note=number.note)
    return f"{number.value:.4f}"


_ALL_SETTINGS: Final = [Key("", TASK, setting) for setting in SETTINGS]
# F1, accuracy and reading by subset, a heading per model and setting.
_BY_SUBSET: Final = TableDef(
    id="vflute_subsets",
    title="V-FLUTE: F1, accuracy and reading by subset",
    label_head="Subset",
    columns={
        "Random": Key("chance_f1_at_0"),
        "All E": Key("all_entailment_f1_at_0"),
        "F1@0": Key("f1_at_0"),
        "F1@53": Key("f1_at_53"),
        "F1@60": Key("f1_at_60"),
        "Accuracy": Key("accuracy"),
        "No label": Key("none_rate"),
        "No explanation": Key("empty_explanation_rate"),
        "Readings differ": Key("parser_disagreement"),
    },
    rows=[
        Rows(
            keys=_ALL_SETTINGS,
            label=entry_label,
            parts={subset or "Overall": Key(subset=subset, category=category) for subset, category in GROUPS},
        )
    ],
    style="percent1",
    notes=(
        "Random: the expected F1@0 of a fair coin on these rows. All E: F1@0 of always entailment.",
        "NYCartoons has no contradiction: there a single wrong answer halves macro F1; read accuracy.",
    ),
    coverage=subset_notes,
)
_PARSING: Final = TableDef(
    id="vflute_reading",
    title="V-FLUTE: parsing of answers",
    columns={
        "F1 of labels": Key("label_f1"),
        "F1@0, second": Key("f1_at_0_robust"),
        "F1@53, second": Key("f1_at_53_robust"),
        "F1@60, second": Key("f1_at_60_robust"),
        "Readings differ": Key("parser_disagreement"),
        "No label": Key("none_rate"),
        "No explanation": Key("empty_explanation_rate"),
        "Cut off": Key("truncated_count"),
        "Failed": Key("errors"),
        "Label in caption": Key("leaking_captions"),
    },
    rows=[Rows(keys=_ALL_SETTINGS, label=entry_label)],
    style="percent1",
    notes=(
        "The first parser is that of the authors' script, oddities included; all other tables use it.",
        "The second handles negation and other markers. Shares are of answered rows.",
    ),
)
_LABEL_ONLY: Final = TableDef(
    id="vflute_appendix_j",
    title="V-FLUTE appendix J: labels alone, and labels with explanations",
    columns={
        "Label only": Key("f1_at_0", setting="label-only"),
        "Label and explanation": Key("label_f1", setting="zero-shot"),
        "p": Shown(Key(f"{_P}label-only", setting="zero-shot"), _p_cell),
    },
    rows=[
        Rows(
            keys=[Key("f1_at_0", TASK)],
            sources=["published"],
            table="Appendix J",
            columns=[*(Key(setting=setting) for setting in TUNED_FOR), lambda _view: "< 0.1"],
        ),
        Rows(keys=[Key("", TASK)], where=lambda view: view.find(Key("f1_at_0", setting="label-only")) is not None),
    ],
    style="percent2",
    notes=(
        "Macro F1 of labels. The paper fine-tunes on either; ours is one model with two prompts (zero-shot).",
        "p: one-sided test that the second has the higher F1@0.",
    ),
)


def _tests(results: Results) -> Iterator[TableRow]:
    for better, worse, p in _TESTS:
        origin: Origin = "human" if better.startswith("Human") else "published"
        yield TableRow(label=better, cells=(worse, p, None), origin=origin)
    for entry in our_entries(results):
        for setting in SETTINGS:
            number = results.find(entry.key(f"{_P}{setting}"))
            if number is not None:
                cells = (ModelSetting(entry.model, setting).label, _p_cell(number), number.n)
                yield TableRow(label=entry.label, cells=cells)
    for key, number in results.ours.items():
        if person := _PERSON.fullmatch(key.metric):
            cells = (ModelSetting(key.model, key.setting).label, _p_cell(number), number.n)
            yield TableRow(label=f"Person {person['person']}", cells=cells, origin="human")


def _tests_table(results: Results) -> Table:
    return Table(
        id="vflute_significance",
        title="V-FLUTE: significance of differences",
        label_head="Better",
        columns=("than", "p", "Rows"),
        rows=tuple(_tests(results)),
        notes=("One-sided p of the paired bootstrap over rows, 10,000 resamples, of F1@0.",),
    )


def _templates_table(results: Results) -> Table:
    """Lay out accuracy and F1@0 by the instruction of the rows, with mean and spread over the instructions."""
    names = sorted({key.category for key in results.ours if key.metric in _BY_TEMPLATE})
    rows: list[TableRow] = []
    for entry in our_entries(results):
        measured = [(name, [results.find(entry.key(metric, ("", name))) for metric in _BY_TEMPLATE]) for name in names]
        block = [
            TableRow(label=name, cells=(numbers[0].n, *map(with_interval, numbers)))
            for name, numbers in measured
            if numbers[0] is not None
        ]
        columns = [
            [number.value for _, numbers in measured if (number := numbers[i])] for i in range(len(_BY_TEMPLATE))
        ]
        for label, statistic in (("Mean", mean), ("Standard deviation", stdev)):
            values = [column if None not in column and len(column) > 1 else [] for column in columns]
            cells = (statistic([value or 0.0 for value in column]) if column else None for column in values)
            block.append(TableRow(label=label, cells=(None, *cells)))
        rows += section(entry.label, block) if len(block) > 2 else []
    return Table(
        id="vflute_templates",
        title="V-FLUTE: results by instruction",
        label_head="Instruction",
        columns=("Rows", "Accuracy of labels", "F1@0"),
        rows=tuple(rows),
        style="percent1",
        notes=(
            "Percent; in brackets the 95% interval. The data assign an instruction to each row, so rows differ too.",
            "With `--prompt-version` all rows may be asked in other words; shown is the instruction of the data.",
            "Templates are numbered as in the paper's Table 8; another instruction is quoted.",
        ),
    )
