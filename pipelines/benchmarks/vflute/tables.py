"""V-FLUTE's tables in the layout of the paper (NAACL 2025, arXiv 2405.01474), ours with the published ones."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from pipelines.benchmarks.human import SAME_ITEMS, human_metric
from pipelines.benchmarks.layout import EACH_SETTING, Rows, Shown, TableDef, View
from pipelines.benchmarks.published import load_dataset_facts
from pipelines.benchmarks.results import Key, Results, without_interval
from pipelines.benchmarks.tables import Origin, Table, TableCell, TableRow, TableValue
from pipelines.benchmarks.vflute.extra_tables import extra_tables
from pipelines.benchmarks.vflute.facts import GROUPS, SETTINGS, SUBSETS, TASK
from pipelines.benchmarks.vflute.people.judgement_study import RATES, predictor_table, rates_table
from pipelines.benchmarks.vflute.results import (
    EXPLAINED,
    HUMAN,
    ModelSetting,
    entry_label,
    our_entries,
    published_entries,
    subset_notes,
)

_F1: Final = {"F1@0": Key("f1_at_0"), "F1@53": Key("f1_at_53"), "F1@60": Key("f1_at_60")}
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
    results = results.without_people()
    return [
        _sources_table(results),
        _splits_table(results),
        _TABLE_4.lay_out(results),
        *_study_tables(results),
        _human_table(results),
        _appendix_table("Table 17", "InstructBLIP-7B, zero-shot and with scene graph").lay_out(results),
        _appendix_table("Table 18", "GPT-4o, zero-shot and 5-shot").lay_out(results),
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


def _with_ends(number: TableValue | None) -> TableCell:
    if number is None or number.value is None:
        return without_interval(number)
    return TableValue(value=number.value, low=number.low, high=number.high)


def _notes(view: View) -> str:
    numbers = (view.find(key) for key in _F1.values())
    return "; ".join(dict.fromkeys(number.note for number in numbers if number is not None and number.note))


def _published_f1(table: str, heading: str = "", models: Collection[str] = ()) -> Rows:
    return Rows(
        heading,
        [Key("", TASK, EACH_SETTING)],
        sources=["published"],
        table=table,
        models=models,
        label=entry_label,
        note=_notes,
        columns=list(_F1.values()),
        show=lambda number: number and number.value,
    )


def _f1_table(name: str, title: str, rows: Sequence[Rows]) -> TableDef:
    return TableDef(
        id=f"vflute_{name.lower().replace(' ', '')}",
        title=f"V-FLUTE {name}: {title}",
        columns={head: Shown(key, _with_ends) if head == "F1@0" else key for head, key in _F1.items()},
        rows=rows,
        style="percent2",
        better="higher",
        second="block",
        notes=(
            _SCORES,
            "SG: with a scene graph of the model's own. \N{MINUS SIGN} Image: a white square in place of the picture.",
            "Ours with the 95% interval of F1@0 over pictures.",
        ),
        coverage=subset_notes,
    )


_TABLE_4: Final = _f1_table(
    "Table 4",
    "labels with explanations",
    [
        *(_published_f1("Table 4", heading, models) for heading, models in _BLOCKS.items()),
        Rows("This sweep", [Key("", TASK, setting) for setting in EXPLAINED], label=entry_label),
    ],
)


def _appendix_table(name: str, title: str) -> TableDef:
    """Return Table 17 or 18: another published model, in two settings, with ours in the same ones."""

    def is_printed(view: View) -> bool:
        return any(key.setting == view.key.setting for key in view.results.index("published", name))

    keys = [Key("", TASK, setting) for setting in SETTINGS]
    ours = Rows("This sweep, in these settings", keys, label=entry_label, where=is_printed)
    return _f1_table(name, title, [_published_f1(name), ours])


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


def _on_peoples_rows(entry: ModelSetting, metric: str, group: tuple[str, str]) -> Key:
    return entry.key(metric, (SAME_ITEMS, group[0]))


def _human_table(results: Results) -> Table:
    """Lay out Table 7: people and models by subset; of ours each model in its first setting, on people's rows too."""
    published = [entry for entry in published_entries(results, "Table 7") if entry.setting]
    ours: dict[str, ModelSetting] = {}
    for entry in our_entries(results, *EXPLAINED):
        ours.setdefault(entry.model, entry)
    on_same = [
        entry for entry in ours.values() if results.find(_on_peoples_rows(entry, "f1_at_0", GROUPS[-1])) is not None
    ]
    compared = [(entry, human_metric("f1_at_0")) for entry in on_same[:1]] + [(entry, "f1_at_0") for entry in on_same]
    rows = []
    for group in GROUPS:
        cells = [_published(results, entry, "f1_at_0", group) for entry in (HUMAN, *published)]
        numbers = [results.find(entry.key("f1_at_0", group)) for entry in ours.values()]
        cells += map(without_interval, numbers)
        cells += (without_interval(results.find(_on_peoples_rows(entry, metric, group))) for entry, metric in compared)
        measured = any(number is not None and number.value is not None for number in numbers)
        origin: Origin = "ours" if measured else "published"
        rows.append(TableRow(label=group[0] or "Overall", cells=tuple(cells), origin=origin))
    labels = (
        *(f"{entry.label} (published)" for entry in published),
        *(entry.label for entry in ours.values()),
        *(["People, own rows"] if on_same else []),
        *(f"{entry.label}, people's rows" for entry in on_same),
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
            *(["People's rows: those that the people of the files labelled; means over people."] if on_same else []),
            "NYCartoons has no contradiction: there a single wrong answer halves macro F1.",
            *subset_notes(results),
        ),
    )
