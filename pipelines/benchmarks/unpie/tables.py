"""UNPIE's tables: 4 to 6 as in the paper (arXiv 2410.01023), ours next to the published ones, then further ones.

Where more than 1% of our requests are excluded, our rows are in a table of their own without published numbers. The
paper's tables on its data and its metrics, 1, 2, 3, 7, 8 and 9, come last.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from pipelines.benchmarks.layout import BOTH, Fixed, Rows, Shown, TableDef, View, rows_behind, value_of
from pipelines.benchmarks.published import load_dataset_facts
from pipelines.benchmarks.results import Key, Results, with_our_rows, without_interval
from pipelines.benchmarks.tables import Table, TableCell, TableRow, TableValue
from pipelines.benchmarks.unpie.metrics import (
    ALL,
    HEADLINES,
    INPUTS,
    KINDS,
    PAIRS,
    TYPES,
    VERDICT_METRICS,
    has_low_coverage,
    subset_notes,
)

_ONE_PICTURE: Final = (
    "all printed values are multiples of 0.2, as with 500 rows: these may rest on one picture a pun, ours on both"
)
_NO_ENDPOINT: Final = "the endpoint that the paper names takes no pictures"
_LOW_COVERAGE: Final = (
    "More than 1% of the requests lack a picture or a caption, so they are not compared with published numbers."
)
_COMPARISON_NOTES: Final = 2  # the last ones of each compared table, on published numbers
_DATA_SETS: Final = ("Multi30k", "CoMMuTE", "UNPIE")  # rows of Table 1
_FREQUENCIES: Final = ("Freq↑", "Freq↓")


def make_tables(results: Results) -> list[Table]:
    """Lay out Tables 4 to 6, then tables that the paper does not have, then those without any number of ours."""
    compared = [table for definition in (_TABLE_4, _TABLE_5, _TABLE_6) for table in _by_coverage(results, definition)]
    further = with_our_rows(table.lay_out(results) for table in (_STRICT, _TRANSLATIONS, _READING))
    return [*compared, *further, *(table.lay_out(results) for table in _PAPER_TABLES)]


def _by_coverage(results: Results, definition: TableDef) -> Iterator[Table]:
    """Yield the table, and one without published numbers for our rows of low coverage."""
    table = definition.lay_out(results)
    yield table
    rows = [row for row in definition.rows if isinstance(row, Rows) and not row.baseline]
    low = replace(
        definition,
        id=f"{table.id}_low_coverage",
        title=f"{table.title}, of rows with low coverage",
        rows=[replace(row, sources=["ours"], where=has_low_coverage) for row in rows],
        better=table.better,
        notes=(*definition.notes[:-_COMPARISON_NOTES], _LOW_COVERAGE),
        coverage=lambda _results: (),
    )
    yield from with_our_rows([low.lay_out(results)])


def _rows(table: int, heading: str, *keys: Key) -> Rows:
    def is_compared(view: View) -> bool:
        return view.key.model != "Random" if view.source == "published" else not has_low_coverage(view)

    return Rows(heading, keys, sources=BOTH, table=f"Table {table}", where=is_compared, note=_row_note)


def _row_note(view: View) -> str:
    if view.source == "published" and (view.key.model, view.key.setting) == ("GPT-4", "vlm"):
        return _NO_ENDPOINT
    is_single = (view.source, view.key.task, view.key.setting) == ("published", "disambiguation", "sm")
    return _ONE_PICTURE if is_single else ""


def _random_phrase(results: Results) -> list[TableRow]:
    """Return the row of a blind guess of one word, which depends on the sentences and not on the model."""
    for key in results.ours:
        if key.metric == "random_exact_match":
            values = [results.value(key._replace(category=kind)) for kind in KINDS]
            note = "one word of the sentence at random; not printed in the paper"
            return [TableRow(label="Random", cells=("", *values), baseline=True, note=note)]
    return []


def _type(view: View) -> TableCell:
    return TYPES[view.key.setting]


def _inputs(view: View) -> TableCell:
    return INPUTS.get(view.key.setting, "")


def _meteor(view: View, key: Key) -> TableCell:
    number, value = (view.find(key._replace(metric=metric)) for metric in ("meteor", "meteor_nowordnet"))
    if number is None and value is not None and value.value is not None:
        return TableValue(value=value.value, note="METEOR without WordNet's synonyms")
    return without_interval(number)


def _whole(view: View, key: Key) -> TableCell:
    """Show the mean of both kinds, or the pooled value where there is one kind only."""
    for category in (ALL, ""):
        number = view.find(key._replace(category=category))
        if number is not None:
            return replace(number, note=number.note if number.value is None else "")
    return None


_VICUNA: Final = (
    "The paper's Vicuna is 13B in its text and 7B in its appendix; its GPT-4 rows with pictures name no endpoint."
)
_UNPUBLISHED: Final = "Human scores on the three tasks: not published."
_TABLE_4: Final = TableDef(
    id="unpie_table4",
    title="UNPIE Table 4: exact match of the pun's phrase",
    columns={
        "Inputs": _inputs,
        "Homo": Shown(Key(category="Homo"), change="delta_vs_lm"),
        "Hetero": Shown(Key(category="Hetero"), change="delta_vs_lm"),
    },
    rows=[
        _random_phrase,
        *(_rows(4, label, Key("exact_match", "grounding", setting)) for setting, label in TYPES.items()),
    ],
    style="percent1",
    better=("", "higher", "higher"),
    notes=["Percent; in brackets the change against LM.", _VICUNA, _UNPUBLISHED],
    coverage=partial(subset_notes, task="grounding"),
)
_TABLE_5: Final = TableDef(
    id="unpie_table5",
    title="UNPIE Table 5: translations closer to the meaning that the picture shows",
    columns=[
        ("Inputs", _inputs),
        *((kind, Key(subset=pair, category=kind)) for pair in PAIRS["disambiguation"] for kind in (*KINDS, ALL)),
    ],
    rows=[
        Rows(keys=[Key("accuracy", "disambiguation")], sources=["published"], models=["Random"], baseline=True),
        *(_rows(5, TYPES[setting], Key("accuracy", "disambiguation", setting)) for setting in ("sm", "vlm")),
    ],
    style="percent1",
    second="table",
    groups=(("", 1), *((pair, 3) for pair in PAIRS["disambiguation"])),
    better=("", *(("higher",) * 9)),
    notes=[
        "Percent; ties are wrong. All is the mean of Homo and Hetero.",
        "BERTScore F1 of bert-base-multilingual-cased, layer 9, is our choice: the paper names no model.",
        _VICUNA,
        _UNPUBLISHED,
    ],
    coverage=partial(subset_notes, task="disambiguation"),
)
_TABLE_6: Final = TableDef(
    id="unpie_table6",
    title="UNPIE Table 6: puns reconstructed from one translation",
    columns=[
        ("Type", _type),
        ("Inputs", _inputs),
        *(
            column
            for kind in (*KINDS, ALL)
            for column in (
                ("Correct %", Key("correct_pct", category=kind)),
                ("Change", Key("delta_vs_lm", category=kind)),
                ("BLEU-4", Key("bleu4", category=kind)),
                ("METEOR", partial(_meteor, key=Key(category=kind))),
            )
        ),
    ],
    rows=[
        _rows(6, pair, *(Key("", "reconstruction", setting, pair) for setting in TYPES))
        for pair in PAIRS["reconstruction"]
    ],
    style="percent1",
    best_of="block",
    groups=(("", 2), *((kind, 4) for kind in (*KINDS, ALL))),
    better=("", "", *(("", "higher", "", "") * 3)),
    notes=[
        "Percent. Change: of Correct % against LM, the largest gain of each block in bold.",
        "All is the mean of Homo and Hetero, of BLEU-4, too.",
        (
            "Other judge: the published Correct % are gpt-4-0613's by an unpublished prompt, ours those of the run's"
            " judge. The paper names no variant of BLEU and METEOR."
        ),
        _VICUNA,
        _UNPUBLISHED,
    ],
    coverage=partial(subset_notes, task="reconstruction"),
)
_STRICT: Final = TableDef(
    id="unpie_strict",
    title="UNPIE: exact match with and without normalisation",
    columns={
        "Type": _type,
        "Normalised": partial(_whole, key=Key("exact_match")),
        "As it came": partial(_whole, key=Key("exact_match_strict")),
    },
    rows=[Rows(keys=[Key("", "grounding", setting) for setting in TYPES])],
    style="percent1",
    notes=["The paper does not specify whether case and a final full stop count."],
)
_TRANSLATIONS: Final = TableDef(
    id="unpie_translations",
    title="UNPIE: translations by both pictures of a pun",
    columns={
        "Type": _type,
        "Accuracy": Key("accuracy"),
        "Both right": Key("pair_accuracy"),
        "Ties": Key("tie_rate"),
        "Same output": Key("same_output_rate"),
        "Margin": Key("margin"),
    },
    rows=[
        Rows(pair, [Key("", "disambiguation", setting, pair) for setting in ("sm", "vlm")], measured=True)
        for pair in PAIRS["disambiguation"]
    ],
    styles=(*(("percent1",) * 5), "fraction4"),
    notes=[
        (
            "Both right: both meanings of a pun, by chance about 25%. Same output: both pictures gave one text, so"
            " the picture was ignored. Margin: BERTScore to the wanted translation minus that to the other."
        )
    ],
)
_READING: Final = TableDef(
    id="unpie_reading",
    title="UNPIE: parsing of answers",
    columns={
        "Type": _type,
        "Answers": Shown(Key("invalid"), rows_behind),
        "Coverage": Shown(Key("coverage"), value_of),
        "Failed": Key("errors"),
        "Invalid": Key("invalid"),
        "Truncated": Key("truncated"),
        "More lines": Key("extra_text"),
        "Untranslated": Key("untranslated"),
        "Wrong script": Key("wrong_script"),
        "Refusals": Key("refusal"),
        "Judge unread": Key("judge_invalid"),
        "Judged by rule": Key("judged_by_rule"),
    },
    rows=[Rows(task.capitalize(), [Key("", task, setting) for setting in TYPES]) for task in HEADLINES],
    style="percent1",
    notes=[
        (
            "Coverage: share of the requests with their picture, caption and text. Invalid answers are wrong; other"
            " flags change no score. Judge unread: verdicts that could not be read, which count as no."
        )
    ],
)


def _sizes(results: Results) -> Iterator[TableRow]:
    facts = load_dataset_facts("unpie")
    generative = facts["generative"].split("; ")
    for name in _DATA_SETS:
        ambiguous = float(facts[f"ambiguous_pct/{name}"]) / 100
        cells = (int(facts[f"size/{name}"]), ambiguous, name in generative)
        yield TableRow(label=name, cells=cells, origin="published")
    largest = max(results.models(), key=lambda model: results.value(Key("puns", model=model)) or 0, default="")
    if (puns := results.value(Key("puns", model=largest))) is not None:
        share = results.value(Key("ambiguous", model=largest))
        yield TableRow(label="UNPIE, puns of this sweep", cells=(int(puns), share, True))


def _verdicts(setting: str) -> Rows:
    ours = [Key("agreement_accuracy"), Key("agreement_phi")]
    return Rows(
        keys=[Key("", "disambiguation", setting, category=metric) for metric in VERDICT_METRICS],
        columns=[*ours, None, None] if setting == "vlm" else [None, None, *ours],
        label="{category}, {model}",
        measured=True,
    )


def _quality_table(number: int, languages: Mapping[str, str]) -> TableDef:
    """Return a table of plain and pun-aware translations; `languages` maps heads to the subsets printed."""
    names = ("Plain translation", "Pun-aware translation")
    return TableDef(
        id=f"unpie_table{number}",
        title=f"UNPIE Table {number}: plain and pun-aware translations",
        label_head="Translation",
        columns=[
            (f"{head} {kind}", Key(metric, subset=subset, category=kind))
            for metric in ("win_rate", "bertscore")
            for head, subset in languages.items()
            for kind in KINDS
        ],
        rows=[Fixed({name: Key(model=name) for name in names}, "published")],
        style="percent1",
        groups=(("Win rate", 2 * len(languages)), ("BERTScore", 2 * len(languages))),
        notes=["Statistics of the data as printed: the second plain translations behind them are not distributed."],
    )


_LANGUAGES: Final = ("De", "Fr", "Ko")
_VERDICT_ITEMS: Final = Key("", "disambiguation", subset="100 samples")
_JUDGEMENTS: Final = {
    f"{pair}, {category}": Key("", "reconstruction", setting, pair, category, "GPT-4")
    for pair in PAIRS["reconstruction"]
    for setting, category in (("sm", "Multimodal"), ("lm", "Text-Only"))
}
_JUDGEMENT_METRICS: Final = ("precision", "recall", "f1", "accuracy", "pearson")
# What people judged: whether pictures and metrics are valid, which is no ceiling for the tasks.
_VALIDITY: Final = {
    **{
        f"Pun found for a picture, {kind} images": Key("image_to_pun_accuracy", subset=f"{kind} images", model="Human")
        for kind in ("generated", "natural")
    },
    **{
        f"Generated distinguished from natural, human evaluator {number}": Key(
            "naturalness_ab_accuracy", subset="generated vs natural images", model=f"Human evaluator {number}"
        )
        for number in (1, 2, 3)
    },
    **{
        f"BERTScore's verdict as people's, {model}": Key(
            "accuracy", setting=setting, category="BERTScore", model=model
        ).within(_VERDICT_ITEMS)
        for setting, model in (("vlm", "LLaVA"), ("sm", "GPT4"))
    },
    **{f"Judge's verdict as people's, {label}": key._replace(metric="accuracy") for label, key in _JUDGEMENTS.items()},
}
_PAPER_TABLES: Final = (
    TableDef(
        id="unpie_table1",
        title="UNPIE Table 1: test sets of multimodal translation",
        label_head="Data set",
        columns=dict.fromkeys(["Size", "Ambiguous", "Generative"]),
        rows=[_sizes],
        style="percent1",
        notes=[
            "Multi30k: the test set of 2017, Flickr.",
            "Of this sweep, ambiguous: the translations of both meanings differ in every language.",
        ],
    ),
    TableDef(
        id="unpie_table2",
        title="UNPIE Table 2, top: reconstruction of puns by frequency of the given meaning",
        columns=[
            ("Type", _type),
            *((name, Key(subset=pair, category=name)) for pair in ("En-De", "En-Fr") for name in _FREQUENCIES),
        ],
        rows=[
            Rows(keys=[Key("correct_pct", "", setting) for setting in TYPES], sources=["published"], measured=True),
            Rows(
                keys=[Key("correct_pct", "reconstruction", setting) for setting in TYPES],
                columns=[
                    _type,
                    *(Key(subset=pair, category=name) for pair in ("De-En", "Fr-En") for name in _FREQUENCIES),
                ],
                measured=True,
            ),
        ],
        style="percent1",
        groups=(("", 1), ("De", 2), ("Fr", 2)),
        notes=[
            "The printed heads are En-De and En-Fr, but the values match neither Table 5 nor 6: do not compare.",
            "Ours need `freq_rank` in the data: which meaning is more common.",
        ],
    ),
    TableDef(
        id="unpie_table2_ordering",
        title="UNPIE Table 2, bottom: ranking of meanings by frequency, 890 homonyms",
        columns={"Accuracy": Key("accuracy"), "Cohen's kappa": Key("cohen_kappa")},
        rows=[Fixed({"GPT4Eval": Key("", "", "lm", "Rice et al. 2019 homonyms", model="GPT4Eval")}, "published")],
        styles=("percent1", "fraction2"),
        notes=["As printed: neither GPT-4's rankings nor the 890 homonyms are part of the data."],
    ),
    _quality_table(3, {"De/Fr/Ko": "average of De/Fr/Ko"}),
    _quality_table(7, dict(zip(_LANGUAGES, _LANGUAGES, strict=True))),
    TableDef(
        id="unpie_table8",
        title="UNPIE Table 8: agreement of verdicts on translations with people",
        label_head="Metric",
        columns=[
            (metric.capitalize(), Key(metric, setting=setting, model=model))
            for setting, model in (("vlm", "LLaVA"), ("sm", "GPT4"))
            for metric in ("accuracy", "phi")
        ],
        rows=[
            Fixed({name: _VERDICT_ITEMS._replace(category=name) for name in VERDICT_METRICS}, "published"),
            _verdicts("sm"),
            _verdicts("vlm"),
        ],
        styles=("percent1", "fraction2", "percent1", "fraction2"),
        groups=(("VLM (published: LLaVA)", 2), ("SM (published: GPT-4)", 2)),
        notes=[
            "Published: 100 valid outputs of each model, 32 invalid ones of LLaVA left out; phi is printed times 100.",
            "Ours: right where closer to the wanted translation; BLEU-4 of sentences, METEOR of exact words.",
            "GPTEval: the run's judge, asked about the translations that people labelled.",
        ],
    ),
    TableDef(
        id="unpie_table9",
        title="UNPIE Table 9: agreement of the judge of reconstructed puns with people",
        label_head="Outputs",
        columns={name.capitalize(): Key(name) for name in _JUDGEMENT_METRICS},
        rows=[
            Fixed(_JUDGEMENTS, "published"),
            Rows(
                keys=[
                    Key("", "reconstruction", setting, pair) for pair in PAIRS["reconstruction"] for setting in TYPES
                ],
                columns=[Key(f"agreement_{name}") for name in _JUDGEMENT_METRICS],
                label=lambda view: f"{view.key.subset}, {TYPES[view.key.setting]}, {view.key.model}",
                measured=True,
            ),
        ],
        notes=["Judgements of puns from Korean are the least reliable: 80 and 85% agree with people."],
    ),
    TableDef(
        id="unpie_human_validity",
        title="UNPIE: human judgements",
        label_head="Question",
        columns={"Share": Key()},
        rows=[Fixed(_VALIDITY, "published")],
        style="percent1",
        notes=["They concern pictures and metrics and are no upper bound: no person solved the three tasks."],
    ),
)
