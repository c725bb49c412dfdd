"""UNPIE: can a picture resolve a pun. Tasks: find the pun, translate it given a picture, reconstruct it.

Paper: Chung et al., "Can visual language models resolve textual ambiguity with visual cues? Let visual puns tell you!",
EMNLP 2024, arXiv 2410.01023. Data: jiwan-chung/VisualPun_UNPIE on the hub; its pictures are addresses in part.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final, Literal, cast

from models.messages import Generation, Step, user
from pipelines.benchmarks.base import BenchmarkDefinition, Captions, Judge, lazy
from pipelines.benchmarks.prompt_templates import PromptTexts
from pipelines.benchmarks.records import JudgeRequest, Publication, Reading, Row, SimilarityRequest
from pipelines.benchmarks.text_cleaning import FlaggedText
from pipelines.benchmarks.unpie.answers import (
    equal_by_rule,
    exact_match,
    read_grounding,
    read_judge,
    read_translation,
    verdict,
)
from pipelines.benchmarks.unpie.files import MAP_NAMES
from pipelines.benchmarks.unpie.prompts import (
    JUDGE,
    PROMPT_SETS,
    PROMPT_TEXTS,
    TRANSLATION_JUDGE,
    caption_steps,
    unpie_prompts,
)
from pipelines.benchmarks.unpie.source import read_unpie
from pipelines.metrics.meteor import Synonyms, english_name, find_wordnet, meteor_english
from pipelines.metrics.text import sentence_bleu

BY_RULE = "judged_by_rule"
_JUDGED_CHARS = 2000  # characters of an answer that the judge gets
_GENERATION: Final = Generation(max_new_tokens=200)  # greedy


def _read_answer(row: Row) -> Reading:
    read = {
        "grounding": _read_grounding,
        "disambiguation": _read_disambiguation,
        "reconstruction": _read_reconstruction,
    }
    reading = read[row.task](row)
    return replace(reading, flags=(*reading.flags, "truncated")) if row.finish_reason == "length" else reading


def _expected(row: Row) -> Sequence[str]:
    """Return the pun's phrase, the translation of the meaning that is shown, or the sentence."""
    if row.task == "disambiguation":
        return (_targets(row)[int(row.variant[-1])],)
    return (row.sample.data["phrase" if row.task == "grounding" else "sentence"],)


def _similarity(row: Row) -> Sequence[SimilarityRequest]:
    """Request BERTScore of a translation against the translations of both meanings."""
    if row.task != "disambiguation" or row.status != "ok":
        return ()
    text, targets = _read_sentence(row).text, _targets(row)
    if not text or not all(targets):
        return ()
    return tuple(
        SimilarityRequest(column=f"bertscore_{i}", scorer="bertscore", candidate=text, references=(target,))
        for i, target in enumerate(targets)
    )


def _ask_judge(row: Row, texts: PromptTexts) -> JudgeRequest | bool | None:
    """Ask whether the pun was reconstructed; empty answers and the original sentence are decided by rule.

    Of translations only those that a person labelled are judged, to compare the judge's verdicts with theirs.
    """
    is_labelled = row.is_labelled or "human" in row.given
    if row.status != "ok" or row.task == "grounding" or (row.task == "disambiguation" and not is_labelled):
        return None
    text, data = _read_sentence(row).text, row.sample.data
    if row.task == "disambiguation":
        targets, meaning = _targets(row), int(row.variant[-1])
        if not text or not all(targets):
            return None
        wording, fields = TRANSLATION_JUDGE, {"wanted": targets[meaning], "other": targets[1 - meaning]}
    elif (accepted := _verdict_by_rule(text, data["sentence"])) is not None:
        return accepted
    else:
        meanings = {"meaning1": data["gloss"][0], "meaning2": data["gloss"][1]}
        wording, fields = JUDGE, {"original": data["sentence"], "phrase": data["phrase"], **meanings}
    prompt = texts.fill(wording, candidate=text[:_JUDGED_CHARS], **fields)
    step = Step(turns=(user(prompt),), generation=Generation(max_new_tokens=8), choices=("yes", "no"))
    return JudgeRequest(step=step)


def _read_sentence(row: Row) -> FlaggedText:
    lang, meaning = row.variant.split("/")
    if row.task == "reconstruction":
        return read_translation(row.output or "", "en", row.sample.data["translation"][int(meaning)][lang])
    return read_translation(row.output or "", cast("Literal['de', 'fr', 'ko']", lang), row.sample.data["sentence"])


def _targets(row: Row) -> tuple[str, str]:
    first, second = (pair[row.variant[:2]] for pair in row.sample.data["translation"])
    return first, second


def _verdict_by_rule(text: str, original: str) -> bool | None:
    if not text:
        return False
    return True if equal_by_rule(text, original) else None


