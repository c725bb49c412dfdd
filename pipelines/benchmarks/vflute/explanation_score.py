"""V-FLUTE: what one answer comes to, under both readings, with the score of its explanation where it is known."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from pipelines.benchmarks.records import Reading, Row, SimilarityAsk
from pipelines.benchmarks.vflute.answers import Reading as Answer
from pipelines.benchmarks.vflute.answers import read_authors, read_robust
from pipelines.benchmarks.vflute.facts import LABELS

ROBUST: Final = "_robust"
_BERT, _BLEURT = "bertscore_f1", "bleurt"
_WORDS: Final = {number: word for word, number in LABELS.items()}


def explanation_score(given: Mapping[str, float], suffix: str = "") -> float | None:
    """The mean of BERTScore F1 and BLEURT, as they are; None where one of them is unknown."""
    bert, bleurt = given.get(_BERT + suffix), given.get(_BLEURT + suffix)
    if bert is None or bleurt is None or not (math.isfinite(bert) and math.isfinite(bleurt)):
        return None
    return (bert + bleurt) / 2


def similarity_of(row: Row) -> list[SimilarityAsk]:
    """Both comparisons of the explanation; of the robust reading's too where that is another text.

    Columns that came with an answers file hold for both readings.
    """
    if row.status != "ok" or row.setting == "label-only":
        return []
    authors, robust = _read(row)
    asks = _asks(row, authors, "")
    if not {_BERT, _BLEURT} & row.given.keys() and (robust.explanation or "") != (authors.explanation or ""):
        asks += _asks(row, robust, ROBUST)
    return asks


def read_row(row: Row) -> Reading:
    """Labels under both readings, and the explanation's scores.

    Values: `label` and `label_robust` (1 entailment, 0 contradiction, absent for none), `correct`, `empty` and
    `empty_robust` (no explanation), `es` and `es_robust`, `bertscore_f1`, `bleurt`.
    """
    if row.status != "ok":
        return Reading(answer=None, rule=row.status)
    authors, robust = _read(row)
    values = {"correct": float(authors.label == LABELS[row.sample.data["label"]])}
    for suffix, read in (("", authors), (ROBUST, robust)):
        values[f"empty{suffix}"] = float(not (read.explanation or "").strip())
        if read.label is not None:
            values[f"label{suffix}"] = float(read.label)
    if row.setting != "label-only":
        values |= _explained(row.given)
    flags = ["truncated"] if row.finish_reason == "length" else []
    flags += ["readings_differ"] if authors.label != robust.label else []
    word = None if authors.label is None else _WORDS[authors.label]
    return Reading(answer=word, rule="authors", flags=tuple(flags), values=values)


def _explained(given: Mapping[str, float]) -> dict[str, float]:
    found = {name: given[name] for name in (_BERT, _BLEURT) if name in given and math.isfinite(given[name])}
    score = explanation_score(given)
    if score is not None:
        found["es"] = score
    robust = explanation_score(given, ROBUST) if {_BERT + ROBUST, _BLEURT + ROBUST} & given.keys() else score
    if robust is not None:
        found[f"es{ROBUST}"] = robust
    return found


def _read(row: Row) -> tuple[Answer, Answer]:
    return read_authors(row.output, scene_graph=row.setting == "scene-graph"), read_robust(row.output)


def _asks(row: Row, read: Answer, suffix: str) -> list[SimilarityAsk]:
    references = (row.sample.data["explanation"],)
    candidate = read.explanation or ""
    return [
        SimilarityAsk(column=f"{name}{suffix}", scorer=scorer, candidate=candidate, references=references)
        for name, scorer in ((_BERT, "bertscore"), (_BLEURT, "bleurt"))
    ]
