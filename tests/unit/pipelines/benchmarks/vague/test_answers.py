"""Reading VAGUE's answers: letters in every form, and reasoning that is left out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.benchmarks.vague.answers import parse_choice
from tests.unit.pipelines.benchmarks.test_odd_answers import READINGS

PIECES = [
    *"ABCDEabcd1 \n,.:()[]\"'-/&*`#}",
    *("answer", "Answer 2", "option", "is", "or", "and", "a person", "letter", "sorry", "I cannot say", "\n\n", " - "),
    *("(intention)", "<think>", "</think>", "<|im_end|>", "\u200b", "’", "Ｂ", "The speaker wants", "\\boxed{"),
    *READINGS.values(),
]
ANSWERS = st.one_of(st.text(), st.lists(st.sampled_from(PIECES), max_size=30).map("".join))
PLAIN = ["{}", "({})", "**{}**", "{}.", "{}) because", "The answer is {}.", "Answer: {}", "`{}`", "<answer>{}</answer>"]
COT = ["Answer 1: A or B?\nAnswer 2: {}", "It is cold.\n\n{}", "**Your answer2 (intention):** {}", "(intention): ({})"]


@pytest.mark.parametrize("letter", "ABCD")
def test_parse_choice_reads_every_letter_in_every_form(letter: str) -> None:
    for template in PLAIN:
        assert parse_choice(template.format(letter), READINGS, cot=False).letter == letter
    for template in (*PLAIN, *COT):
        assert parse_choice(template.format(letter), READINGS, cot=True).letter == letter
    wording = f"It seems that {READINGS[letter].rstrip('.').lower()} now"
    assert parse_choice(wording, READINGS, cot=False).letter == letter


def test_parse_choice_reads_the_wording_of_one_reading_only() -> None:
    twice = {"A": "Go.", "B": "go", "C": "Stay.", "D": ""}
    assert parse_choice("Go!", twice, cot=False).invalid_reason == "multiple"
    assert parse_choice("Stay", twice, cot=False).letter == "C"
    nested = {"A": "Shut the window.", "B": "Shut the window now.", "C": "Wait.", "D": "Run."}
    assert parse_choice("shut the window", nested, cot=False).letter == "A"
    assert parse_choice("please shut the window now", nested, cot=False).invalid_reason == "multiple"


@given(ANSWERS, st.sampled_from("ABCD"), st.booleans())
def test_parse_choice_ignores_reasoning(raw: str, letter: str, cot: bool) -> None:
    assert parse_choice(f"<think>{raw}</think>{letter}", READINGS, cot=cot).letter == letter
    assert parse_choice(f"{raw}<think>{raw.replace('</think>', '')}", READINGS, cot=cot).letter is None
