"""Tables of the UNPIE paper on its data or its metrics: 1, 2, 3, 7, 8 and 9 (arXiv 2410.01023)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pipelines.benchmarks.layout import Column, Fixed, Rows, TableDef
from pipelines.benchmarks.published import load_dataset_facts
from pipelines.benchmarks.results import Key, Results
from pipelines.benchmarks.tables import Table, TableRow
from pipelines.benchmarks.unpie.aggregate import KINDS
from pipelines.benchmarks.unpie.people.agreement import VERDICT_METRICS
from pipelines.benchmarks.unpie.results import PAIRS, TYPES, input_type

_DATA_SETS: Final = ("Multi30k", "CoMMuTE", "UNPIE")  # rows of Table 1
_FREQUENCIES: Final = ("Freq↑", "Freq↓")
_SAMPLES: Final = "100 samples"


def published_tables(results: Results) -> list[Table]:
    """Lay out the tables in the order of their numbers."""
    definitions = (
        _TABLE_2,
        _ORDERING,
        _translations("3", ("average of De/Fr/Ko",)),
        _translations("7", ("De", "Fr", "Ko")),
        _TABLE_8,
        _TABLE_9,
        _VALIDITY,
    )
    return [_size_table(results), *(definition.lay_out(results) for definition in definitions)]


def _size_table(results: Results) -> Table:
    facts = load_dataset_facts("unpie")
    generative = facts["generative"].split("; ")
    cells = {
        name: (int(facts[f"size/{name}"]), float(facts[f"ambiguous_pct/{name}"]) / 100, name in generative)
        for name in _DATA_SETS
    }
    rows = [TableRow(label=name, cells=row, origin="published") for name, row in cells.items()]
    largest = max(results.models(), key=lambda model: results.value(Key("puns", model=model)) or 0, default="")
    if (puns := results.value(Key("puns", model=largest))) is not None:
        ambiguous = results.value(Key("ambiguous", model=largest))
        rows.append(TableRow(label="UNPIE, puns of this sweep", cells=(int(puns), ambiguous, True)))
    return Table(
        id="unpie_table1",
        title="UNPIE Table 1: test sets of multimodal translation",
        label_head="Data set",
        columns=("Size", "Ambiguous", "Generative"),
        rows=tuple(rows),
        style="percent1",
        notes=(
            "Multi30k: the test set of 2017, Flickr.",
            "Of this sweep, ambiguous: the translations of both meanings differ in every language.",
        ),
    )


def _frequencies(*pairs: str) -> list[Column]:
    return [input_type, *(Key(subset=pair, category=name) for pair in pairs for name in _FREQUENCIES)]


_TABLE_2: Final = TableDef(
    id="unpie_table2",
    title="UNPIE Table 2, top: reconstruction of puns by frequency of the given meaning",
    columns=list(zip(("Type", *_FREQUENCIES * 2), _frequencies("En-De", "En-Fr"), strict=True)),
    groups=(("", 1), ("De", 2), ("Fr", 2)),
    rows=[
        Rows(keys=[Key("correct_pct", "", setting) for setting in TYPES], sources=["published"], measured=True),
        Rows(
            keys=[Key("correct_pct", "reconstruction", setting) for setting in TYPES],
            columns=_frequencies("De-En", "Fr-En"),
            measured=True,
        ),
    ],
    style="percent1",
    notes=(
        "The printed heads are En-De and En-Fr, but the values match neither Table 5 nor 6: do not compare.",
        "Ours need `freq_rank` in the data: which meaning is more common.",
    ),
)
_ORDERING: Final = TableDef(
    id="unpie_table2_ordering",
    title="UNPIE Table 2, bottom: ranking of meanings by frequency, 890 homonyms",
    columns={"Accuracy": Key("accuracy"), "Cohen's kappa": Key("cohen_kappa")},
    rows=[Fixed({"GPT4Eval": Key("", "", "lm", "Rice et al. 2019 homonyms", model="GPT4Eval")}, "published")],
    styles=("percent1", "fraction2"),
    notes=("As printed: neither GPT-4's rankings nor the 890 homonyms are part of the data.",),
)


def _translations(number: str, subsets: Sequence[str]) -> TableDef:
    """Return Table 3 or 7: plain against pun-aware translations."""
    columns = [
        (f"{subset.removeprefix('average of ')} {kind}", Key(metric, subset=subset, category=kind))
        for metric in ("win_rate", "bertscore")
        for subset in subsets
        for kind in KINDS
    ]
    return TableDef(
        id=f"unpie_table{number}",
        title=f"UNPIE Table {number}: plain and pun-aware translations",
        label_head="Translation",
        columns=columns,
        groups=(("Win rate", len(columns) // 2), ("BERTScore", len(columns) // 2)),
        rows=[Fixed({name: Key(model=name) for name in ("Plain translation", "Pun-aware translation")}, "published")],
        style="percent1",
        notes=("Statistics of the data as printed: the second plain translations behind them are not distributed.",),
    )


def _verdicts(setting: str) -> Rows:
    ours = [Key("agreement_accuracy"), Key("agreement_phi")]
    return Rows(
        keys=[Key("", "disambiguation", setting, category=metric) for metric in VERDICT_METRICS],
        columns=[*ours, None, None] if setting == "vlm" else [None, None, *ours],
        label=lambda view: f"{view.key.category}, {view.key.model}",
        measured=True,
    )


_TABLE_8: Final = TableDef(
    id="unpie_table8",
    title="UNPIE Table 8: agreement of verdicts on translations with people",
    label_head="Metric",
    columns=[
        ("Accuracy", Key("accuracy", "", "vlm", model="LLaVA")),
        ("Phi", Key("phi", "", "vlm", model="LLaVA")),
        ("Accuracy", Key("accuracy", "", "sm", model="GPT4")),
        ("Phi", Key("phi", "", "sm", model="GPT4")),
    ],
    groups=(("VLM (published: LLaVA)", 2), ("SM (published: GPT-4)", 2)),
    rows=[
        Fixed({name: Key("", "disambiguation", "", _SAMPLES, name) for name in VERDICT_METRICS}, "published"),
        _verdicts("sm"),
        _verdicts("vlm"),
    ],
    styles=("percent1", "fraction2", "percent1", "fraction2"),
    notes=(
        "Published: 100 valid outputs of each model, 32 invalid ones of LLaVA left out; phi is printed times 100.",
        "Ours: right where closer to the wanted translation; BLEU-4 of sentences, METEOR of exact words.",
        "GPTEval: the run's judge, asked about the translations that people labelled.",
    ),
)
_PRINTED_JUDGEMENTS: Final[Mapping[str, Key]] = {
    f"{pair}, {category}": Key("accuracy", "reconstruction", setting, pair, category, "GPT-4")
    for pair in PAIRS["reconstruction"]
    for setting, category in (("sm", "Multimodal"), ("lm", "Text-Only"))
}
_JUDGEMENT_METRICS: Final = ("precision", "recall", "f1", "accuracy", "pearson")
_TABLE_9: Final = TableDef(
    id="unpie_table9",
    title="UNPIE Table 9: agreement of the judge of reconstructed puns with people",
    label_head="Outputs",
    columns={name.capitalize(): Key(name) for name in _JUDGEMENT_METRICS},
    rows=[
        Fixed(_PRINTED_JUDGEMENTS, "published"),
        Rows(
            keys=[Key("", "reconstruction", setting, pair) for pair in PAIRS["reconstruction"] for setting in TYPES],
            columns=[Key(f"agreement_{name}") for name in _JUDGEMENT_METRICS],
            label=lambda view: f"{view.key.subset}, {TYPES[view.key.setting]}, {view.key.model}",
            measured=True,
        ),
    ],
    style="fraction2",
    notes=("Judgements of puns from Korean are the least reliable: 80 and 85% agree with people.",),
)


def _validity_rows() -> Iterator[tuple[str, Key]]:
    for subset in ("generated images", "natural images"):
        yield f"Pun found for a picture, {subset}", Key("image_to_pun_accuracy", subset=subset, model="Human")
    for number in (1, 2, 3):
        key = Key("naturalness_ab_accuracy", subset="generated vs natural images", model=f"Human evaluator {number}")
        yield f"Generated distinguished from natural, human evaluator {number}", key
    for model, setting in (("LLaVA", "vlm"), ("GPT4", "sm")):
        key = Key("accuracy", "disambiguation", setting, _SAMPLES, "BERTScore", model)
        yield f"BERTScore's verdict as people's, {model}", key
    yield from ((f"Judge's verdict as people's, {label}", key) for label, key in _PRINTED_JUDGEMENTS.items())


# What people judged: whether pictures and metrics are valid, which is no ceiling for the tasks.
_VALIDITY: Final = TableDef(
    id="unpie_human_validity",
    title="UNPIE: human judgements",
    label_head="Question",
    columns={"Share": Key()},
    rows=[Fixed(dict(_validity_rows()), "published")],
    style="percent1",
    notes=("They concern pictures and metrics and are no upper bound: no person solved the three tasks.",),
)
