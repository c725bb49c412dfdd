"""V-FLUTE: decide whether a picture entails or contradicts a caption, one of them figurative, and explain why.

Paper: Saakyan et al., "Understanding Figurative Meaning through Explainable Visual Entailment", NAACL 2025,
arXiv 2405.01474. Data: huggingface.co/datasets/ColumbiaNLP/V-FLUTE, github.com/asaakyan/V-FLUTE.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pipelines.benchmarks.base import PromptInput, packaged_definition
from pipelines.benchmarks.records import Notice, Prompt, RawSample, Reading, Rejection, Row, SimilarityRequest, Source
from pipelines.benchmarks.vflute.answers import Answer, parse_as_authors, parse_robust
from pipelines.benchmarks.vflute.facts import LABELS, ROBUST
from pipelines.benchmarks.vflute.prompts import PROMPT_SETS, TEXTS, build_prompt
from pipelines.benchmarks.vflute.source import read_vflute

_BERT, _BLEURT = "bertscore_f1", "bleurt"
_WORDS: Final = {number: word for word, number in LABELS.items()}


class _Vflute:
    """Source, prompter and grader of V-FLUTE."""

    def read(self, source: Source, _column_map: Mapping[str, str], /) -> Iterator[RawSample | Rejection | Notice]:
        """Read `vflute-v2-test.json` or `.csv` with picture files, `data/test-*.parquet`, or both joined by id."""
        return read_vflute(source)

    def prompts(self, query: PromptInput, /) -> Iterator[Prompt]:
        """Yield one request a sample; with a scene graph it has two steps."""
        yield build_prompt(query.sample, query.setting, query.texts)

    def read_answer(self, row: Row) -> Reading:
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

    def expected(self, row: Row) -> Sequence[str]:
        """Return the label."""
        return (row.sample.data["label"],)

    def similarity(self, row: Row) -> Sequence[SimilarityRequest]:
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


BENCHMARK: Final = packaged_definition(__package__, _Vflute(), prompt_texts=TEXTS, prompt_sets=PROMPT_SETS)
