"""Tables of the UNPIE paper on its data or its metrics: 1, 2, 3, 7, 8 and 9 (arXiv 2410.01023)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Final

from pipelines.benchmarks.published import load_dataset_facts
from pipelines.benchmarks.results import Key, Source, without_interval
from pipelines.benchmarks.tables import Table, TableCell, TableRow
from pipelines.benchmarks.unpie.aggregate import KINDS
from pipelines.benchmarks.unpie.people.agreement import AGREEMENT, VERDICT_METRICS
from pipelines.benchmarks.unpie.results import PAIRS, TYPES, UnpieResults

_DATA_SETS: Final = ("Multi30k", "CoMMuTE", "UNPIE")  # rows of Table 1
_FREQUENCIES: Final = ("Freq↑", "Freq↓")
_HUMAN_SAMPLES: Final = "100 samples"
_DATA_NOTE: Final = "Statistics of the data as printed: the second plain translations behind them are not distributed."


def published_tables(unpie: UnpieResults) -> list[Table]:
    """Lay out the tables in the order of their numbers."""
    return [
        _size_table(),
        _frequency_table(unpie),
        _ordering_table(unpie),
        _translation_table(unpie, "3", ("average of De/Fr/Ko",)),
        _translation_table(unpie, "7", ("De", "Fr", "Ko")),
        _metric_agreement_table(unpie),
        _judge_agreement_table(unpie),
        _validity_table(unpie),
    ]


def _size_table() -> Table:
    facts = load_dataset_facts("unpie")
    rows = [
        TableRow(
            label=name,
            cells=(
                int(facts[f"size/{name}"]),
                float(facts[f"ambiguous_pct/{name}"]) / 100,
                name in facts["generative"].split("; "),
            ),
            origin="published",
        )
        for name in _DATA_SETS
    ]
    return Table(
        id="unpie_table1",
        title="UNPIE Table 1: test sets of multimodal translation",
        label_head="Data set",
        columns=("Size", "Ambiguous", "Generative"),
        rows=tuple(rows),
        style="percent1",
        notes=("Multi30k: the test set of 2017, Flickr.",),
    )


def _frequency_table(unpie: UnpieResults) -> Table:
    rows: list[TableRow] = []
    sources: tuple[Source, ...] = ("published", "ours")
    for source in sources:
        task, pairs = ("", ("En-De", "En-Fr")) if source == "published" else ("reconstruction", ("De-En", "Fr-En"))
        for setting, label in TYPES.items():
            keys = [Key("correct_pct", task, setting, pair, category) for pair in pairs for category in _FREQUENCIES]
            for model in unpie.results.models_with(keys, source):
                cells = (label, *_cells(unpie, keys, model, source))
                rows.append(TableRow(label=model, cells=cells, origin=source))
    return Table(
        id="unpie_table2",
        title="UNPIE Table 2, top: reconstruction of puns by frequency of the given meaning",
        columns=("Type", *_FREQUENCIES * 2),
        groups=(("", 1), ("De", 2), ("Fr", 2)),
        rows=tuple(rows),
        style="percent1",
        notes=(
            "The printed heads are En-De and En-Fr, but the values match neither Table 5 nor 6: do not compare.",
            "Ours need `freq_rank` in the data: which meaning is more common.",
        ),
    )


def _ordering_table(unpie: UnpieResults) -> Table:
    keys = [Key(metric, "", "lm", "Rice et al. 2019 homonyms") for metric in ("accuracy", "cohen_kappa")]
    return Table(
        id="unpie_table2_ordering",
        title="UNPIE Table 2, bottom: ranking of meanings by frequency, 890 homonyms",
        columns=("Accuracy", "Cohen's kappa"),
        rows=(_published_row(unpie, "GPT4Eval", "GPT4Eval", keys),),
        styles=("percent1", "fraction2"),
    )


def _translation_table(unpie: UnpieResults, number: str, subsets: Sequence[str]) -> Table:
    """Lay out Tables 3 and 7: plain against pun-aware translations."""
    metrics = ("win_rate", "bertscore")
    keys = [Key(metric, subset=subset, category=kind) for metric in metrics for subset in subsets for kind in KINDS]
    heads = [f"{subset.removeprefix('average of ')} {kind}" for subset in subsets for kind in KINDS]
    return Table(
        id=f"unpie_table{number}",
        title=f"UNPIE Table {number}: plain and pun-aware translations",
        label_head="Translation",
        columns=(*heads, *heads),
        groups=(("Win rate", len(heads)), ("BERTScore", len(heads))),
        rows=tuple(
            TableRow(label=model, cells=tuple(_cells(unpie, keys, model, "published")), origin="published")
            for model in ("Plain translation", "Pun-aware translation")
        ),
        style="percent1",
        notes=(_DATA_NOTE,),
    )


def _metric_agreement_table(unpie: UnpieResults) -> Table:
    """Lay out Table 8: verdicts of metrics on translations, against people's."""
    rows: list[TableRow] = []
    for metric in VERDICT_METRICS:
        keys = [
            Key(name, "disambiguation", setting, _HUMAN_SAMPLES, metric, model)
            for model, setting in (("LLaVA", "vlm"), ("GPT4", "sm"))
            for name in ("accuracy", "phi")
        ]
        cells = tuple(unpie.value(key, "published") for key in keys)
        rows.append(TableRow(label=metric, cells=cells, origin="published"))
    for setting, metric in product(("sm", "vlm"), VERDICT_METRICS):
        keys = [Key(f"agreement_{name}", "disambiguation", setting, category=metric) for name in ("accuracy", "phi")]
        for model in unpie.results.models_with(keys):
            ours = _cells(unpie, keys, model)
            cells_of = (*ours, None, None) if setting == "vlm" else (None, None, *ours)
            rows.append(TableRow(label=f"{metric}, {model}", cells=cells_of))
    return Table(
        id="unpie_table8",
        title="UNPIE Table 8: agreement of verdicts on translations with people",
        label_head="Metric",
        columns=("Accuracy", "Phi", "Accuracy", "Phi"),
        groups=(("VLM (published: LLaVA)", 2), ("SM (published: GPT-4)", 2)),
        rows=tuple(rows),
        styles=("percent1", "fraction2", "percent1", "fraction2"),
        notes=(
            "Published: 100 valid outputs of each model, 32 invalid ones of LLaVA left out; phi is printed times 100.",
            "Ours: right where closer to the wanted translation; BLEU-4 of sentences, METEOR of exact words.",
            "GPTEval: the run's judge, asked about the translations that people labelled.",
        ),
    )


