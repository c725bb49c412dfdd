"""Readers of UNPIE's answers: properties of any text."""

import math
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.benchmarks.unpie.answers import (
    Language,
    equal_by_rule,
    exact_match,
    read_grounding,
    read_translation,
    verdict,
)

TAGGED: dict[Language, str] = {
    "de": "[German]: {}", "fr": "Français : {}", "ko": "[한국어]： {}", "en": "**English:** {}",
}  # fmt: skip
PIECES = [
    "[answer]:", "Answer:", "the pun word", "phrase", "buoys", "[German]:", "French:", "한국어:", "[English]",
    "LANGUAGE", "translation", "Note:", "(Explanation:", "yes", "No", "빵", "Brot", "sorry", "I cannot see the image.",
    "```", "__", "<think>", "</think>", "<|im_end|>", "\u200b", "\n\n", "**", *'\n .:："«»„’*_`[]()-',
]  # fmt: skip
ANSWERS = st.one_of(st.text(), st.lists(st.sampled_from(PIECES), max_size=25).map("".join))
SENTENCES = st.lists(st.sampled_from(["Der", "Bäcker", "baked", "빵을", "l'eau", "buoys"]), min_size=1).map(" ".join)


def test_unknown_languages_and_meanings_are_refused() -> None:
    with pytest.raises(ValueError, match="'it'; one of de, fr, ko, en"):
        read_translation("Pane.", cast("Language", "it"), "Bread.")
    with pytest.raises(ValueError, match="not 2"):
        verdict(0.1, 0.2, 2)


@given(st.floats(-1, 1), st.floats(-1, 1))
def test_verdict_is_true_for_at_most_one_meaning(f0: float, f1: float) -> None:
    assert not (verdict(f0, f1, 0) and verdict(f0, f1, 1))
    assert (verdict(f0, f1, 0) or verdict(f0, f1, 1)) == (abs(f0 - f1) > 1e-6 + 1e-12)
    assert not verdict(f0, math.nan, 0)


@given(ANSWERS)
def test_read_grounding_returns_one_line(raw: str) -> None:
    reading = read_grounding(raw)
    assert reading.text == " ".join(reading.text.split())
    assert reading.text or not reading.flags
    assert exact_match(raw, raw).normalised == bool(reading.text)


@given(
    SENTENCES,
    st.sampled_from([*TAGGED]),
    st.sampled_from(["", "Sure:\n", "> "]),
    st.sampled_from(["", "\n\nBye.", "\nNote: x"]),
)
def test_read_translation_reads_the_whole_tagged_sentence(
    sentence: str, language: Language, before: str, after: str
) -> None:
    assert read_translation(before + TAGGED[language].format(sentence) + after, language, "").text == sentence


@given(SENTENCES)
def test_equal_by_rule_ignores_case_punctuation_and_blanks(sentence: str) -> None:
    assert equal_by_rule(f"“{sentence.upper()}”!", f" {sentence}.\n")
    assert not equal_by_rule(f"{sentence} twice", sentence)
