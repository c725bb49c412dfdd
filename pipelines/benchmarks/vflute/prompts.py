"""V-FLUTE's prompts: the instruction of the row, in six settings, and the names of instructions.

The data assign one of the paper's instructions to each row. `--prompt-version
vflute-instruction-data-v1=vflute-instruction-paper-07` gives all rows one of them instead.
"""

from collections.abc import Mapping
from typing import Any, Final

from models.messages import Generation, Media, Step, StepOutput, Text, Turn, blank, user
from pipelines.benchmarks.prompt_templates import PromptTexts, load_texts
from pipelines.benchmarks.records import Prompt, Sample
from pipelines.benchmarks.vflute.answers import stage1_question
from pipelines.benchmarks.vflute.source import CLAIM_TOKEN, shot_role
from pipelines.errors import DatasetError

GENERATION: Final = Generation(max_new_tokens=256, num_beams=3)
"""Beam search over three beams; an engine without beam search decodes greedily."""
NO_EXEMPLARS: Final = "exemplars_missing"
SHOTS: Final[Mapping[str, int]] = {"5-shot": 5, "10-shot": 10}
WHITE: Final = blank("FFFFFF", 336, 336)  # the same white picture for all rows, so that they are one media group

_FROM_DATA, _OWN_WORDING = "vflute-instruction-data-v1", "vflute-instruction-own-v1"
_GRAPH, _ANSWER, _LABEL = "vflute-scene-graph-v1", "vflute-scene-graph-answer-v1", "vflute-label-only-v1"

TEXTS: Final = load_texts(__package__)
PAPER_TEMPLATES: Final[Mapping[str, str]] = {
    name: text.replace("{claim}", CLAIM_TOKEN) for name, text in TEXTS.items() if "-paper-" in name
}
"""The 21 instructions that the paper prints (Table 8) by version, in its order, with `CLAIM_TOKEN` for the claim."""
PROMPT_SETS: Final[Mapping[str, Mapping[str, str]]] = {
    name.removeprefix("vflute-instruction-"): {_FROM_DATA: name} for name in PAPER_TEMPLATES
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


def template_name(instruction: str) -> str:
    """Return `template 07` for the seventh of the paper's table, else the instruction itself on one line."""
    number = _NUMBERS.get(_letters(instruction))
    return " ".join(instruction.split()) if number is None else f"template {number:02}"


def _letters(instruction: str) -> str:
    """Drop what editions differ in: kinds of apostrophes, blanks, the final full stop."""
    return " ".join(instruction.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'").split()).removesuffix(".").casefold()


_NUMBERS: Final = {_letters(text): number for number, text in enumerate(PAPER_TEMPLATES.values(), start=1)}