def _judge_agreement_table(unpie: UnpieResults) -> Table:
    """Lay out Table 9: the judge against people."""
    names = ("precision", "recall", "f1", "accuracy", "pearson")
    rows = [
        _published_row(
            unpie,
            f"{pair}, {category}",
            "GPT-4",
            [Key(name, "reconstruction", setting, pair, category) for name in names],
        )
        for pair in PAIRS["reconstruction"]
        for setting, category in (("sm", "Multimodal"), ("lm", "Text-Only"))
    ]
    metrics = [name for name in AGREEMENT if name != "agreement_phi"]
    for pair in PAIRS["reconstruction"]:
        for setting, label in TYPES.items():
            keys = [Key(metric, "reconstruction", setting, pair) for metric in metrics]
            rows += [
                TableRow(label=f"{pair}, {label}, {model}", cells=tuple(_cells(unpie, keys, model)))
                for model in unpie.results.models_with(keys)
            ]
    return Table(
        id="unpie_table9",
        title="UNPIE Table 9: agreement of the judge of reconstructed puns with people",
        label_head="Outputs",
        columns=("Precision", "Recall", "F1", "Accuracy", "Pearson"),
        rows=tuple(rows),
        style="fraction2",
        notes=("Judgements of puns from Korean are the least reliable: 80 and 85% agree with people.",),
    )


def _validity_table(unpie: UnpieResults) -> Table:
    """Lay out what people judged: whether pictures and metrics are valid, which is no ceiling for the tasks."""
    return Table(
        id="unpie_human_validity",
        title="UNPIE: human judgements",
        label_head="Question",
        columns=("Share",),
        rows=tuple(_validity_rows(unpie)),
        style="percent1",
        notes=("They concern pictures and metrics and are no upper bound: no person solved the three tasks.",),
    )


def _validity_rows(unpie: UnpieResults) -> Iterator[TableRow]:
    for subset in ("generated images", "natural images"):
        key = Key("image_to_pun_accuracy", subset=subset)
        yield _published_row(unpie, f"Pun found for a picture, {subset}", "Human", [key])
    for judge in ("Human evaluator 1", "Human evaluator 2", "Human evaluator 3"):
        key = Key("naturalness_ab_accuracy", subset="generated vs natural images")
        yield _published_row(unpie, f"Generated told from natural, {judge.lower()}", judge, [key])
    for model, setting in (("LLaVA", "vlm"), ("GPT4", "sm")):
        key = Key("accuracy", "disambiguation", setting, _HUMAN_SAMPLES, "BERTScore")
        yield _published_row(unpie, f"BERTScore's verdict as people's, {model}", model, [key])
    for pair in PAIRS["reconstruction"]:
        for setting, category in (("sm", "Multimodal"), ("lm", "Text-Only")):
            key = Key("accuracy", "reconstruction", setting, pair, category)
            yield _published_row(unpie, f"Judge's verdict as people's, {pair}, {category}", "GPT-4", [key])


def _published_row(unpie: UnpieResults, label: str, model: str, keys: Sequence[Key]) -> TableRow:
    cells = tuple(unpie.value(key.of(model), "published") for key in keys)
    return TableRow(label=label, cells=cells, origin="human" if model.startswith("Human") else "published")


def _cells(unpie: UnpieResults, keys: Sequence[Key], model: str, source: Source = "ours") -> list[TableCell]:
    return [without_interval(unpie.find(key.of(model), source)) for key in keys]