def _read_grounding(row: Row) -> Reading:
    reading, phrase = read_grounding(row.output or ""), row.sample.data["phrase"]
    match = exact_match(row.output or "", phrase)
    return Reading(
        answer=reading.text or None,
        rule="phrase" if reading.text else "empty",
        flags=reading.flags,
        values={"correct": float(match.normalised), "strict": float(match.strict and not row.dropped)},
    )


def _read_disambiguation(row: Row) -> Reading:
    sentence = _read_sentence(row)
    values: dict[str, float] = {}
    if not sentence.text:
        values["correct"] = 0.0
    elif {"bertscore_0", "bertscore_1"} <= row.given.keys():
        first, second = row.given["bertscore_0"], row.given["bertscore_1"]
        meaning = int(row.variant[-1])
        values = {
            "bertscore_0": first,
            "bertscore_1": second,
            "margin": first - second if meaning == 0 else second - first,
            "correct": float(verdict(first, second, meaning)),
            "tie": float(not verdict(first, second, 0) and not verdict(first, second, 1)),
        }
        values = {name: value for name, value in values.items() if math.isfinite(value)}
    if row.verdict.state == "ok":
        values["gpteval"] = float(bool(row.verdict.accepted))
    return _translation(row, sentence, values)


def _read_reconstruction(row: Row) -> Reading:
    sentence, original = _read_sentence(row), row.sample.data["sentence"]
    wordnet = _wordnet()
    values = {
        "bleu4_sentence": sentence_bleu([sentence.text], [[original]])[0],
        english_name(wordnet): meteor_english([sentence.text], [[original]], wordnet=wordnet)[0],
    }
    flags: tuple[str, ...] = ()
    if row.verdict.state == "ok":
        values["accepted"] = float(bool(row.verdict.accepted))
        flags = (BY_RULE,) if _verdict_by_rule(sentence.text, original) is not None else ()
    elif row.verdict.state == "invalid":
        values["accepted"] = 0.0
    return _translation(row, sentence, values, flags)


def _translation(row: Row, sentence: FlaggedText, values: Mapping[str, float], flags: tuple[str, ...] = ()) -> Reading:
    if "human" in row.given:
        values = {**values, "human": row.given["human"]}
    return Reading(
        answer=sentence.text or None,
        rule="text" if sentence.text else "empty",
        flags=(*sentence.flags, *flags),
        values=values,
    )


@lru_cache(maxsize=1)
def _wordnet() -> Synonyms | None:
    """Load WordNet once per process: it takes seconds."""
    return find_wordnet()


BENCHMARK: Final = BenchmarkDefinition(
    name="unpie",
    version="2",
    title="UNPIE",
    citation="arXiv 2410.01023; huggingface.co/datasets/jiwan-chung/VisualPun_UNPIE",
    tasks={"grounding": ("lm", "sm", "vlm"), "disambiguation": ("sm", "vlm"), "reconstruction": ("lm", "sm", "vlm")},
    whole_category="All",
    headline="exact_match",
    headline_at=("grounding", "vlm"),
    measure="Share of sentences whose punning phrase a model names exactly, apart from case and punctuation. Higher is"
    " better.",
    secondary_metrics=("accuracy", "correct_pct"),
    descriptive_values=("gpteval", "human"),
    default_scorers={"bertscore": "bert-base-multilingual-cased:9"},
    content_field="content_sha",
    publication=Publication(
        settings={"": "vlm"},  # chance
        requests={"grounding": 1000, "disambiguation": 6000, "reconstruction": 6000},
        paper_prompts=(),  # the set `paper` has them
        judges={("reconstruction", metric): "gpt-4-0613" for metric in ("correct_pct", "delta_vs_lm")},
        captioners={"sm": "blip2-opt-2.7b"},
        scorers={"accuracy": ("bertscore",)},
        unnamed_scorers=("bleu4", "meteor"),
    ),
    prompt_texts=PROMPT_TEXTS,
    prompt_sets=PROMPT_SETS,
    column_map_names=MAP_NAMES,
    source=read_unpie,
    prompts=lambda query: unpie_prompts(query, _GENERATION),
    read=_read_answer,
    judge=Judge(ask=_ask_judge, read=read_judge, tasks=("reconstruction",), metrics=("correct_pct",)),
    captions=Captions(steps=lambda sample, setting: caption_steps(sample) if setting == "sm" else (), settings=("sm",)),
    similarity=_similarity,
    expected=_expected,
    people=lazy(__package__, "people.UnpieHumanBaseline"),
    metrics=lazy(__package__, "metrics.reduce_scores"),
    measures=lazy(__package__, "metrics.paired_measures"),
    tables=lazy(__package__, "tables.make_tables"),
    figures=lazy(__package__, "figures.make_figures"),
)
