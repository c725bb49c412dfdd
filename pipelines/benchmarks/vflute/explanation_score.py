"""Grade one V-FLUTE answer under both parsers, with the score of its explanation where it is known."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from pipelines.benchmarks.records import Reading, Row, SimilarityRequest
from pipelines.benchmarks.vflute.answers import Answer, parse_as_authors, parse_robust
from pipelines.benchmarks.vflute.facts import LABELS

ROBUST: Final = "_robust"
_BERT, _BLEURT = "bertscore_f1", "bleurt"
_WORDS: Final = {number: word for word, number in LABELS.items()}


def explanation_score(scores: Mapping[str, float], suffix: str = "") -> float | None:
    """Return the mean of BERTScore F1 and BLEURT, unscaled; None where one of them is unknown."""
    bert, bleurt = scores.get(_BERT + suffix), scores.get(_BLEURT + suffix)
    if bert is None or bleurt is None or not (math.isfinite(bert) and math.isfinite(bleurt)):
        return None
    return (bert + bleurt) / 2


def similarity_of(row: Row) -> list[SimilarityRequest]:
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


def read_row(row: Row) -> Reading:
    """Grade the label under both parsers, and the explanation.

    Values: `label` and `label_robust` (1 entailment, 0 contradiction, absent for none), `correct`, `empty` and
    `empty_robust` (no explanation), `es` and `es_robust`, `bertscore_f1`, `bleurt`.
    """
    if row.status != "ok":
        return Reading(answer=None, rule=row.status)
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
