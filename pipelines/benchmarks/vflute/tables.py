"""V-FLUTE's tables in the layout of the paper (NAACL 2025, arXiv 2405.01474), ours with the published ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from pipelines.benchmarks.published import load_dataset_facts
from pipelines.benchmarks.results import Results, section, without_interval
from pipelines.benchmarks.tables import Origin, Table, TableCell, TableRow, TableValue
from pipelines.benchmarks.vflute.extra_tables import extra_tables
from pipelines.benchmarks.vflute.facts import GROUPS, SUBSETS
from pipelines.benchmarks.vflute.people.judgement_study import RATES, predictor_table, rates_table
from pipelines.benchmarks.vflute.results import (
    EXPLAINED,
    HUMAN,
    ModelSetting,
    our_entries,
    published_entries,
    subset_notes,
)

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


def make_tables(results: Results) -> list[Table]:
    """Lay out the paper's tables, then those that the paper does not have."""
    return [
        _sources_table(results),
        _splits_table(results),
        _f1_table_4(results),
        *_study_tables(results),
        _human_table(results),
        _appendix_table(results, "Table 17", "InstructBLIP"),
        _appendix_table(results, "Table 18", "GPT-4o"),
        *extra_tables(results),
    ]


def _sources_table(results: Results) -> Table:
    rows = []
    for subset in SUBSETS:
        entailment, size = _gold_counts(results, subset.name)
        facts = (subset.category, subset.source, subset.style, subset.figurative)
        printed = _printed_sizes(("instances", "entailment", "contradiction"), subset.name)
        ours: tuple[TableCell, ...] = (None, None) if entailment is None else (entailment, size - entailment)
        rows.append(TableRow(label=subset.name, cells=(*facts, *printed, *ours), origin="published", baseline=True))
    return Table(
        id="vflute_table1",
        title="V-FLUTE Table 1: sources of the items",
        label_head="Subset",
        columns=("Phenomenon", "Source", "Style", "Figurative part", "Items", "E", "C", "E here", "C here"),
        rows=tuple(rows),
        notes=("E entailment, C contradiction; `here` counts the test rows of this report.",),
    )


def _splits_table(results: Results) -> Table:
    rows = []
    for name in (*(subset.name for subset in SUBSETS), "Total"):
        entailment, size = _gold_counts(results, "" if name == "Total" else name)
        cells = (*_printed_sizes(("train", "valid", "test"), name), None if entailment is None else size)
        rows.append(TableRow(label=name, cells=cells, origin="published", baseline=True))
    return Table(
        id="vflute_table3",
        title="V-FLUTE Table 3: sizes of the splits",
        label_head="Subset",
        columns=("Train", "Validation", "Test", "Test, here"),
        rows=tuple(rows),
    )


def _printed_sizes(kinds: Sequence[str], name: str) -> tuple[int, ...]:
    """Return sizes of a subset as the paper prints them; what it leaves out is 0."""
    facts = load_dataset_facts("vflute")
    return tuple(int(facts[f"{kind}/{name}"] or 0) for kind in kinds)


def _gold_counts(results: Results, subset: str) -> tuple[int | None, int]:
    """Return entailment rows and all rows of a subset, of our model and setting with most of them."""
    group = next(group for group in GROUPS if group[0] == subset)
    numbers = (results.find(entry.key("gold_entailment", group)) for entry in our_entries(results))
    largest = max((number for number in numbers if number is not None), key=lambda number: number.n or 0, default=None)
    return (None, 0) if largest is None else (int(largest.value or 0), largest.n or 0)


def _f1_table_4(results: Results) -> Table:
    published = published_entries(results, "Table 4")
    rows: list[TableRow] = []
    for heading, models in _BLOCKS.items():
        block = [_published_f1_row(results, entry) for entry in published if entry.model in models]
        rows += section(heading, block) if heading else block
    rows += section("This sweep", (_our_f1_row(results, entry) for entry in our_entries(results, *EXPLAINED)))
    return _f1_table(results, "vflute_table4", "V-FLUTE Table 4: labels with explanations", rows)


