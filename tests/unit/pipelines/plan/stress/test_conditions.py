"""Conditions of a stress test: which option stands where, and which pixels are shown."""

from __future__ import annotations

from dataclasses import replace

import pytest

from models.messages import Media, Step, Text
from pipelines.benchmarks import benchmark, table_benchmark
from pipelines.benchmarks.base import BenchmarkDefinition, PromptInput
from pipelines.benchmarks.known_tables import TableDefinition
from pipelines.benchmarks.prompt_templates import PromptTexts
from pipelines.benchmarks.records import MediaRef, Prompt, Sample
from pipelines.errors import UnknownNameError, UsageError
from pipelines.plan.stress.conditions import LETTERS_NOT_FOUND, Condition, asked_sample, is_change, options_of
from tests.support.vague_source import sample as vague_sample

TABLE = table_benchmark(TableDefinition(name="colours", kind="choice", has_media=True))
PICTURE = MediaRef(role="media/0", kind="image", sha256="ab", extension="png", bytes=9, width=40, height=30)
QUESTION = Sample(
    sample_id="q1",
    media=(PICTURE,),
    data={"question": "Which?", "options": ["red", "green", "blue", "grey"], "gold": 0, "answers": ["A"]},
)


def prompts(definition: BenchmarkDefinition, sample: Sample, condition: str, task: str, setting: str) -> list[Prompt]:
    query = PromptInput(sample, task, setting, PromptTexts(definition.prompt_texts), seed=42)
    return list(Condition.parse(condition).prompts(definition, query))


def text_of(prompt: Prompt) -> str:
    return "\n".join(part.text for turn in prompt.steps[-1].turns for part in turn.parts if isinstance(part, Text))


def option_lines(prompt: Prompt) -> list[str]:
    return [line for line in text_of(prompt).splitlines() if line[1:2] in (".", ":") and line[0] in "ABCD"]


def test_names_have_defaults_and_limits() -> None:
    assert [str(Condition.parse(name)) for name in ("order", "jpeg", "frames", "pixels-50", "letters-2")] == [
        *("order-1", "jpeg-30", "frames-50", "pixels-50", "letters-2")
    ]
    with pytest.raises(UnknownNameError, match="unknown condition 'ordr'; did you mean 'order'"):
        Condition.parse("ordr")
    for name in ("jpeg-0", "jpeg-96", "order-x"):
        with pytest.raises(UsageError, match="from 1 to 9"):
            Condition.parse(name)


def test_order_moves_every_option_and_the_right_letter_with_it() -> None:
    (prompt,) = prompts(TABLE, QUESTION, "order", "choice", "default")
    moved = Condition.parse("order").sample(TABLE, QUESTION, 42)
    assert option_lines(prompt) == ["A. blue", "B. grey", "C. red", "D. green"]
    texts = [line[3:] for line in option_lines(prompt)]
    assert sorted(texts) == sorted(QUESTION.data["options"])
    assert all(a != b for a, b in zip(texts, QUESTION.data["options"], strict=True))
    assert texts[moved.data["gold"]] == "red"
    assert prompt.version == "table-choice-v1+order-1"
    assert prompts(TABLE, QUESTION, "order-2", "choice", "default") != [prompt]
    assert prompts(TABLE, QUESTION, "order", "choice", "default") == [prompt]


def test_letters_keep_the_places_in_every_rotation_or_are_not_asked() -> None:
    (prompt,) = prompts(TABLE, QUESTION, "letters", "choice", "default")
    assert option_lines(prompt) == ["C. red", "D. green", "A. blue", "B. grey"]
    (ordered,) = prompts(TABLE, QUESTION, "order", "choice", "default")
    assert sorted(option_lines(prompt)) == sorted(option_lines(ordered))
    assert text_of(prompt).splitlines()[0] == "Which?"
    rotations = prompts(TABLE, QUESTION, "letters", "choice", "circular")
    assert [prompt.variant for prompt in rotations] == ["0", "1", "2", "3"]
    assert [option_lines(prompt)[0][3:] for prompt in rotations] == QUESTION.data["options"]
    definition = table_benchmark(TableDefinition(name="inline", kind="choice", prompt="{question} Say {options}!"))
    (prompt,) = prompts(definition, replace(QUESTION, media=()), "letters", "choice", "default")
    assert (prompt.excluded, prompt.steps) == (LETTERS_NOT_FOUND, ())


def test_vague_keeps_the_right_reading_and_what_a_condition_leaves_is_the_same_request() -> None:
    vague, sample = benchmark("vague"), vague_sample()
    readings = options_of(vague, sample, "mcq", "vlm")
    for name in ("order", "letters"):
        (prompt,) = prompts(vague, sample, name, "mcq", "vlm")
        moved = asked_sample(vague, sample, prompt.version, 42)
        after = options_of(vague, moved, "mcq", "vlm")
        assert all(readings[letter] != after[letter] for letter in "ABCD")
        assert after[moved.data["ordering"][0]] == sample.data["readings"]["correct"]
        shown = [line[3:] for line in option_lines(prompt)]
        assert shown == [*(readings if name == "letters" else after).values()]
    for name, task, setting in (("order", "freeform", "vlm"), ("jpeg", "mcq", "lm"), ("frames", "mcq", "vlm")):
        (prompt,) = prompts(vague, sample, name, task, setting)
        query = PromptInput(sample, task, setting, PromptTexts(vague.prompt_texts), seed=42)
        assert [prompt] == list(vague.prompts(query))
        assert asked_sample(vague, sample, prompt.version, 42) is sample


def test_media_are_changed_by_name_and_keep_their_file() -> None:
    def media(step: Step) -> list[Media]:
        return [part for turn in step.turns for part in turn.parts if isinstance(part, Media)]

    (prompt,) = prompts(TABLE, QUESTION, "jpeg-10", "choice", "default")
    assert media(prompt.steps[0]) == [Media("image", "ab~jpeg-10")]
    assert (media(prompt.steps[0])[0].file, media(prompt.steps[0])[0].change) == ("ab", "jpeg-10")
    clip = replace(QUESTION, media=(replace(PICTURE, kind="video", frames=90),))
    (moved,) = prompts(TABLE, clip, "frames", "choice", "default")
    assert media(moved.steps[0]) == [Media("video", "ab~frames-50", 32)]
    short = replace(QUESTION, media=(replace(PICTURE, kind="video", frames=32),))
    (whole,) = prompts(TABLE, short, "frames", "choice", "default")
    assert media(whole.steps[0]) == [Media("video", "ab", 32)]


def test_spans_of_clips_are_changed_too() -> None:
    clip = replace(PICTURE, kind="video", frames=90, fps=10.0)
    spanned = replace(QUESTION, media=(clip,), data={**QUESTION.data, "span": [1.0, 5.0]})
    (prompt,) = prompts(TABLE, spanned, "jpeg-10", "choice", "default")
    assert prompt.steps[0].turns[0].parts[0] == Media("video", "ab~span-10-50~jpeg-10", 32)
    assert all(is_change(text) for text in ("span-10-50~jpeg-10", "span-10-50", "jpeg-10"))
    assert not any(is_change(text) for text in ("span-10", "span-10-50~x", "../x", "span-10-50~"))
