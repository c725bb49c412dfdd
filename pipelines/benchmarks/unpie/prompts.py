"""Build UNPIE's prompts. The wording is ours (`prompts.yaml`); the paper's appendix gives the content and its order."""

from collections.abc import Iterator, Mapping
from typing import Final

from models.messages import Generation, Media, Part, Step, user
from pipelines.benchmarks.base import PromptInput
from pipelines.benchmarks.prompt_templates import load_texts
from pipelines.benchmarks.records import Prompt, Sample
from pipelines.benchmarks.text_cleaning import collapsed
from pipelines.benchmarks.unpie.files import LANGUAGES
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


def unpie_prompts(query: PromptInput, generation: Generation) -> Iterator[Prompt]:
    """Yield the requests of one sample in one task and setting; excluded ones carry the reason."""
    sample, task = query.sample, query.task
    wording = f"unpie-{task}-{query.setting}-v1"
    version = query.texts.version(wording)
    for variant in ("",) if task == "grounding" else (f"{lang}/{meaning}" for lang, meaning in VARIANTS):
        missing, fields, choices = _words(sample, task, variant)
        context = _context(sample, task, query.setting, variant, query.captions)
        if missing or isinstance(context, str):
            yield Prompt(variant=variant, version=version, excluded=missing or str(context))
            continue
        parts, caption = context
        prompt = query.texts.fill(wording, **fields, **caption)
        step = Step(turns=(user(*parts, prompt),), generation=generation, choices=choices)
        yield Prompt(variant=variant, version=version, steps=(step,))


def caption_steps(sample: Sample) -> list[Step]:
    """Return one step per picture, without text; engines that see no pictures answer "A picture."."""
    return [
        Step(turns=(user(Media("image", sha256)),), generation=CAPTION, choices=("A picture.",))
        for sha256 in dict.fromkeys(ref.sha256 for ref in sample.media)
    ]


def _words(sample: Sample, task: str, variant: str) -> tuple[str, dict[str, str], tuple[str, ...]]:
    """Return which text is missing, the fields of the prompt, and the answers that a random model chooses from."""
    data, sentence = sample.data, str(sample.data["sentence"])
    if task == "grounding":
        return "" if data["phrase"] else "phrase_missing", {"sentence": sentence}, tuple(sentence.split())
    lang, meaning = variant.split("/")
    translations = tuple(pair[lang] for pair in data["translation"])
    if task == "disambiguation":
        fields, choices = {"sentence": sentence, "language": LANGUAGES[lang]}, translations
    else:
        translations = (translations[int(meaning)],)
        fields, choices = {"translation": translations[0], "language": LANGUAGES[lang]}, ()
    return "" if all(translations) else "translation_missing", fields, choices


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
