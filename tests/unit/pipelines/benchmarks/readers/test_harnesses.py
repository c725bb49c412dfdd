"""Readings of other harnesses, on replies whose reading their documentation states or implies."""

from __future__ import annotations

import pytest

from pipelines.benchmarks.readers.harnesses import read_as_lmms_eval, read_as_vlmevalkit

OPTIONS = {"A": "the cat", "B": "$2,616,000", "C": "3.14", "D": "a dog"}
YES_NO = {"yes": "yes", "no": "no"}


@pytest.mark.parametrize(
    ("reply", "lmms_eval", "vlmevalkit"),
    [
        ("So the correct answer is C.", "C", "C"),  # this and the next stand in lmms-eval's page
        ("Choose the option of $2,616,000", "guess", "B"),  # by its rule five words are too few, though it says B
        ("I choose the option of $2,616,000", "B", "B"),
        ("The answer is approximately 3.14", "guess", "C"),
        ("(B)", "B", "B"),
        ("A.", "A", "A"),
        ("D: a dog", "guess", "D"),  # a colon is none of the three forms
        ("First (A), then (B) is right", "B", None),  # the last counts; two letters and no text of an option
        ("A because of five or six more words", "A", None),  # a letter far from the end counts for one alone
        ("It is the cat", "guess", "A"),  # too few words for the text of an option
        ("The cat and a dog are both there", "D", None),  # the last text; two texts
        ("I do not know", "guess", None),
        ("", "guess", None),
    ],
)
def test_letters(reply: str, lmms_eval: str, vlmevalkit: str | None) -> None:
    reading = read_as_lmms_eval(reply, OPTIONS)
    assert ("guess" if reading.is_guess else reading.answer) == lmms_eval
    assert reading.answer in OPTIONS
    assert read_as_vlmevalkit(reply, OPTIONS) == (vlmevalkit, False)


@pytest.mark.parametrize(
    ("reply", "lmms_eval", "vlmevalkit"),
    [
        ("Yes.", "yes", "yes"),
        ("No, it is not.", "no", "no"),
        ("The answer is no", None, "no"),
        ("yes and no", "yes", None),
        ("Nothing", "no", None),
    ],
)
def test_yes_and_no(reply: str, lmms_eval: str | None, vlmevalkit: str | None) -> None:
    assert read_as_lmms_eval(reply, YES_NO) == (lmms_eval, False)
    assert read_as_vlmevalkit(reply, YES_NO) == (vlmevalkit, False)


def test_a_guess_is_the_same_each_time_and_not_always_the_same_letter() -> None:
    guesses = [read_as_lmms_eval(f"no idea {number}", OPTIONS).answer for number in range(40)]
    assert guesses == [read_as_lmms_eval(f"no idea {number}", OPTIONS).answer for number in range(40)]
    assert {*guesses} == {*OPTIONS}
