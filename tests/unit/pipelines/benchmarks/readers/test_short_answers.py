"""Short answers: what a reply says, and which phrases are the same."""

from __future__ import annotations

import difflib
from random import Random
from time import process_time

import pytest

from pipelines.benchmarks.readers.amounts import is_exact_gold, is_within, parse_number, read_number
from pipelines.benchmarks.readers.option_letters import letter_reader
from pipelines.benchmarks.readers.short_answers import (
    anls,
    edit_distance,
    normalized,
    phrase,
    read_label,
    read_yes_no,
    vqa_accuracy,
)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("The Red Car.", "red car"),
        ("twenty-one", "21"),
        ("two dogs", "2 dogs"),
        ("one hundred dogs", "100 dogs"),
        ("1,000", "1000"),
        ("it's", "its"),
        ("caf\u00e9", "cafe\u0301"),
        ("\uff21\uff22", "ab"),
        ("a dog, and a cat", "dog and cat"),
        ("“Stop!”", "stop"),
    ],
)
def test_phrases_that_are_the_same(first: str, second: str) -> None:
    assert normalized(first) == normalized(second)


@pytest.mark.parametrize(
    ("first", "second"), [("3.5", "35"), ("1.000", "1,000"), ("the", "a"), ("cat", "cats"), ("?", "!"), ("+", "")]
)
def test_phrases_that_differ(first: str, second: str) -> None:
    assert normalized(first) != normalized(second)


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        ("The answer is red.", "red"),
        ("Answer: two dogs", "two dogs"),
        ('"Paris"', "Paris"),
        (" So the final answer is: x ", "x"),
    ],
)
def test_a_phrase_stands_without_its_lead(reply: str, text: str) -> None:
    assert phrase(reply) == text


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("Yes", "yes"),
        ("no.", "no"),
        ("Yes, there is no car.", "yes"),
        ("The answer is no", "no"),
        ("There is one, so the answer is: yes", "yes"),
        ("True", "yes"),
        ("I cannot say", None),
        ("It may be yes or no", None),
        ("", None),
        ("Nobody knows", None),
    ],
)
def test_yes_or_no(reply: str, answer: str | None) -> None:
    assert read_yes_no(reply) == answer


@pytest.mark.parametrize(
    ("reply", "label"),
    [
        ("red", "red"),
        ("It is dark red.", "dark red"),
        ("red or blue", None),
        ("The answer is blue, not red", "blue"),
        ("green", None),
    ],
)
def test_labels(reply: str, label: str | None) -> None:
    assert read_label(reply, ("red", "dark red", "blue")) == label


@pytest.mark.parametrize(
    ("reply", "label"),
    [("C++", "C++"), ("c", "C"), ("It is C++.", "C++"), ("The answer is C#, not C", "C#"), ("C or C++", None)],
)
def test_labels_that_differ_by_signs(reply: str, label: str | None) -> None:
    assert read_label(reply, ("C", "C++", "C#")) == label


@pytest.mark.parametrize(
    ("reply", "number"),
    [
        ("42", 42.0),
        ("The answer is 1,234.5.", 1234.5),
        ("three", 3.0),
        ("twenty-two apples", 22.0),
        ("$12", 12.0),
        ("-5%", -5.0),
        ("12 of 15, so the answer is 0.8", 0.8),
        ("12 or 15", None),
        ("none", None),
        ("1e3", 1000.0),
        ("7\nbecause 3 and 4", 7.0),
        ("Twenty-one", 21.0),
        ("one hundred", 100.0),
        ("two thousand and twenty-four", 2024.0),
        ("three hundred and five thousand", 305_000.0),
        ("sixteen", 16.0),
        ("one two three", None),
        ("1,5", 1.5),
        ("1.234,5", 1234.5),
        ("1,2,3", None),
        ("1,234,567.5", 1_234_567.5),
        ("12, because", 12.0),
    ],
)
def test_numbers(reply: str, number: float | None) -> None:
    assert read_number(reply) == number


@pytest.mark.parametrize("value", ["nan", float("nan"), float("inf"), "1 2", "x", "", None, True])
def test_data_that_are_no_number(value: object) -> None:
    with pytest.raises(ValueError, match="number"):
        parse_number(value)


@pytest.mark.parametrize(
    ("number", "gold", "right"),
    [
        (105, 100, True),
        (106, 100, False),
        (2019, 2020, False),
        (8, 8.2, True),
        (4, 5, False),
        (0, 0, True),
        (5, 5, True),
    ],
)
def test_tolerance_is_relative_and_none_for_years_and_small_counts(number: float, gold: float, right: bool) -> None:
    assert is_within(number, gold, 0.05, exact=is_exact_gold(float(gold))) is right


def test_edit_distance_equals_a_plain_table() -> None:
    rng = Random(3)
    for _ in range(300):
        a, b = ("".join(rng.choice("abé ") for _ in range(rng.randrange(12))) for _ in range(2))
        row = list(range(len(b) + 1))
        for i, first in enumerate(a, start=1):
            row, before = [i], row
            for j, second in enumerate(b, start=1):
                row.append(min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (first != second)))
        assert edit_distance(a, b) == row[-1], difflib.ndiff([a], [b])


def test_anls_of_a_long_answer_takes_no_time() -> None:
    start = process_time()
    assert anls("½" * 100_000, ["a red ball"] * 10) == 0.0
    assert process_time() - start < 0.3


def test_anls_and_vqa_accuracy_by_hand() -> None:
    assert anls("Hello", ["hello", "x"]) == 1.0
    assert anls("hella", ["hello"]) == pytest.approx(0.8)
    assert anls("he", ["hello"]) == 0.0
    assert vqa_accuracy("red", ["red"] * 2 + ["blue"] * 8) == pytest.approx((2 * (1 / 3) + 8 * (2 / 3)) / 10)
    assert vqa_accuracy("red", ["red"] * 4 + ["blue"] * 6) == 1.0


@pytest.mark.parametrize("count", [2, 5, 10, 26])
def test_every_letter_is_read_in_every_form(count: int) -> None:
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[:count]
    options = {letter: f"text {letter}{letter}" for letter in letters}
    for letter in letters:
        for form in ("{}", "({})", "{}.", "The answer is {}.", "**{}**", "Option {}", "text {}{}"):
            raw = form.format(letter, letter)
            assert letter_reader(count).read(raw, options).letter == letter, raw


def test_the_pronoun_i_is_no_letter() -> None:
    options = {letter: letter * 3 for letter in "ABCDEFGHIJ"}
    assert letter_reader(10).read("I think it is B", options).letter == "B"
    assert letter_reader(10).read("I'm sure: (C)", options).letter == "C"
    assert letter_reader(4).read("E", {}).invalid_reason == "out_of_range"
