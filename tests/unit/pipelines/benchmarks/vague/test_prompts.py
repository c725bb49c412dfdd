"""VAGUE's prompts and how its answers become scores."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.messages import Media, StepOutput, Text
from pipelines.benchmarks.base import PromptInput
from pipelines.benchmarks.prompt_templates import PromptTexts
from pipelines.benchmarks.records import Row
from pipelines.benchmarks.vague.benchmark import BENCHMARK
from pipelines.benchmarks.vague.prompts import action, addressee
from tests.support.sweeps import answered_row
from tests.support.vague_source import sample

TEXTS = PromptTexts(BENCHMARK.prompt_texts)
SETTINGS = BENCHMARK.tasks["freeform"]
LEAKS = ("the caption leaks", "please", "parrot sits")


# ----------------------------------------------------------------------------------------------- prompts


@pytest.mark.parametrize("task", ["mcq", "freeform"])
@pytest.mark.parametrize("setting", SETTINGS)
def test_prompt_has_its_parts_in_order(task: str, setting: str) -> None:
    item = sample()
    (prompt,) = BENCHMARK.prompts(PromptInput(item, task, setting, texts=TEXTS, seed=1))
    assert all(len(step.turns) == 1 and step.turns[0].role == "user" for step in prompt.steps)
    assert all((step.generation.max_new_tokens, step.generation.temperature) == (1024, 0.0) for step in prompt.steps)
    parts = prompt.steps[-1].turns[0].parts
    text = "".join(
        part.text if isinstance(part, Text) else "<CAPTION>" for part in parts if not isinstance(part, Media)
    )
    assert [isinstance(part, Media) for part in parts] == [setting.startswith("vlm"), *[False] * (len(parts) - 1)]
    cot, source = setting.endswith("-cot"), setting.removesuffix("-cot")
    pieces = ["intention", "definite act", *(["Explain your reasoning"] if cot else [])]
    pieces += ["15 words"] if task == "freeform" and not cot else []
    pieces += ["\n\n"] + (["Scene description: <CAPTION>\n"] if source == "sm" else [])
    pieces += ["Utterance: person1, it is rather cold in here, number 2."]
    if task == "mcq":
        # ordering [C, A, B, D]: the correct reading is C, FS is A, SU is B.
        pieces += ["\nReadings:\nA: The speaker wants person1 to feed", "\nB: The speaker wants person1 to feel"]
        pieces += [
            f"\n{letter}: The speaker wants person1 to bring the {what}"
            for letter, what in (("C", "win"), ("D", "cur"))
        ]
    pieces += ["\n\n"] + (["Answer 1 (reasoning)", "Let's think step by step", "Answer 2 (intention)"] if cot else [])
    pieces += ["letter"] if task == "mcq" else [*(["15 words"] if cot else []), '"The speaker wants person1 to"']
    position = 0
    for piece in pieces:
        assert piece in text[position:], piece
        position = text.index(piece, position) + len(piece)
    assert ("underlying intention" in text) == (source != "lm")
    assert ("apt for the situation" in text) == (source != "lm")
    named = {"vlm": "image", "sm": "scene description"}.get(source)
    assert named is None or f"ONLY WHAT THE {named.upper()} SHOWS" in text
    assert source == "vlm" or "image" not in text.lower()
    assert not any(leak in text for leak in LEAKS)
    assert prompt.steps[-1].choices == (("A", "B", "C", "D") if task == "mcq" else ())


@pytest.mark.parametrize("task", ["mcq", "freeform"])
def test_sm_prompts_share_one_caption_step(task: str) -> None:
    item = sample()
    first = {}
    for setting in ("sm", "sm-cot"):
        (prompt,) = BENCHMARK.prompts(PromptInput(item, task, setting, texts=TEXTS, seed=1))
        caption, last = prompt.steps
        image, question = caption.turns[0].parts
        assert isinstance(image, Media)
        assert isinstance(question, Text)
        assert "2-3 sentences" in question.text
        assert not any(word in question.text.lower() for word in ("person", "tag", "number", "utterance"))
        assert [part for part in last.turns[0].parts if isinstance(part, StepOutput)] == [StepOutput(0, stripped=True)]
        first[setting] = caption
    assert first["sm"] == first["sm-cot"]


@pytest.mark.parametrize("task", ["mcq", "freeform"])
def test_prompts_share_a_prefix_with_and_without_reasoning(task: str) -> None:
    plain, cot = (
        next(iter(BENCHMARK.prompts(PromptInput(sample(), task, s, texts=TEXTS, seed=1)))).steps[-1].turns[0].parts[1]
        for s in ("vlm", "vlm-cot")
    )
    assert isinstance(plain, Text)
    assert isinstance(cot, Text)
    assert cot.text.startswith(plain.text[: plain.text.index("the listener")])


def test_prompt_keeps_braces_of_the_data() -> None:
    item = sample(indirect="a {caption} and {A} and {utterance}")
    (prompt,) = BENCHMARK.prompts(PromptInput(item, "mcq", "sm", texts=TEXTS, seed=1))
    before, _, after = prompt.steps[-1].turns[0].parts
    assert isinstance(before, Text)
    assert isinstance(after, Text)
    assert "a {caption} and {A} and {utterance}" in after.text


@pytest.mark.parametrize("solution", ["", "()", "( , open, door)"])
def test_freeform_prompt_without_addressee_is_excluded(solution: str) -> None:
    item = sample(solution=solution)
    (free,) = BENCHMARK.prompts(PromptInput(item, "freeform", "vlm", texts=TEXTS, seed=1))
    (choice,) = BENCHMARK.prompts(PromptInput(item, "mcq", "vlm", texts=TEXTS, seed=1))
    assert (free.excluded, choice.excluded) == ("addressee_missing", "")


# ----------------------------------------------------------------------------------------------- answers


def answered(output: str | None, *, task: str = "mcq", setting: str = "vlm", **more: Any) -> Any:
    return BENCHMARK.reading(answered_row(sample(), task, setting, output, **more))


@pytest.mark.parametrize(
    ("output", "setting", "letter", "rule", "flags", "correct"),
    [
        ("C", "vlm", "C", "R1", (), 1.0),
        ("The answer is A", "lm", "A", "R3", (), 0.0),
        ("I don't know.", "vlm", None, "none", ("invalid:refusal",), 0.0),
        ("A or C", "vlm", None, "R0", ("invalid:multiple",), 0.0),
        ("Answer 1: cold.\nAnswer 2 (intention): C", "vlm-cot", "C", "R1", (), 1.0),
        ("", "sm", None, "none", ("invalid:empty",), 0.0),
    ],
)
def test_read_answer_parses_a_choice(
    output: str, setting: str, letter: str, rule: str, flags: Any, correct: float
) -> None:
    reading = answered(output, setting=setting)
    assert (reading.answer, reading.rule, reading.flags, reading.values) == (letter, rule, flags, {"correct": correct})


def test_read_answer_flags_an_empty_caption() -> None:
    reading = answered("C", setting="sm-cot", steps=(" \n",))
    assert (reading.flags, reading.values) == (("caption_empty",), {"correct": 1.0})
    assert answered("C", setting="sm", steps=("A room.",)).flags == ()


def test_read_answer_scores_freeform_against_the_correct_reading() -> None:
    right = "The speaker wants person1 to bring the window 2."
    reading = answered(right, task="freeform", given={"bertscore_f1": 0.97, "bertscore_f1_rescaled": 0.8})
    assert reading.values == {"bleu1": 1.0, "bleu1_noopener": 1.0, "bert_f1_raw": 0.97, "bert_f1": 0.8}
    empty = answered("", task="freeform")
    assert (empty.answer, empty.values) == ("", {"bleu1": 0.0, "bleu1_noopener": 0.0})


@pytest.mark.parametrize(
    ("sentence", "bleu1", "without"),
    [
        ("The speaker wants person2 to close the fridge door.", 1.0, 1.0),
        ("The speaker wants person2 to shut the fridge.", 0.7954, 0.5841),
        ("Close the door", 0.0970, None),
        ("", 0.0, 0.0),
    ],
)
def test_bleu1_equals_the_worked_sentences(sentence: str, bleu1: float, without: float | None) -> None:
    readings = {"correct": "The speaker wants person2 to close the fridge door.", "fs": "x", "su": "y", "ne": "z"}
    values = BENCHMARK.reading(answered_row(sample(readings=readings), "freeform", "lm", sentence)).values
    assert values["bleu1"] == pytest.approx(bleu1, abs=5e-5)
    assert without is None or values["bleu1_noopener"] == pytest.approx(without, abs=5e-5)


@given(st.text())
def test_triplet_parsers_accept_any_text(text: str) -> None:
    assert addressee(text) == addressee(text).strip()
    assert action(text) == action(text).strip()
    assert "," not in addressee(text) + action(text)


@pytest.mark.parametrize("text", ["(person1, open, umbrella)", " ( person1 ,open , a, b) ", "person1, open"])
def test_triplet_parsers_return_addressee_and_action(text: str) -> None:
    assert (addressee(text), action(text)) == ("person1", "open")


def test_similarity_is_requested_for_freeform_answers_only() -> None:
    def row_of(task: str, status: str) -> Row:
        output = "answer1: It is dark.\nanswer2: The speaker wants person1 to light the lamp."
        return answered_row(sample(), task, "vlm-cot", output, status=status)

    (ask,) = BENCHMARK.similarity(row_of("freeform", "ok"))
    assert (ask.column, ask.scorer, ask.rescaled) == ("bertscore_f1", "bertscore", "bertscore_f1_rescaled")
    assert ask.candidate == "The speaker wants person1 to light the lamp."
    assert ask.references == ("The speaker wants person1 to bring the window 2.",)
    assert not BENCHMARK.similarity(row_of("mcq", "ok"))
    assert not BENCHMARK.similarity(row_of("freeform", "error"))
