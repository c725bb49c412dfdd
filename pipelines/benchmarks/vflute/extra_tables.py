"""Tables of V-FLUTE that the paper does not have as such: people and chance beside ours, both readings, tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pipelines.benchmarks.tables import Table, TableCell, TableRow, TableValue
from pipelines.benchmarks.vflute.facts import GROUPS, SETTINGS
from pipelines.benchmarks.vflute.results import Results, Who, without_interval

_READING: Final[Mapping[str, str]] = {
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
_TESTS: Final = (
    ("LLaVA-7B-eViL+VF", "GPT-4, 5-shot", "< 0.03"),
    ("LLaVA-7B-VF", "LLaVA-7B-VF \N{MINUS SIGN} Image", "< 0.002"),
    ("Human, annotator 1", "LLaVA-7B-eViL+VF", "< 0.05"),
    ("Human, annotator 2", "LLaVA-7B-eViL+VF", "< 0.07"),
    ("Labels and explanations", "Labels only", "< 0.1"),
)
"""Better, worse, and p as printed."""
_P: Final = "p_better_than_"


def own_tables(book: Results) -> list[Table]:
    """Those tables for which there is any number of ours; the tests and appendix J always."""
    tables = (_human(book), _reading(book))
    return [
        *(table for table in tables if any(row.origin == "ours" for row in table.rows)),
        _appendix_j(book),
        _significance(book),
    ]


def _human(book: Results) -> Table:
    """Ours by subset beside chance, people and the best published model."""
    rows: list[TableRow] = []
    names: dict[str, str] = {}
    for who in book.ours:
        rows.append(TableRow(label=who.label, origin="heading"))
        for group in GROUPS:
            if book.find("ours", who, "accuracy", group) is not None:
                best = book.best_published(group)
                names |= {group[0] or "Overall": best[0]} if best else {}
                rows.append(_beside(book, who, group, best[1] if best else None))
    return Table(
        id="vflute_human",
        title="V-FLUTE: ours beside chance, people and the best published model (approximate)",
        label_head="Subset",
        columns=(
            *("Random", "All E", "Human", "Best model", "F1@0", "F1@53", "F1@60"),
            *("Accuracy", "No label", "Empty", "Readings differ", "Gap", "Same rows"),
        ),
        groups=(("F1@0 of others", 4), ("Ours", 7), ("To human", 2)),
        rows=tuple(rows),
        style="percent1",
        notes=(
            *(
                []
                if book.annotators
                else ["Approximate: which rows the people saw is not known, so theirs are not ours."]
            ),
            "Gap: ours minus human, in points of F1@0, with the interval of ours alone.",
            "Random: what a fair coin has in the mean on these rows. All E: always entailment. Empty: no explanation.",
            *([f"Best published model: {', '.join(f'{k} {v}' for k, v in names.items())}."] if names else []),
            "NYCartoons has no contradiction: there a single wrong answer halves macro F1; read accuracy.",
            *book.subset_notes(),
        ),
    )


def _beside(book: Results, who: Who, group: tuple[str, str], best: float | None) -> TableRow:
    def ours(metric: str) -> TableValue | None:
        return book.find("ours", who, metric, group)

    human, first = book.human(group), ours("f1_at_0")
    same = bool(book.annotators and human and first and human.n and human.n == first.n)
    gap: TableCell = None
    if human is not None and human.value is not None and first is not None and first.value is not None:
        low, high = (None if end is None else end - human.value for end in (first.low, first.high))
        gap = TableValue(value=first.value - human.value, low=low, high=high)
    names = ("f1_at_0", "f1_at_53", "f1_at_60", "accuracy", "none_rate", "empty_explanation_rate")
    return TableRow(
        label=group[0] or "Overall",
        cells=(
            without_interval(ours("chance_f1_at_0")),
            without_interval(ours("all_entailment_f1_at_0")),
            None if human is None else human.value,
            best,
            *(without_interval(ours(name)) for name in names),
            without_interval(ours("parser_disagreement")),
            gap,
            "yes" if same else "no",
        ),
    )


def _reading(book: Results) -> Table:
    rows = []
    for who in book.ours:
        found = [book.find("ours", who, metric) for metric in _READING]
        rows.append(TableRow(label=who.label, cells=tuple(without_interval(number) for number in found)))
    return Table(
        id="vflute_reading",
        title="V-FLUTE: how answers were read",
        columns=tuple(_READING.values()),
        rows=tuple(rows),
        style="percent1",
        notes=(
            "The first reading is that of the authors' script, oddities included, and stands in all other tables.",
            "The second knows negation and other markers. Shares are of answered rows.",
        ),
    )


def _appendix_j(book: Results) -> Table:
    pairs = {who.model: who for who in book.in_settings("label-only")}
    published = {who.model: who for who in book.tables.get("Appendix J", ())}
    rows = []
    for model in published:
        both = (book.find("published", Who(model, setting), "f1_at_0") for setting in ("label-only", "zero-shot"))
        rows.append(
            TableRow(label=model, cells=(*(without_interval(one) for one in both), "< 0.1"), origin="published")
        )
    for model, who in pairs.items():
        explained = Who(model, "zero-shot")
        rows.append(
            TableRow(
                label=model,
                cells=(
                    without_interval(book.find("ours", who, "f1_at_0")),
                    without_interval(book.find("ours", explained, "label_f1")),
                    _p_cell(book.find("ours", explained, f"{_P}label-only")),
                ),
            )
        )
    return Table(
        id="vflute_appendix_j",
        title="V-FLUTE appendix J: labels alone, and labels with explanations",
        columns=("Label only", "Label and explanation", "p"),
        rows=tuple(rows),
        style="percent2",
        notes=(
            "Macro F1 of labels. The paper fine-tunes on either; ours are one model asked in two ways (zero-shot).",
            "p: one-sided, of F1@0, that the second is better.",
        ),
    )


def _significance(book: Results) -> Table:
    rows = [TableRow(label=better, cells=(worse, p, None), origin="published") for better, worse, p in _TESTS]
    for who in book.ours:
        for other in SETTINGS:
            number = book.find("ours", who, f"{_P}{other}")
            if number is not None:
                cells = (Who(who.model, other).label, _p_cell(number), number.n)
                rows.append(TableRow(label=who.label, cells=cells))
    return Table(
        id="vflute_significance",
        title="V-FLUTE: which differences are more than chance",
        label_head="Better",
        columns=("than", "p", "Rows"),
        rows=tuple(rows),
        notes=("One-sided p of the paired bootstrap over rows, 10,000 resamples, of F1@0.",),
    )


def _p_cell(number: TableValue | None) -> TableCell:
    if number is None or number.value is None:
        return None if number is None else TableValue(value=None, note=number.note)
    return f"{number.value:.4f}"
