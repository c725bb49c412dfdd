"""V-FLUTE's prompts: the instruction of the row, in six settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from models.messages import Generation, Media, Step, StepOutput, Text, Turn, blank, user
from pipelines.benchmarks.prompt_templates import PromptTexts
from pipelines.benchmarks.records import Prompt, Sample
from pipelines.benchmarks.vflute.answers import stage1_question
from pipelines.benchmarks.vflute.source import shot_role
from pipelines.benchmarks.vflute.source_text import CLAIM_TOKEN
from pipelines.benchmarks.vflute.templates import PAPER_TEXTS
from pipelines.errors import DatasetError

GENERATION: Final = Generation(max_new_tokens=256, num_beams=3)
"""Beam search over three beams; an engine without beam search decodes greedily."""
NO_EXEMPLARS: Final = "exemplars_missing"
SHOTS: Final[Mapping[str, int]] = {"5-shot": 5, "10-shot": 10}
WHITE: Final = blank("FFFFFF", 336, 336)
"""The same white picture for all rows, so that they are one media group."""

_FROM_DATA, _OWN_WORDING = "vflute-instruction-data-v1", "vflute-instruction-own-v1"
_GRAPH, _ANSWER, _LABEL = "vflute-scene-graph-v1", "vflute-scene-graph-answer-v1", "vflute-label-only-v1"

TEXTS: Final[Mapping[str, str]] = {
    _FROM_DATA: "{instruction}",
    **PAPER_TEXTS,
    _OWN_WORDING: (
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
PROMPT_SETS: Final[Mapping[str, Mapping[str, str]]] = {
    name.removeprefix("vflute-instruction-"): {_FROM_DATA: name} for name in PAPER_TEXTS
}
"""`paper-01` to `paper-21` -> the instruction used in place of the data's."""
_CHOICES: Final = ("entailment", "contradiction")
_GRAPH_MARKER = "\x00graph\x00"  # occurs in no text of the data or of a user


def build_prompt(sample: Sample, setting: str, texts: PromptTexts) -> Prompt:
    """Build the request of a sample in a setting."""
    picture = WHITE if setting == "no-image" else _media(sample, "picture")
    instruction_version = _version(sample.data)
    instruction = _instruction(sample.data, texts)
    if setting == "scene-graph":
        return _scene_graph(picture, instruction, texts, instruction_version)
    if setting == "label-only":
        turns = (user(picture, texts.fill(_LABEL, claim=_quoted(sample.data))),)
        return Prompt(version=texts.version(_LABEL), steps=(_answer_step(turns),))
    version = texts.version(instruction_version)
    if setting not in SHOTS:
        return Prompt(version=version, steps=(_answer_step((user(picture, instruction),)),))
    shots = sample.data["shots"][: SHOTS[setting]]
    if len(shots) < SHOTS[setting]:
        return Prompt(version=version, excluded=NO_EXEMPLARS)
    exemplars = [turn for index, shot in enumerate(shots) for turn in _exemplar(sample, index, shot, texts)]
    return Prompt(version=version, steps=(_answer_step((*exemplars, user(picture, instruction))),))


def _scene_graph(picture: Media, instruction: str, texts: PromptTexts, instruction_version: str) -> Prompt:
    request = texts.fill(_GRAPH, question=stage1_question(instruction))
    before, _, after = texts.fill(_ANSWER, graph=_GRAPH_MARKER, instruction=instruction).partition(_GRAPH_MARKER)
    answer = Turn("user", (picture, Text(before), StepOutput(0), Text(after)))
    version = "+".join(texts.version(name) for name in (_GRAPH, _ANSWER, instruction_version))
    first = Step(turns=(user(picture, request),), generation=GENERATION)
    return Prompt(version=version, steps=(first, _answer_step((answer,))))


def _exemplar(sample: Sample, index: int, shot: Mapping[str, str], texts: PromptTexts) -> tuple[Turn, Turn]:
    """Build an exemplar's question, and its answer in the form that models were fine-tuned on."""
    question = user(_media(sample, shot_role(index)), _instruction(shot, texts))
    return question, Turn("assistant", (Text(solved_answer(shot["explanation"], shot["label"])),))


def solved_answer(explanation: str, label: str) -> str:
    """Return an answer in the form that the authors' models were fine-tuned on."""
    return f"{explanation}\nLABEL: {label}"


def fill_claim(template: str, claim: str) -> str:
    """Fill a caption into an instruction's template."""
    return template.replace(CLAIM_TOKEN, f'"{claim}"')


def _answer_step(turns: tuple[Turn, ...]) -> Step:
    return Step(turns=turns, generation=GENERATION, choices=_CHOICES)


def _version(row: Mapping[str, Any]) -> str:
    return _FROM_DATA if row["prompt"] else _OWN_WORDING


def _instruction(row: Mapping[str, Any], texts: PromptTexts) -> str:
    """Fill the claim into the instruction of the data, or into our own where the data has none."""
    filled = fill_claim(row["prompt"], row["claim"])
    return texts.fill(_version(row), instruction=filled, claim=_quoted(row))


def _quoted(row: Mapping[str, Any]) -> str:
    return f'"{row["claim"]}"'


def _media(sample: Sample, role: str) -> Media:
    ref = sample.ref(role)
    if ref is None:
        raise DatasetError(f"{sample.sample_id}: no medium {role!r}; ingest again")
    return Media(ref.kind, ref.sha256)
