"""Build UNPIE's prompts. The wording is ours (`prompts.yaml`); the paper's appendix gives the content and its order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from models.messages import Generation, Media, Part, Step, user
from pipelines.benchmarks.prompt_templates import PromptTexts, load_texts
from pipelines.benchmarks.records import Prompt, Sample
from pipelines.benchmarks.text_cleaning import collapsed
from pipelines.benchmarks.unpie.column_map import LANGUAGES
from pipelines.benchmarks.unpie.source import EXPLANATION, disambiguator

VARIANTS: Final = tuple((lang, meaning) for lang in LANGUAGES for meaning in range(2))
"""Language and meaning of the six variants, in order."""
CAPTION: Final = Generation(max_new_tokens=50)
JUDGE: Final = "unpie-judge-v1"
TRANSLATION_JUDGE: Final = "unpie-judge-translation-v1"
PROMPT_TEXTS: Final = load_texts(__package__)
PROMPT_SETS: Final[Mapping[str, Mapping[str, str]]] = {
    "paper": {f"{name.removesuffix('-paper')}-v1": name for name in PROMPT_TEXTS if name.endswith("-paper")}
}
"""Name of a set of wordings -> versions used in place of ours: `--prompt-version unpie-grounding-lm-v1=...-paper`."""


def unpie_prompts(
    sample: Sample,
    cell: tuple[str, str],
    *,
    texts: PromptTexts,
    generation: Generation,
    captions: Mapping[str, str] | None,
) -> Iterator[Prompt]:
    """Yield the requests of one sample in one cell, a task and a setting; excluded ones carry the reason."""
    task, setting = cell
    version = f"unpie-{task}-{setting}-v1"
    for variant in ("",) if task == "grounding" else (f"{lang}/{meaning}" for lang, meaning in VARIANTS):
        version_name = texts.version(version)
        missing = _missing_text(sample, task, variant)
        context = _context(sample, task, setting, variant, captions)
        if missing or isinstance(context, str):
            yield Prompt(variant=variant, version=version_name, excluded=missing or str(context))
            continue
        parts, caption = context
        prompt = texts.fill(version, **_fields(sample, task, variant), **caption)
        step = Step(
            turns=(user(*parts, prompt),), generation=generation, choices=_random_choices(sample, task, variant)
        )
        yield Prompt(variant=variant, version=version_name, steps=(step,))


def caption_steps(sample: Sample) -> Iterator[Step]:
    """Yield one step per picture, without text; engines that see no pictures answer "A picture."."""
    for sha256 in dict.fromkeys(ref.sha256 for ref in sample.media):
        yield Step(turns=(user(Media("image", sha256)),), generation=CAPTION, choices=("A picture.",))


def _missing_text(sample: Sample, task: str, variant: str) -> str:
    data = sample.data
    if task == "grounding":
        return "" if data["phrase"] else "phrase_missing"
    lang, meaning = variant.split("/")
    needed = range(2) if task == "disambiguation" else (int(meaning),)
    return "" if all(data["translation"][i][lang] for i in needed) else "translation_missing"


def _context(
    sample: Sample, task: str, setting: str, variant: str, captions: Mapping[str, str] | None
) -> tuple[tuple[Part, ...], dict[str, str]] | str:
    """Return the picture before the text and the caption field, or the reason why there is none."""
    if setting == "lm":
        return (), {}
    ref = sample.ref(disambiguator(int(variant[-1])) if task == "disambiguation" else EXPLANATION)
    if ref is None:
        return "image_missing"
    if setting == "vlm":
        return (Media("image", ref.sha256),), {}
    if captions is None:
        return "no_captioner"
    caption = collapsed(captions.get(ref.sha256, ""))
    return ((), {"caption": caption}) if caption else "caption_missing"


def _fields(sample: Sample, task: str, variant: str) -> dict[str, str]:
    sentence = str(sample.data["sentence"])
    if task == "grounding":
        return {"sentence": sentence}
    lang, meaning = variant.split("/")
    if task == "disambiguation":
        return {"sentence": sentence, "language": LANGUAGES[lang]}
    return {"translation": sample.data["translation"][int(meaning)][lang], "language": LANGUAGES[lang]}


def _random_choices(sample: Sample, task: str, variant: str) -> tuple[str, ...]:
    if task == "grounding":
        return tuple(sample.data["sentence"].split())
    if task == "disambiguation":
        return tuple(pair[variant[:2]] for pair in sample.data["translation"])
    return ()
