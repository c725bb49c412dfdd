"""VAGUE's prompts: our own wording (`prompts.yaml`), of the same sentences in all settings, ordered as in the paper.

Prompts of a task and setting share a prefix with and without reasoning, so that an engine can reuse it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from models.messages import Generation, Media, Part, Step, StepOutput, user
from pipelines.benchmarks.prompt_templates import PromptTexts, load_texts
from pipelines.benchmarks.records import Prompt, Sample
from pipelines.errors import DatasetError

LETTERS: Final = ("A", "B", "C", "D")
READINGS: Final = ("correct", "fs", "su", "ne")
"""Kinds of readings, in the order in which the data's `ordering` assigns letters to them."""
CAPTION: Final = "vague-caption-v1"
PROMPT_TEXTS: Final = load_texts(__package__)


def prompt_version(task: str, setting: str) -> str:
    """Return the version name of the wording of a task in a setting."""
    return f"vague-{task}-{setting}-v1"


def addressee(solution: str) -> str:
    """Return the first part of a `(subject, action, object)` triplet; '' where there is none."""
    return _parts(solution)[0]


def action(solution: str) -> str:
    """Return the second part of a triplet; '' where there is none."""
    parts = _parts(solution)
    return parts[1] if len(parts) > 1 else ""


def _parts(solution: str) -> list[str]:
    return [part.strip() for part in solution.strip().removeprefix("(").removesuffix(")").split(",")]


def readings_by_letter(sample: Sample) -> dict[str, str]:
    """Map letters to the text of their readings, in the order of the letters."""
    letters: list[str] = sample.data["ordering"]
    by_letter = {letter: sample.data["readings"][name] for letter, name in zip(letters, READINGS, strict=True)}
    return {letter: by_letter[letter] for letter in LETTERS}


def kinds_by_letter(sample: Sample) -> dict[str, str]:
    """Map letters to the kind of their reading: `correct`, `fs`, `su`, `ne`."""
    return dict(zip(sample.data["ordering"], READINGS, strict=True))


def gold_letter(sample: Sample) -> str:
    """Return the letter of the correct reading."""
    letter: str = sample.data["ordering"][0]
    return letter


def build_prompt(sample: Sample, task: str, setting: str, texts: PromptTexts, generation: Generation) -> Prompt:
    """Build the request of a sample: picture before text; `sm` first asks the model for a caption."""
    version = prompt_version(task, setting)
    fields = {"utterance": sample.data["indirect"], **readings_by_letter(sample)}
    if task == "freeform":
        fields["addressee"] = addressee(sample.data["solution"])
        if not fields["addressee"]:
            return Prompt(version=texts.version(version), excluded="addressee_missing")
    text = texts.fill(version, **fields)
    choices = LETTERS if task == "mcq" else ()
    parts: tuple[Part | str, ...] = (text,)
    if not setting.startswith("sm"):
        parts = (_picture(sample), text) if setting.startswith("vlm") else parts
        answer = Step(turns=(user(*parts),), generation=generation, choices=choices)
        return Prompt(version=texts.version(version), steps=(answer,))
    caption = caption_step(sample, texts.fill(CAPTION), generation)
    # The field precedes everything that comes from the data, so its first occurrence is ours.
    before, field, after = text.partition("{caption}")
    parts = (before, StepOutput(0, stripped=True), after) if field else parts
    answer = Step(turns=(user(*parts),), generation=generation, choices=choices)
    versions = f"{texts.version(version)}, {texts.version(CAPTION)}"
    return Prompt(version=versions, steps=(caption, answer))


def caption_step(sample: Sample, prompt: str, generation: Generation) -> Step:
    """Return the request for a description of the picture."""
    return Step(turns=(user(_picture(sample), prompt),), generation=generation)


def captioned_prompt(
    sample: Sample, texts: PromptTexts, generation: Generation, captions: Mapping[str, str] | None
) -> Prompt:
    """Build the choice of `sm` with another model's caption; excluded where there is none."""
    version = prompt_version("mcq", "sm")
    caption = None if captions is None else captions.get(_picture(sample).source, "").strip()
    if not caption:
        reason = "no_captioner" if caption is None else "caption_missing"
        return Prompt(version=texts.version(version), excluded=reason)
    text = texts.fill(version, utterance=sample.data["indirect"], **readings_by_letter(sample))
    before, field, after = text.partition("{caption}")
    step = Step(turns=(user(f"{before}{caption if field else ''}{after}"),), generation=generation, choices=LETTERS)
    return Prompt(version=texts.version(version), steps=(step,))


def _picture(sample: Sample) -> Media:
    ref = sample.ref("picture")
    if ref is None:
        raise DatasetError(f"{sample.sample_id}: no picture; ingest again")
    return Media("image", ref.sha256)
