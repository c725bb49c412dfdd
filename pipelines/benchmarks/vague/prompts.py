"""VAGUE's prompts: our own wording (`prompts.yaml`), of the same sentences in all settings, ordered as in the paper.

Prompts of a task and setting share a prefix with and without reasoning, so that an engine can reuse it.
"""

from typing import Final

from models.messages import Generation, Media, Part, Step, StepOutput, user
from pipelines.benchmarks.base import PromptInput
from pipelines.benchmarks.prompt_templates import load_texts
from pipelines.benchmarks.records import Prompt, Sample
from pipelines.benchmarks.vague.facts import CAPTIONED
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


def build_prompt(query: PromptInput, generation: Generation) -> Prompt:
    """Build the request of a sample: picture before text; `sm` first asks the model for a caption."""
    sample, task, texts = query.sample, query.task, query.texts
    setting = "sm" if query.setting == CAPTIONED else query.setting
    wording = prompt_version(task, setting)
    version = texts.version(wording)
    fields = {"utterance": sample.data["indirect"], **readings_by_letter(sample)}
    if task == "freeform":
        fields["addressee"] = addressee(sample.data["solution"])
        if not fields["addressee"]:
            return Prompt(version=version, excluded="addressee_missing")
    text = texts.fill(wording, **fields)
    # The field precedes everything that comes from the data, so its first occurrence is ours.
    before, field, after = text.partition("{caption}")
    parts: tuple[Part | str, ...] = (text,)
    first: tuple[Step, ...] = ()
    if query.setting == CAPTIONED:
        caption = (query.captions or {}).get(_picture(sample).source, "").strip()
        if not caption:
            return Prompt(version=version, excluded="no_captioner" if query.captions is None else "caption_missing")
        parts = (f"{before}{caption if field else ''}{after}",)
    elif setting.startswith("vlm"):
        parts = (_picture(sample), text)
    elif setting.startswith("sm"):
        first = (caption_step(sample, texts.fill(CAPTION), generation),)
        version = f"{version}, {texts.version(CAPTION)}"
        parts = (before, StepOutput(0, stripped=True), after) if field else parts
    choices = LETTERS if task == "mcq" else ()
    return Prompt(version=version, steps=(*first, Step(turns=(user(*parts),), generation=generation, choices=choices)))


def caption_step(sample: Sample, prompt: str, generation: Generation) -> Step:
    """Return the request for a description of the picture."""
    return Step(turns=(user(_picture(sample), prompt),), generation=generation)


def _picture(sample: Sample) -> Media:
    ref = sample.ref("picture")
    if ref is None:
        raise DatasetError(f"{sample.sample_id}: no picture; ingest again")
    return Media("image", ref.sha256)
