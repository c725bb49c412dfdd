"""V-FLUTE: decide whether a picture entails or contradicts a caption, one of them figurative, and explain why.

Paper: Saakyan et al., "Understanding Figurative Meaning through Explainable Visual Entailment", NAACL 2025,
arXiv 2405.01474. Data: huggingface.co/datasets/ColumbiaNLP/V-FLUTE, github.com/asaakyan/V-FLUTE.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Final

from pipelines.benchmarks.base import BenchmarkDefinition, lazy
from pipelines.benchmarks.records import Publication, Reading, Row, SimilarityRequest
from pipelines.benchmarks.vflute.answers import Answer, parse_as_authors, parse_robust
from pipelines.benchmarks.vflute.authors_files import READER
from pipelines.benchmarks.vflute.facts import LABELS, REPORTED_THRESHOLDS, ROBUST, SETTINGS, TASK, TUNED_FOR
from pipelines.benchmarks.vflute.prompts import PROMPT_SETS, TEXTS, build_prompt
from pipelines.benchmarks.vflute.source import read_vflute

_BERT, _BLEURT = "bertscore_f1", "bleurt"
_F1_AT: Final = tuple(f"f1_at_{k}" for k in REPORTED_THRESHOLDS)
_WORDS: Final = {number: word for word, number in LABELS.items()}


def _read_answer(row: Row) -> Reading:
    """Grade the label under both parsers, and the explanation.

    Values: `label` and `label_robust` (1 entailment, 0 contradiction, absent for none), `correct`, `empty` and
    `empty_robust` (no explanation), `es` and `es_robust`, `bertscore_f1`, `bleurt`.
    """
    authors, robust = _parse(row)
    values = {"correct": float(authors.label == LABELS[row.sample.data["label"]])}
    for suffix, answer in (("", authors), (ROBUST, robust)):
        values[f"empty{suffix}"] = float(not (answer.explanation or "").strip())
        if answer.label is not None:
            values[f"label{suffix}"] = float(answer.label)
    if row.setting != "label-only":
        values |= _explanation_values(row.given)
    flags = ["truncated"] if row.finish_reason == "length" else []
    flags += ["readings_differ"] if authors.label != robust.label else []
    word = None if authors.label is None else _WORDS[authors.label]
    return Reading(answer=word, rule="authors", flags=tuple(flags), values=values)


def _similarity(row: Row) -> Sequence[SimilarityRequest]:
    """Return both comparisons of the explanation, and those of the robust parser's if different.

    Columns of an answers file hold for both parsers.
    """
    if row.status != "ok" or row.setting == "label-only":
        return []
    authors, robust = _parse(row)
    requests = _requests(row, authors, "")
    if not {_BERT, _BLEURT} & row.given.keys() and (robust.explanation or "") != (authors.explanation or ""):
        requests += _requests(row, robust, ROBUST)
    return requests


def explanation_score(scores: Mapping[str, float], suffix: str = "") -> float | None:
    """Return the mean of BERTScore F1 and BLEURT, unscaled; None where one of them is unknown."""
    bert, bleurt = scores.get(_BERT + suffix), scores.get(_BLEURT + suffix)
    if bert is None or bleurt is None or not (math.isfinite(bert) and math.isfinite(bleurt)):
        return None
    return (bert + bleurt) / 2


def _explanation_values(scores: Mapping[str, float]) -> dict[str, float]:
    values = {name: scores[name] for name in (_BERT, _BLEURT) if name in scores and math.isfinite(scores[name])}
    score = explanation_score(scores)
    if score is not None:
        values["es"] = score
    robust = explanation_score(scores, ROBUST) if {_BERT + ROBUST, _BLEURT + ROBUST} & scores.keys() else score
    if robust is not None:
        values[f"es{ROBUST}"] = robust
    return values


def _parse(row: Row) -> tuple[Answer, Answer]:
    return parse_as_authors(row.output, scene_graph=row.setting == "scene-graph"), parse_robust(row.output)


def _requests(row: Row, answer: Answer, suffix: str) -> list[SimilarityRequest]:
    references = (row.sample.data["explanation"],)
    candidate = answer.explanation or ""
    return [
        SimilarityRequest(column=f"{name}{suffix}", scorer=scorer, candidate=candidate, references=references)
        for name, scorer in ((_BERT, "bertscore"), (_BLEURT, "bleurt"))
    ]


BENCHMARK: Final = BenchmarkDefinition(
    name="vflute",
    version="1",
    title="V-FLUTE",
    citation="arXiv 2405.01474; huggingface.co/datasets/ColumbiaNLP/V-FLUTE, github.com/asaakyan/V-FLUTE",
    tasks={TASK: SETTINGS},
    headline="label_f1",
    corpus_metrics=("label_f1", *_F1_AT),
    headline_at=(TASK, "zero-shot"),
    printed_headline="f1_at_0",
    measure="Macro F1 of the labels entailment and contradiction, whatever the explanation is worth. Higher is better.",
    secondary_metrics=(*_F1_AT, "accuracy"),
    descriptive_values=("label", "label_robust"),
    default_scorers={"bertscore": "microsoft/deberta-xlarge-mnli:40", "bleurt": "lucadiliello/BLEURT-20"},
    chance={"accuracy": 0.5},
    publication=Publication(
        settings={
            "": "zero-shot",
            # Of fine-tuned checkpoints those of ours with the same requests.
            "fine-tuned": "zero-shot",
            "fine-tuned (-Image)": "no-image",
            **dict(zip(TUNED_FOR, ("label-only", "zero-shot"), strict=True)),
        },
        requests={TASK: 723},
        other_items={"Table 7": "99 test rows whose ids are not published"},
        scorers=dict.fromkeys(_F1_AT, ("bertscore", "bleurt")),
        paper_prompts=("vflute-instruction-data-v1",),  # the paper's instructions, as the data assign them
    ),
    prompt_texts=TEXTS,
    prompt_sets=PROMPT_SETS,
    source=lambda source, _column_map: read_vflute(source),
    prompts=lambda query: [build_prompt(query.sample, query.setting, query.texts)],
    read=_read_answer,
    similarity=_similarity,
    expected=lambda row: (row.sample.data["label"],),
    predictions_reader=READER,
    people=lazy(__package__, "people.VfluteHumanBaseline"),
    metrics=lazy(__package__, "metrics.reduce_scores"),
    measures=lazy(__package__, "metrics.paired_measures"),
    tables=lazy(__package__, "tables.make_tables"),
    figures=lazy(__package__, "tables.make_figures"),
    item_lists=lazy(__package__, "metrics.item_lists"),
)
