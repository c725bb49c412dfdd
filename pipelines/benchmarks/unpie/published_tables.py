"""Tables of the UNPIE paper that are about its data or about its metrics: 1, 2, 3, 7, 8 and 9."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from pipelines.benchmarks.tables import Table, TableCell, TableRow
from pipelines.benchmarks.unpie.aggregate import KINDS
from pipelines.benchmarks.unpie.agreement import AGREEMENT
from pipelines.benchmarks.unpie.results import PAIRS, TYPES, Key, Origin, Results, without_interval

_FREQ: Final = ("Freq↑", "Freq↓")
_DATA: Final = "Statistics of the data as printed: the second plain translations behind them are not distributed."


def static_tables(book: Results) -> list[Table]:
    """In the order of their numbers."""
    return [
        _sizes(),
        _frequency(book),
        _ordering(book),
        _plain(book, "3", ("average of De/Fr/Ko",)),
        _plain(book, "7", ("De", "Fr", "Ko")),
        _metric_agreement(book),
        _judge_agreement(book),
        _validity(book),
    ]


def _sizes() -> Table:
    rows = (("Multi30k", 1000, 0.02, True), ("CoMMuTE", 155, 1.0, False), ("UNPIE", 1000, 1.0, True))
    return Table(
        id="unpie_table1",
        title="UNPIE Table 1: test sets of multimodal translation",
        label_head="Data set",
        columns=("Size", "Ambiguous", "Generative"),
        rows=tuple(TableRow(label=name, cells=tuple(cells), origin="published") for name, *cells in rows),
        style="percent1",
        notes=("Multi30k: the test set of 2017, Flickr.",),
    )


def _frequency(book: Results) -> Table:
    """Reconstruction from the more and the less common meaning."""
    rows: list[TableRow] = []
    origins: tuple[Origin, ...] = ("published", "ours")
    for origin in origins:
        task, pairs = ("", ("En-De", "En-Fr")) if origin == "published" else ("reconstruction", ("De-En", "Fr-En"))
        for setting, words in TYPES.items():
            keys = [Key(task, setting, "correct_pct", pair, freq) for pair in pairs for freq in _FREQ]
            for model in book.with_values(origin, keys):
                cells = (words, *(without_interval(book.find(origin, model, key)) for key in keys))
                rows.append(TableRow(label=model, cells=cells, origin=origin))
    return Table(
        id="unpie_table2",
        title="UNPIE Table 2, top: puns written again, by how common the given meaning is",
        columns=("Type", *_FREQ * 2),
        groups=(("", 1), ("De", 2), ("Fr", 2)),
        rows=tuple(rows),
        style="percent1",
        notes=(
            "The printed heads read En-De and En-Fr, and the values fit neither Table 5 nor 6: not to be compared.",
            "Ours need `freq_rank` in the data, which meaning is the more common one.",
        ),
    )


def _ordering(book: Results) -> Table:
    key = Key("", "lm", "accuracy", "Rice et al. 2019 homonyms")
    cells = tuple(
        book.value("published", "GPT4Eval", key._replace(metric=name)) for name in ("accuracy", "cohen_kappa")
    )
    return Table(
        id="unpie_table2_ordering",
        title="UNPIE Table 2, bottom: ordering meanings by how common they are, 890 homonyms",
        columns=("Accuracy", "Cohen's kappa"),
        rows=(TableRow(label="GPT4Eval", cells=cells, origin="published"),),
        styles=("percent1", "fraction2"),
    )


def _plain(book: Results, number: str, subsets: Sequence[str]) -> Table:
    """Tables 3 and 7: plain against pun-aware translations."""
    keys = [
        Key("", "", metric, subset, kind)
        for metric in ("win_rate", "bertscore")
        for subset in subsets
        for kind in KINDS
    ]
    names = [subset.removeprefix("average of ") for subset in subsets]
    return Table(
        id=f"unpie_table{number}",
        title=f"UNPIE Table {number}: plain and pun-aware translations",
        label_head="Translation",
        columns=tuple(f"{name} {kind}" for _ in range(2) for name in names for kind in KINDS),
        groups=(("Win rate", len(keys) // 2), ("BERTScore", len(keys) // 2)),
        rows=tuple(
            TableRow(
                label=model,
                cells=tuple(without_interval(book.find("published", model, key)) for key in keys),
                origin="published",
            )
            for model in ("Plain translation", "Pun-aware translation")
        ),
        style="percent1",
        notes=(_DATA,),
    )


def _metric_agreement(book: Results) -> Table:
    """Table 8: verdicts of metrics on translations, against people's."""
    rows = []
    for metric in ("BLEU", "METEOR", "Rouge-L", "BERTScore", "GPTEval"):
        cells = [
            book.value("published", model, Key("disambiguation", setting, name, "100 samples", metric))
            for model, setting in (("LLaVA", "vlm"), ("GPT4", "sm"))
            for name in ("accuracy", "phi")
        ]
        rows.append(TableRow(label=metric, cells=tuple(cells), origin="published"))
    ours: list[TableRow] = []
    for setting in ("sm", "vlm"):
        keys = [Key("disambiguation", setting, f"agreement_{name}") for name in ("accuracy", "phi")]
        for model in book.with_values("ours", keys):
            found: list[TableCell] = [without_interval(book.find("ours", model, key)) for key in keys]
            cells_of = (*found, None, None) if setting == "vlm" else (None, None, *found)
            ours.append(TableRow(label=f"BERTScore, {model}", cells=cells_of))
    return Table(
        id="unpie_table8",
        title="UNPIE Table 8: verdicts on translations against people's",
        label_head="Metric",
        columns=("Accuracy", "Phi", "Accuracy", "Phi"),
        groups=(("VLM (published: LLaVA)", 2), ("SM (published: GPT-4)", 2)),
        rows=(*rows, *ours),
        styles=("percent1", "fraction2", "percent1", "fraction2"),
        notes=(
            "Published: 100 valid outputs of each model, 32 invalid ones of LLaVA left out; phi is printed times 100.",
        ),
    )


