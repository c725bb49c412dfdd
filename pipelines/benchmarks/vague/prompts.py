"""What VAGUE asks: our own wording, put together from the same sentences for all settings.

Order of content, as the paper has it: task, what may be weighed, what the speaker expects, whether to explain; then
scene description, utterance and readings; then the cue. Prompts of one task and setting begin alike with and without
reasoning, so that an engine can share that beginning.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from models.messages import Generation, Media, Output, Part, Step, user
from pipelines.benchmarks.prompt_templates import PromptTexts
from pipelines.benchmarks.records import Prompt, Sample

LETTERS: Final = ("A", "B", "C", "D")
READINGS: Final = ("correct", "fs", "su", "ne")
"""In the order in which the data's `ordering` gives them letters."""
CAPTION: Final = "vague-caption-v1"

_SOURCES: Final[Mapping[str, str]] = {"vlm": "image", "sm": "scene description", "lm": ""}
_WHERE: Final[Mapping[str, str]] = {
    "vlm": "a person in the image",
    "sm": "a person in the scene described below",
    "lm": "a listener",
}


def _instructions(task: str, source: str, *, cot: bool) -> str:
    named = _SOURCES[source]
    said = f"The utterance below is addressed to {_WHERE[source]}"
    meant = "underlying intention" if named else "intention"
    judged = f", judged by the {named}" if named else ""
    if task == "mcq":
        asked = f"{said}; pick the reading that accounts best for the speaker's {meant}{judged}."
    else:
        asked = f"{said}; say what the speaker's {meant} is{judged}."
    sentences = [asked]
    if named:
        sentences.append(f"Weigh ONLY WHAT THE {named.upper()} SHOWS and NOTHING BEYOND IT.")
    apt = ", one that is apt for the situation" if named else ""
    sentences.append(f"Take it that the speaker expects one definite act of the listener{apt}.")
    if cot:
        sentences.append("Explain your reasoning as well.")
    elif task == "freeform":
        sentences.append("Answer in at most 15 words.")
    return " ".join(sentences)


def _cue(task: str, *, cot: bool) -> str:
    reasoning = 'Answer 1 (reasoning): 2-3 sentences that open with "Let\'s think step by step".\n'
    opener = '"The speaker wants {addressee} to"'
    if task == "mcq":
        if cot:
            return f"{reasoning}Answer 2 (intention): only the letter, one of A, B, C, D."
        return "Your answer (only the letter, one of A, B, C, D):"
    if cot:
        return f"{reasoning}Answer 2 (intention): at most 15 words that begin with {opener}."
    return f"Begin your answer with {opener}.\nYour answer:"


def _template(task: str, setting: str) -> str:
    source, cot = setting.removesuffix("-cot"), setting.endswith("-cot")
    scene = "Scene description: {caption}\n" if source == "sm" else ""
    choices = "Readings:\nA: {A}\nB: {B}\nC: {C}\nD: {D}\n" if task == "mcq" else ""
    return (
        f"{_instructions(task, source, cot=cot)}\n\n{scene}Utterance: {{utterance}}\n{choices}\n{_cue(task, cot=cot)}"
    )


def version_of(task: str, setting: str) -> str:
    """Name of the wording of a cell."""
    return f"vague-{task}-{setting}-v1"


PROMPT_TEXTS: Final[Mapping[str, str]] = {
    CAPTION: "Describe the image in 2-3 sentences.",
    **{
        version_of(task, setting): _template(task, setting)
        for task in ("mcq", "freeform")
        for setting in ("lm", "sm", "vlm", "sm-cot", "vlm-cot")
    },
}


def addressee(solution: str) -> str:
    """The first part of a `(subject, action, object)` triplet; '' where there is none."""
    return _parts(solution)[0]


def action(solution: str) -> str:
    """The second part of a triplet; '' where there is none."""
    parts = _parts(solution)
    return parts[1] if len(parts) > 1 else ""


def _parts(solution: str) -> list[str]:
    return [part.strip() for part in solution.strip().removeprefix("(").removesuffix(")").split(",")]


def shown(sample: Sample) -> dict[str, str]:
    """Letter -> reading, in the order of the letters."""
    letters: list[str] = sample.data["ordering"]
    by_letter = {letter: sample.data["readings"][name] for letter, name in zip(letters, READINGS, strict=True)}
    return {letter: by_letter[letter] for letter in LETTERS}


def kinds(sample: Sample) -> dict[str, str]:
    """Letter -> which reading stands there: `correct`, `fs`, `su`, `ne`."""
    return dict(zip(sample.data["ordering"], READINGS, strict=True))


def gold_letter(sample: Sample) -> str:
    """The letter of the correct reading."""
    letter: str = sample.data["ordering"][0]
    return letter


def prompt_of(sample: Sample, task: str, setting: str, texts: PromptTexts, generation: Generation) -> Prompt:
    """The one request of a sample in a cell: picture before words; with `sm` a caption of the model's own first."""
    version = version_of(task, setting)
    fields = {"utterance": sample.data["indirect"], **shown(sample)}
    if task == "freeform":
        fields["addressee"] = addressee(sample.data["solution"])
        if not fields["addressee"]:
            return Prompt(version=texts.version(version), excluded="addressee_missing")
    words = texts.fill(version, **fields)
    choices = LETTERS if task == "mcq" else ()
    parts: tuple[Part | str, ...] = (words,)
    if not setting.startswith("sm"):
        parts = (_picture(sample), words) if setting.startswith("vlm") else parts
        last = Step(turns=(user(*parts),), generation=generation, choices=choices)
        return Prompt(version=texts.version(version), steps=(last,))
    caption = Step(turns=(user(_picture(sample), texts.fill(CAPTION)),), generation=generation)
    # The field stands before everything that comes from the data, so the first one is ours.
    before, field, after = words.partition("{caption}")
    parts = (before, Output(0, stripped=True), after) if field else parts
    last = Step(turns=(user(*parts),), generation=generation, choices=choices)
    names = f"{texts.version(version)}, {texts.version(CAPTION)}"
    return Prompt(version=names, steps=(caption, last))


def _picture(sample: Sample) -> Media:
    ref = sample.ref("picture")
    if ref is None:
        raise ValueError(f"{sample.sample_id}: no picture; ingest again")
    return Media("image", ref.sha256)
