"""V-FLUTE's tables and figures in the paper's layout, ours beside the published ones.

Tables 1, 3, 4, 6, 7, 17 and 18, appendix J, figures 6, 8, 9 and 11 of Saakyan et al., NAACL 2025, arXiv 2405.01474.
Tables that the paper does not have are in `vflute_own_tables`; those of people's judgements in `vflute_study`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pipelines.benchmarks.results import Results as ReportResults
from pipelines.benchmarks.results import to_frames
from pipelines.benchmarks.tables import Table, TableCell, TableRow, TableValue
from pipelines.benchmarks.vflute.extra_tables import own_tables
from pipelines.benchmarks.vflute.facts import GROUPS, SPLITS, SUBSETS
from pipelines.benchmarks.vflute.judgement_study import RATES, predictor_table, rates_table
from pipelines.benchmarks.vflute.results import EXPLAINED, Origin, Results, Who, without_interval

_F1: Final = {"f1_at_0": "F1@0", "f1_at_53": "F1@53", "f1_at_60": "F1@60"}
_JUDGED_ITEMS: Final = ("95 test instances", "")
_JUDGEMENTS: Final = ("adequacy judgements", "")
_PREDICTOR: Final = ("pr_auc", "average_precision", "max_f1", "threshold_at_max_f1", "threshold_balanced")
_SCORES: Final = "F1@k counts an answer as right only where its explanation scores above k; percent."
_BLOCKS: Final[Mapping[str, tuple[str, ...]]] = {
    "": ("Random",),
    "Fine-tuned": ("LLaVA-7B-VF", "LLaVA-7B-eViL", "LLaVA-7B-eViL+VF"),
    "Open, off the shelf": ("LLaVA-ZS-7B", "LLaVA-ZS-34B"),
    "API": ("Gemini-1.5-Pro", "Claude-3 Opus", "GPT-4"),
}


def make_tables(results: ReportResults) -> list[Table]:
    """The paper's tables, then ours."""
    book = Results.of(*to_frames(results))
    return [
        _table1(book),
        _table3(book),
        _table4(book),
        *_study(book),
        _table7(book),
        _appendix(book, "Table 17", "InstructBLIP"),
        _appendix(book, "Table 18", "GPT-4o"),
        *own_tables(book),
    ]


def _table1(book: Results) -> Table:
    rows = []
    for one in SUBSETS:
        entails, here = _gold(book, one.name)
        facts: tuple[TableCell, ...] = (one.category, one.source, one.style, one.figurative, *one.instances)
        ours: tuple[TableCell, ...] = (None, None) if entails is None else (entails, here - entails)
        rows.append(TableRow(label=one.name, cells=(*facts, *ours), origin="reference"))
    return Table(
        id="vflute_table1",
        title="V-FLUTE Table 1: where the items come from",
        label_head="Subset",
        columns=("Phenomenon", "Source", "Style", "Figurative part", "Items", "E", "C", "E here", "C here"),
        rows=tuple(rows),
        notes=("E entailment, C contradiction; `here` counts the test rows of this report.",),
    )


def _table3(book: Results) -> Table:
    rows = []
    for name, splits in (*((one.name, one.splits) for one in SUBSETS), ("Total", SPLITS)):
        found, here = _gold(book, "" if name == "Total" else name)
        rows.append(TableRow(label=name, cells=(*splits, None if found is None else here), origin="reference"))
    return Table(
        id="vflute_table3",
        title="V-FLUTE Table 3: sizes of the splits",
        label_head="Subset",
        columns=("Train", "Validation", "Test", "Test, here"),
        rows=tuple(rows),
    )


def _gold(book: Results, subset: str) -> tuple[int | None, int]:
    """Entailment rows and all rows of a subset, in the cell of ours that has most of them."""
    group = next(group for group in GROUPS if group[0] == subset)
    found = [book.find("ours", who, "gold_entailment", group) for who in book.ours]
    most = max((one for one in found if one is not None), key=lambda one: one.n or 0, default=None)
    return (None, 0) if most is None else (int(most.value or 0), most.n or 0)


def _table4(book: Results) -> Table:
    published = book.tables.get("Table 4", ())
    rows: list[TableRow] = []
    for heading, models in _BLOCKS.items():
        block = [_f1_row(book, "published", who) for who in published if who.model in models]
        rows += [TableRow(label=heading, origin="heading")] if heading and block else []
        rows += block
    ours = [_f1_row(book, "ours", who) for who in book.in_settings(*EXPLAINED)]
    rows += [TableRow(label="This sweep", origin="heading"), *ours] if ours else []
    return _f1_table(book, "vflute_table4", "V-FLUTE Table 4: labels with explanations", rows)