def _judge_agreement(book: Results) -> Table:
    """Table 9: the judge against people."""
    names = ("precision", "recall", "f1", "accuracy", "pearson")
    rows = [
        TableRow(
            label=f"{pair}, {category}",
            cells=tuple(
                book.value("published", "GPT-4", Key("reconstruction", s, name, pair, category)) for name in names
            ),
            origin="published",
        )
        for pair in PAIRS["reconstruction"]
        for s, category in (("sm", "Multimodal"), ("lm", "Text-Only"))
    ]
    kept = [name for name in AGREEMENT if name != "agreement_phi"]
    for pair in PAIRS["reconstruction"]:
        for setting, words in TYPES.items():
            keys = [Key("reconstruction", setting, name, pair) for name in kept]
            rows += [
                TableRow(
                    label=f"{pair}, {words}, {model}",
                    cells=tuple(without_interval(book.find("ours", model, k)) for k in keys),
                )
                for model in book.with_values("ours", keys)
            ]
    return Table(
        id="unpie_table9",
        title="UNPIE Table 9: the judge of written puns against people",
        label_head="Outputs",
        columns=("Precision", "Recall", "F1", "Accuracy", "Pearson"),
        rows=tuple(rows),
        style="fraction2",
        notes=("Judgements of puns from Korean are the least reliable: 80 and 85% agree with people.",),
    )


def _validity(book: Results) -> Table:
    """What people were asked: whether pictures and metrics are valid. No ceiling for the tasks."""
    return Table(
        id="unpie_human_validity",
        title="UNPIE: what people judged",
        label_head="Question",
        columns=("Share",),
        rows=tuple(_asked(book)),
        style="percent1",
        notes=("These tell of pictures and metrics, and are no ceiling: nobody was asked the three tasks themselves.",),
    )


def _asked(book: Results) -> Iterator[TableRow]:
    def row(label: str, model: str, key: Key) -> TableRow:
        return TableRow(label=label, cells=(book.value("published", model, key),), origin="published")

    for subset in ("generated images", "natural images"):
        yield row(f"Pun found for a picture, {subset}", "Human", Key("", "", "image_to_pun_accuracy", subset))
    for judge in ("Human evaluator 1", "Human evaluator 2", "Human evaluator 3"):
        key = Key("", "", "naturalness_ab_accuracy", "generated vs natural images")
        yield row(f"Generated told from natural, {judge.lower()}", judge, key)
    for model, setting in (("LLaVA", "vlm"), ("GPT4", "sm")):
        key = Key("disambiguation", setting, "accuracy", "100 samples", "BERTScore")
        yield row(f"BERTScore's verdict as people's, {model}", model, key)
    for pair in PAIRS["reconstruction"]:
        for setting, category in (("sm", "Multimodal"), ("lm", "Text-Only")):
            key = Key("reconstruction", setting, "accuracy", pair, category)
            yield row(f"Judge's verdict as people's, {pair}, {category}", "GPT-4", key)
