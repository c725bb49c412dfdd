"""V-FLUTE's prompts: the row's own instruction, in six settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from models.messages import Generation, Media, Step, StepOutput, Turn, blank, user
from models.messages import Text as Words
from pipelines.benchmarks.prompt_templates import PromptTexts
from pipelines.benchmarks.records import Prompt, Sample
from pipelines.benchmarks.vflute.answers import stage1_question
from pipelines.benchmarks.vflute.source import shot_role
from pipelines.benchmarks.vflute.source_text import CLAIM_TOKEN

GENERATION: Final = Generation(max_new_tokens=256, num_beams=3)
"""Beam search over three beams; an engine without it runs greedy."""
NO_EXEMPLARS: Final = "exemplars_missing"
SHOTS: Final[Mapping[str, int]] = {"5-shot": 5, "10-shot": 10}
WHITE: Final = blank("FFFFFF", 336, 336)
"""One white picture for all rows, so that all of them are one media group."""

_DATA, _OWN = "vflute-instruction-data-v1", "vflute-instruction-own-v1"
_GRAPH, _ANSWER, _LABEL = "vflute-scene-graph-v1", "vflute-scene-graph-answer-v1", "vflute-label-only-v1"

TEXTS: Final[Mapping[str, str]] = {
    _DATA: "{instruction}",
    _OWN: (
        "Is what the picture shows in favour of the caption {claim} or at odds with it? "
        "Say why you think so, and finish with one word as your verdict: entailment or contradiction."
    ),
    _GRAPH: (
        "Question: {question}\n"
        "Look at the picture with this question in mind and write down, as JSON, a scene graph that holds\n"
        "1. the objects that matter for an answer\n"
        "2. those attributes of the objects that matter for an answer\n"
        "3. those relations between the objects that matter for an answer\n"
        "Scene Graph:"
    ),
    _ANSWER: (
        "Scene Graph:\n{graph}\n\n"
        "Take the picture together with this scene graph as your context and answer what follows.\n\n"
        "Question:\n{instruction}"
    ),
    _LABEL: (
        "The caption {claim} stands beside this picture. Write exactly one of the two words entailment and "
        "contradiction, entailment where the caption follows from the picture, contradiction where it clashes with it, "
        "and nothing else."
    ),
}
_CHOICES: Final = ("entailment", "contradiction")
_GRAPH_PLACE = "\x00graph\x00"  # a place that no text of the data or of a user has


def prompt(sample: Sample, setting: str, texts: PromptTexts) -> Prompt:
    """The one request of a sample in a setting."""
    picture = WHITE if setting == "no-image" else _media(sample, "picture")
    own = _version(sample.data)
    asked = _instruction(sample.data, texts)
    if setting == "scene-graph":
        return _scene_graph(picture, asked, texts, own)
    if setting == "label-only":
        turns = (user(picture, texts.fill(_LABEL, claim=_quoted(sample.data))),)
        return Prompt(version=texts.version(_LABEL), steps=(_final(turns),))
    version = texts.version(own)
    if setting not in SHOTS:
        return Prompt(version=version, steps=(_final((user(picture, asked),)),))
    shots = sample.data["shots"][: SHOTS[setting]]
    if len(shots) < SHOTS[setting]:
        return Prompt(version=version, excluded=NO_EXEMPLARS)
    solved = [turn for place, shot in enumerate(shots) for turn in _solved(sample, place, shot, texts)]
    return Prompt(version=version, steps=(_final((*solved, user(picture, asked))),))


def _scene_graph(picture: Media, asked: str, texts: PromptTexts, own: str) -> Prompt:
    request = texts.fill(_GRAPH, question=stage1_question(asked))
    before, _, after = texts.fill(_ANSWER, graph=_GRAPH_PLACE, instruction=asked).partition(_GRAPH_PLACE)
    answer = Turn("user", (picture, Words(before), StepOutput(0), Words(after)))
    version = "+".join(texts.version(name) for name in (_GRAPH, _ANSWER, own))
    first = Step(turns=(user(picture, request),), generation=GENERATION)
    return Prompt(version=version, steps=(first, _final((answer,))))


def _solved(sample: Sample, place: int, shot: Mapping[str, str], texts: PromptTexts) -> tuple[Turn, Turn]:
    """An exemplar's question, and its answer in the form that models were fine-tuned on."""
    question = user(_media(sample, shot_role(place)), _instruction(shot, texts))
    return question, Turn("assistant", (Words(f"{shot['explanation']}\nLABEL: {shot['label']}"),))


def _final(turns: tuple[Turn, ...]) -> Step:
    return Step(turns=turns, generation=GENERATION, choices=_CHOICES)


def _version(row: Mapping[str, Any]) -> str:
    return _DATA if row["prompt"] else _OWN


def _instruction(row: Mapping[str, Any], texts: PromptTexts) -> str:
    """The instruction with the claim in it, in the words of the data where it has any."""
    filled = row["prompt"].replace(CLAIM_TOKEN, _quoted(row))
    return texts.fill(_version(row), instruction=filled, claim=_quoted(row))


def _quoted(row: Mapping[str, Any]) -> str:
    return f'"{row["claim"]}"'


def _media(sample: Sample, role: str) -> Media:
    ref = sample.ref(role)
    if ref is None:
        raise ValueError(f"{sample.sample_id}: no medium {role!r}; ingest again")
    return Media(ref.kind, ref.sha256)
