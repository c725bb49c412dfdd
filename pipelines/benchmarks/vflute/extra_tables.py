"""V-FLUTE's tables beyond the paper's: by subset, both parsers, labels alone, and tests."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import mean, stdev
from typing import Final

from pipelines.benchmarks.results import Results, section, with_interval, with_our_rows, without_interval
from pipelines.benchmarks.tables import Table, TableCell, TableRow, TableValue
from pipelines.benchmarks.vflute.facts import GROUPS, SETTINGS, TUNED_FOR
from pipelines.benchmarks.vflute.results import (
    ModelSetting,
    our_entries,
    published_entries,
    subset_notes,
)

_PARSING: Final[Mapping[str, str]] = {
    "label_f1": "F1 of labels",
    "f1_at_0_robust": "F1@0, second",
    "f1_at_53_robust": "F1@53, second",
    "f1_at_60_robust": "F1@60, second",
    "parser_disagreement": "Readings differ",
    "none_rate": "No label",
    "empty_explanation_rate": "No explanation",
    "truncated_count": "Cut off",
    "errors": "Failed",
    "leaking_captions": "Label in caption",
}
_BY_SUBSET: Final[Mapping[str, str]] = {
    "chance_f1_at_0": "Random",
    "all_entailment_f1_at_0": "All E",
    "f1_at_0": "F1@0",
    "f1_at_53": "F1@53",
    "f1_at_60": "F1@60",
    "accuracy": "Accuracy",
    "none_rate": "No label",
    "empty_explanation_rate": "No explanation",
    "parser_disagreement": "Readings differ",
}
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


def extra_tables(results: Results) -> list[Table]:
    """Lay out the tables that have a number of ours; appendix J and the tests always."""
    tables = (_subsets_table(results), _parsing_table(results), _templates_table(results))
    return [
        *with_our_rows(tables),
        _label_only_table(results),
        _tests_table(results),
    ]


def _subsets_table(results: Results) -> Table:
    """Lay out F1, accuracy and reading by subset, a heading per model and setting."""
    rows: list[TableRow] = []
    for entry in our_entries(results):
        groups = [group for group in GROUPS if results.find(entry.key("accuracy", group)) is not None]
        cells = ([results.find(entry.key(metric, group)) for metric in _BY_SUBSET] for group in groups)
        rows += section(
            entry.label,
            [
                TableRow(label=group[0] or "Overall", cells=tuple(map(without_interval, numbers)))
                for group, numbers in zip(groups, cells, strict=True)
            ],
        )
    return Table(
        id="vflute_subsets",
        title="V-FLUTE: F1, accuracy and reading by subset",
        label_head="Subset",
        columns=tuple(_BY_SUBSET.values()),
        rows=tuple(rows),
        style="percent1",
        notes=(
            "Random: the expected F1@0 of a fair coin on these rows. All E: F1@0 of always entailment.",
            "NYCartoons has no contradiction: there a single wrong answer halves macro F1; read accuracy.",
            *subset_notes(results),
        ),
    )


def _parsing_table(results: Results) -> Table:
    rows = []
    for entry in our_entries(results):
        cells = tuple(without_interval(results.find(entry.key(metric))) for metric in _PARSING)
        rows.append(TableRow(label=entry.label, cells=cells))
    return Table(
        id="vflute_reading",
        title="V-FLUTE: parsing of answers",
        columns=tuple(_PARSING.values()),
        rows=tuple(rows),
        style="percent1",
        notes=(
            "The first parser is that of the authors' script, oddities included; all other tables use it.",
            "The second handles negation and other markers. Shares are of answered rows.",
        ),
    )


def _label_only_table(results: Results) -> Table:
    rows = []
    for model in dict.fromkeys(entry.model for entry in published_entries(results, "Appendix J")):
        keys = (ModelSetting(model, setting).key("f1_at_0") for setting in TUNED_FOR)
        values = (without_interval(results.find(key, "published")) for key in keys)
        rows.append(TableRow(label=model, cells=(*values, "< 0.1"), origin="published"))
    for entry in our_entries(results, "label-only"):
        explained = ModelSetting(entry.model, "zero-shot")
        cells = (
            without_interval(results.find(entry.key("f1_at_0"))),
            without_interval(results.find(explained.key("label_f1"))),
            _p_cell(results.find(explained.key(f"{_P}label-only"))),
        )
        rows.append(TableRow(label=entry.model, cells=cells))
    return Table(
        id="vflute_appendix_j",
        title="V-FLUTE appendix J: labels alone, and labels with explanations",
        columns=("Label only", "Label and explanation", "p"),
        rows=tuple(rows),
        style="percent2",
        notes=(
            "Macro F1 of labels. The paper fine-tunes on either; ours is one model with two prompts (zero-shot).",
            "p: one-sided test that the second has the higher F1@0.",
        ),
    )


def _tests_table(results: Results) -> Table:
    rows = [
        TableRow(label=better, cells=(worse, p, None), origin="human" if better.startswith("Human") else "published")
        for better, worse, p in _TESTS
    ]
    for entry in our_entries(results):
        for setting in SETTINGS:
            p = results.find(entry.key(f"{_P}{setting}"))
            if p is not None:
                cells = (ModelSetting(entry.model, setting).label, _p_cell(p), p.n)
                rows.append(TableRow(label=entry.label, cells=cells))
    return Table(
        id="vflute_significance",
        title="V-FLUTE: significance of differences",
        label_head="Better",
        columns=("than", "p", "Rows"),
        rows=tuple(rows),
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


def _p_cell(number: TableValue | None) -> TableCell:
    if number is None or number.value is None:
        return None if number is None else TableValue(value=None, note=number.note)
    return f"{number.value:.4f}"
