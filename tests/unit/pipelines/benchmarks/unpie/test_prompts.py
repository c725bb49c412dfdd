"""UNPIE's prompts: order of the parts, variants, captions, exclusions."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import pytest

from models.messages import Generation, Media, Text
from pipelines.benchmarks.base import PromptInput
from pipelines.benchmarks.prompt_templates import PromptTexts
from pipelines.benchmarks.records import Prompt, Sample
from pipelines.benchmarks.unpie.benchmark import BENCHMARK
from tests.support.unpie_rows import SIX, in_order, pictured

TEXTS = PromptTexts(BENCHMARK.prompt_texts)
LANGUAGE_OF_VARIANT = list(zip(SIX, ["German"] * 2 + ["French"] * 2 + ["Korean"] * 2, strict=True))
CELLS = [(task, setting) for task, settings in BENCHMARK.tasks.items() for setting in settings]

CAPTIONS = {name * 64: f"a caption of {name}\nin two lines" for name in "e01"}


def prompts(
    task: str, setting: str, of: Sample | None = None, captions: Mapping[str, str] | None = CAPTIONS
) -> list[Prompt]:
    return list(
        BENCHMARK.prompts(PromptInput(of or pictured(), task, setting, texts=TEXTS, seed=42, captions=captions))
    )


def media_and_text(prompt: Prompt) -> tuple[list[str], str]:
    """Return the pictures, which come first, and the text."""
    (turn,) = prompt.steps[0].turns
    media = [part.source[0] for part in turn.parts if isinstance(part, Media)]
    assert isinstance(turn.parts[-1], Text)
    assert all(isinstance(part, Media) for part in turn.parts[:-1])
    return media, turn.parts[-1].text


def test_prompts_count_the_requests_of_the_full_set() -> None:
    requests = Counter({cell: 1000 * len(prompts(*cell)) for cell in CELLS})
    pictures = Counter({cell: 1000 * sum(bool(media_and_text(p)[0]) for p in prompts(*cell)) for cell in CELLS})
    assert requests == {
        **{("grounding", setting): 1000 for setting in ("lm", "sm", "vlm")},
        **{("disambiguation", setting): 6000 for setting in ("sm", "vlm")},
        **{("reconstruction", setting): 6000 for setting in ("lm", "sm", "vlm")},
    }
    assert requests.total() == 33_000
    assert +pictures == {("grounding", "vlm"): 1000, ("disambiguation", "vlm"): 6000, ("reconstruction", "vlm"): 6000}
    shared = Counter(
        media_and_text(p)[0][0] for task, setting in CELLS if setting == "vlm" for p in prompts(task, setting)
    )
    assert shared == {"e": 7, "0": 3, "1": 3}
    assert len(BENCHMARK.captions.steps(pictured(), "sm")) == 3


@pytest.mark.parametrize("cell", CELLS)
def test_prompts_have_variants_versions_and_limits(cell: tuple[str, str]) -> None:
    cell_prompts = prompts(*cell)
    assert tuple(p.variant for p in cell_prompts) == (("",) if cell[0] == "grounding" else SIX)
    assert {p.version for p in cell_prompts} == {f"unpie-{cell[0]}-{cell[1]}-v1"}
    assert {p.steps[0].generation for p in cell_prompts} == {Generation(max_new_tokens=200)}
    for prompt in cell_prompts:
        assert "{" not in media_and_text(prompt)[1]


def test_grounding_prompt_has_its_parts_in_order() -> None:
    data = pictured().data
    contexts = {"lm": "rests on, and", "sm": '"a caption of e in two lines"', "vlm": "the picture above"}
    for setting, context in contexts.items():
        media, text = media_and_text(prompts("grounding", setting)[0])
        assert media == (["e"] if setting == "vlm" else [])
        in_order(text, f"[sentence]: {data['sentence']}", "is a pun", "word or phrase", context)
        in_order(text, context, "alone", "no explanation", "[answer]:")
        assert text.endswith("[answer]:")


@pytest.mark.parametrize(("variant", "language"), LANGUAGE_OF_VARIANT)
def test_disambiguation_prompt_has_its_parts_in_order(variant: str, language: str) -> None:
    for setting, context in (("sm", f'"a caption of {variant[-1]} in two lines"'), ("vlm", "the picture above")):
        (prompt,) = (p for p in prompts("disambiguation", setting) if p.variant == variant)
        media, text = media_and_text(prompt)
        assert media == ([variant[-1]] if setting == "vlm" else [])
        in_order(text, f"[English]: {pictured().data['sentence']}", f"into {language}", context, f"[{language}]:")
        assert text.endswith(f"[{language}]:")
        assert not any(word in text.lower() for word in ("pun", "sense", "ambig", "meaning"))


@pytest.mark.parametrize(("variant", "language"), LANGUAGE_OF_VARIANT)
def test_reconstruction_prompt_has_its_parts_in_order(variant: str, language: str) -> None:
    translation = pictured().data["translation"][int(variant[-1])][variant[:2]]
    plain = next(p for p in prompts("reconstruction", "lm") if p.variant == variant)
    head = media_and_text(plain)[1].partition("Reply")[0]
    in_order(head, f"{language} sentence", "into English", "pun", f'[{language}]: "{translation}"')
    assert media_and_text(plain)[1].endswith("[English]:")
    for setting, context in (("sm", "a caption of e in two lines"), ("vlm", "the picture above")):
        media, text = media_and_text(next(p for p in prompts("reconstruction", setting) if p.variant == variant))
        assert media == (["e"] if setting == "vlm" else [])
        assert text.startswith(head + f"\n[Image Description]: {context}\n")
        in_order(text, "covers both senses", "guide the pun", "[English]:")
        assert text.endswith("[English]:")


@pytest.mark.parametrize("task", ["grounding", "disambiguation", "reconstruction"])
def test_vlm_prompt_differs_from_sm_only_in_the_caption(task: str) -> None:
    for with_caption, with_picture in zip(prompts(task, "sm"), prompts(task, "vlm"), strict=True):
        caption = f"a caption of {media_and_text(with_picture)[0][0]} in two lines"
        quoted = f'"{caption}"' if task != "reconstruction" else caption
        pointer = "above" if task != "reconstruction" else "the picture above"
        assert media_and_text(with_caption)[1].replace(quoted, pointer) == media_and_text(with_picture)[1]


def test_prompt_keeps_braces_of_the_data() -> None:
    text = media_and_text(prompts("grounding", "sm", pictured(sentence="A {caption} {pun}."))[0])[1]
    assert "[sentence]: A {caption} {pun}." in text


def test_random_choices_are_words_or_translations() -> None:
    pun = pictured()
    assert prompts("grounding", "lm")[0].steps[0].choices == tuple(pun.data["sentence"].split())
    for prompt in prompts("disambiguation", "vlm"):
        assert prompt.steps[0].choices == tuple(pair[prompt.variant[:2]] for pair in pun.data["translation"])


@pytest.mark.parametrize("cell", CELLS)
def test_excluded_prompt_carries_the_reason(cell: tuple[str, str]) -> None:
    task, setting = cell
    bare = replace(pictured(), media=())
    for captions, sample, reason in (
        (CAPTIONS, bare, "image_missing"),
        (None, pictured(), "no_captioner"),
        ({}, pictured(), "caption_missing"),
        ({name * 64: "  " for name in "e01"}, pictured(), "caption_missing"),
    ):
        concerned = setting == "sm" or (setting == "vlm" and reason == "image_missing")
        cell_prompts = prompts(task, setting, sample, captions)
        assert {p.excluded for p in cell_prompts} == {reason if concerned else ""}
        assert len(cell_prompts) == (1 if task == "grounding" else 6)
        assert all(bool(p.steps) != bool(p.excluded) for p in cell_prompts)


def test_missing_picture_excludes_its_three_variants() -> None:
    pun = pictured()
    pun = replace(pun, media=pun.media[:2])
    assert [p.excluded for p in prompts("disambiguation", "vlm", pun)] == ["", "image_missing"] * 3
    assert {p.excluded for p in prompts("reconstruction", "vlm", pun)} == {""}


def test_missing_translation_excludes_the_variants_that_need_it() -> None:
    pun = pictured()
    pairs = [dict(pair) for pair in pun.data["translation"]]
    pairs[1]["fr"] = ""
    pun = replace(pun, data={**pun.data, "translation": pairs, "phrase": ""})
    missing = "translation_missing"
    assert [p.excluded for p in prompts("disambiguation", "vlm", pun)] == ["", "", missing, missing, "", ""]
    assert [p.excluded for p in prompts("reconstruction", "lm", pun)] == ["", "", "", missing, "", ""]
    assert [p.excluded for p in prompts("grounding", "lm", pun)] == ["phrase_missing"]


def test_captions_are_requested_once_per_picture_without_text() -> None:
    pun = pictured()
    pun = replace(pun, media=(*pun.media, replace(pun.media[0], role="again")))
    steps = BENCHMARK.captions.steps(pun, "sm")
    shown = [[part.source[0] for part in step.turns[0].parts if isinstance(part, Media)] for step in steps]
    assert shown == [["e"], ["0"], ["1"]]
    assert all(len(step.turns[0].parts) == 1 and step.generation == Generation(max_new_tokens=50) for step in steps)
    assert all(step.choices == ("A picture.",) for step in steps)
    assert BENCHMARK.captions.steps(pun, "vlm") == ()