def _appendix_table(results: Results, name: str, model: str) -> Table:
    """Lay out Table 17 or 18: another published model, in two settings, with ours in the same ones."""
    published = published_entries(results, name)
    rows = [_published_f1_row(results, entry) for entry in published]
    settings = {entry.setting for entry in published}
    rows += [_our_f1_row(results, entry) for entry in our_entries(results) if entry.setting in settings]
    return _f1_table(results, f"vflute_{name.lower().replace(' ', '')}", f"V-FLUTE {name}: {model}", rows)


def _f1_table(results: Results, table: str, title: str, rows: list[TableRow]) -> Table:
    notes = subset_notes(results)
    return Table(
        id=table,
        title=title,
        columns=tuple(_F1.values()),
        rows=tuple(rows),
        style="percent2",
        better=tuple("higher" for _ in _F1) if not notes else (),
        best_of="table",
        second="" if notes else "block",
        notes=(
            _SCORES,
            "SG: with a scene graph of the model's own. \N{MINUS SIGN} Image: a white square in place of the picture.",
            "Ours with the 95% interval of F1@0, from resampling pictures.",
            *notes,
        ),
    )


def _published_f1_row(results: Results, entry: ModelSetting) -> TableRow:
    numbers = [results.find(entry.key(metric), "published") for metric in _F1]
    notes = dict.fromkeys(number.note for number in numbers if number is not None and number.note)
    cells = tuple(None if number is None else number.value for number in numbers)
    return TableRow(label=entry.label, cells=cells, origin="published", note="; ".join(notes))


def _our_f1_row(results: Results, entry: ModelSetting) -> TableRow:
    at_0, *numbers = [results.find(entry.key(metric)) for metric in _F1]
    first = without_interval(at_0)
    if at_0 is not None and at_0.value is not None:
        first = TableValue(value=at_0.value, low=at_0.low, high=at_0.high)
    return TableRow(label=entry.label, cells=(first, *map(without_interval, numbers)))


def _study_tables(results: Results) -> list[Table]:
    """Lay out Table 6 and section 5.3 as printed."""
    systems = published_entries(results, "Table 6")
    rates = tuple(
        TableRow(
            label=head,
            cells=tuple(_published(results, system, metric, _JUDGED_ITEMS) for system in systems),
            origin="published",
        )
        for metric, head in RATES.items()
    )
    kappa = results.value(HUMAN.key("cohen_kappa", _JUDGED_ITEMS), "published")
    notes = () if kappa is None else (f"Cohen's kappa of the two annotators: {kappa:.2f}.",)
    score = ModelSetting("ExplanationScore", "")
    cells = tuple(_published(results, score, metric, _JUDGEMENTS) for metric in _PREDICTOR)
    return [
        rates_table(tuple(system.label for system in systems), rates, notes),
        predictor_table(TableRow(label="Published", cells=cells, origin="published")),
    ]


def _published(results: Results, entry: ModelSetting, metric: str, group: tuple[str, str]) -> TableCell:
    return without_interval(results.find(entry.key(metric, group), "published"))


def _human_table(results: Results) -> Table:
    """Lay out Table 7: people and models by subset; of ours each model in its first setting."""
    published = [entry for entry in published_entries(results, "Table 7") if entry.setting]
    ours: dict[str, ModelSetting] = {}
    for entry in our_entries(results, *EXPLAINED):
        ours.setdefault(entry.model, entry)
    rows = []
    for group in GROUPS:
        cells = [_published(results, entry, "f1_at_0", group) for entry in (HUMAN, *published)]
        numbers = [results.find(entry.key("f1_at_0", group)) for entry in ours.values()]
        cells += map(without_interval, numbers)
        measured = any(number is not None and number.value is not None for number in numbers)
        origin: Origin = "ours" if measured else "published"
        rows.append(TableRow(label=group[0] or "Overall", cells=tuple(cells), origin=origin))
    labels = (
        *(f"{entry.label} (published)" for entry in published),
        *(entry.label for entry in ours.values()),
    )
    return Table(
        id="vflute_table7",
        title="V-FLUTE Table 7: F1@0 of people and models",
        label_head="Subset",
        columns=("Human (published)", *labels),
        rows=tuple(rows),
        style="percent2",
        notes=(
            "The published columns are of 99 test rows whose ids are not known; ours are of all rows here.",
            "NYCartoons has no contradiction: there a single wrong answer halves macro F1.",
            *subset_notes(results),
        ),
    )