def _appendix(book: Results, name: str, who: str) -> Table:
    """Table 17 or 18: one more published model, in two settings, with ours in the same ones."""
    published = book.tables.get(name, ())
    settings = tuple(dict.fromkeys(one.setting for one in published))
    rows = [_f1_row(book, "published", one) for one in published]
    rows += [_f1_row(book, "ours", one) for one in book.in_settings(*settings)]
    return _f1_table(book, f"vflute_{name.lower().replace(' ', '')}", f"V-FLUTE {name}: {who}", rows)


def _f1_table(book: Results, table: str, title: str, rows: list[TableRow]) -> Table:
    comparable = not book.subset_notes()
    return Table(
        id=table,
        title=title,
        columns=tuple(_F1.values()),
        rows=tuple(rows),
        style="percent2",
        better=tuple("higher" for _ in _F1) if comparable else (),
        best_of="table",
        second="block" if comparable else "",
        notes=(
            _SCORES,
            "SG: with a scene graph of the model's own. \N{MINUS SIGN} Image: a white square for the picture.",
            "Ours with the 95% interval of F1@0, from resampling pictures.",
            *book.subset_notes(),
        ),
    )


def _f1_row(book: Results, origin: Origin, who: Who) -> TableRow:
    found = [book.find(origin, who, metric) for metric in _F1]
    first = found[0]
    cells: list[TableCell] = [without_interval(number) for number in found]
    if origin == "published":
        notes = dict.fromkeys(one.note for one in found if one is not None and one.note)
        cells = [None if number is None else number.value for number in found]
        return TableRow(label=who.label, cells=tuple(cells), origin="published", note="; ".join(notes))
    if first is not None and first.value is not None:
        cells[0] = TableValue(value=first.value, low=first.low, high=first.high)
    return TableRow(label=who.label, cells=tuple(cells))


def _study(book: Results) -> list[Table]:
    """Build Table 6 and section 5.3 as printed."""
    systems = book.tables.get("Table 6", ())
    rates = tuple(
        TableRow(
            label=head,
            cells=tuple(without_interval(book.find("published", who, metric, _JUDGED_ITEMS)) for who in systems),
            origin="published",
        )
        for metric, head in RATES.items()
    )
    kappa = book.find("published", Who("Human", ""), "cohen_kappa", _JUDGED_ITEMS)
    notes = (
        () if kappa is None or kappa.value is None else (f"Cohen's kappa of the two annotators: {kappa.value:.2f}.",)
    )
    cells = (book.find("published", Who("ExplanationScore", ""), metric, _JUDGEMENTS) for metric in _PREDICTOR)
    row = TableRow(label="Published", cells=tuple(without_interval(cell) for cell in cells), origin="published")
    return [rates_table(tuple(who.label for who in systems), rates, notes), predictor_table(row)]


def _table7(book: Results) -> Table:
    """By subset, people beside models; of ours each model in the first setting that it was asked in."""
    published = [who for who in book.tables.get("Table 7", ()) if who.setting]
    ours = list({who.model: who for who in reversed(book.in_settings(*EXPLAINED))}.values())[::-1]
    rows = []
    for group in GROUPS:
        human = book.find("published", Who("Human", ""), "f1_at_0", group)
        cells: list[TableCell] = [without_interval(human)]
        cells += [without_interval(book.find("published", who, "f1_at_0", group)) for who in published]
        cells += [without_interval(book.find("ours", who, "f1_at_0", group)) for who in ours]
        rows.append(TableRow(label=group[0] or "Overall", cells=tuple(cells), origin="ours" if ours else "published"))
    named = (*(f"{who.label} (published)" for who in published), *(who.label for who in ours))
    return Table(
        id="vflute_table7",
        title="V-FLUTE Table 7: F1@0 of people and models",
        label_head="Subset",
        columns=("Human (published)", *named),
        rows=tuple(rows),
        style="percent2",
        notes=(
            "The published columns are of 99 test rows whose ids are not known; ours are of all rows here.",
            "NYCartoons has no contradiction: there a single wrong answer halves macro F1.",
            *book.subset_notes(),
        ),
    )
