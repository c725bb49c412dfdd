"""Readers of UNPIE's answers: golden rows, properties, and long texts."""

import json
import math
from collections.abc import Callable
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.benchmarks.text_cleaning import FlaggedText
from pipelines.benchmarks.unpie.answers import (
    ExactMatch,
    Language,
    equal_by_rule,
    exact_match,
    read_grounding,
    read_judge,
    read_translation,
    verdict,
)
from tests.support.paths import GOLDEN
from tests.support.processor_time import LONG_TEXT, assert_not_quadratic

GOLDEN_ROWS = GOLDEN / "unpie"
LANGUAGES: list[Language] = ["de", "fr", "ko", "en"]
TAGGED = {"de": "[German]: {}", "fr": "Français : {}", "ko": "[한국어]： {}", "en": "**English:** {}"}

PIECES = [
    *(
        "[answer]:",
        "Answer:",
        "the pun word",
        "phrase",
        "buoys",
        "[German]:",
        "French:",
        "한국어:",
        "[English]",
        "LANGUAGE",
    ),
    *("translation", "Note:", "(Explanation:", "yes", "No", "빵", "Brot", "sorry", "I cannot see the image."),
    *(
        "<think>",
        "</think>",
        "<|im_end|>",
        "\u200b",
        "\n",
        "\n\n",
        " ",
        ".",
        ":",
        "：",
        '"',
        "«",
        "»",
        "„",
        "’",
        "*",
        "**",
    ),
    *("_", "__", "`", "```", "[", "]", "(", ")", "-"),
]
ANSWERS = st.one_of(st.text(), st.lists(st.sampled_from(PIECES), max_size=25).map("".join))
EMPTY = st.lists(st.sampled_from(["\n", " ", "**", "`", "\u200b", "<|im_end|>", "</s>"])).map("".join)
REFUSALS = ["I'm sorry, but I can't help with that.", "I cannot see the image.", "죄송하지만 이미지를 볼 수 없습니다."]
SENTENCES = st.lists(st.sampled_from(["Der", "Bäcker", "baked", "빵을", "l'eau", "buoys"]), min_size=1).map(" ".join)
READERS: dict[str, Callable[[str], object]] = {
    "grounding": read_grounding,
    "exact match": lambda raw: exact_match(raw, raw),
    "translation": lambda raw: read_translation(raw, "de", "x"),
    "judge": read_judge,
    "rule": lambda raw: equal_by_rule(raw, raw),
}
LONG = [
    *("answer: ", "[answer ", "the the ", "pun word phrase ", "[", '"', "*", "- ", "German: ", "[German]\n", "'"),
    *("German" + " " * 50, "\n- ", "note\n", "no\n", "sorry ", "I cannot ", "<think>", "</think>", "```\n", "\n", " "),
]


def rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (GOLDEN_ROWS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("row", rows("grounding"), ids=lambda row: repr(row["raw"][:40]))
def test_read_grounding_agrees_with_golden_rows(row: dict[str, Any]) -> None:
    assert read_grounding(row["raw"]) == FlaggedText(row["text"], tuple(row["flags"]))
    assert exact_match(row["raw"], row["gold"]) == ExactMatch(row["normalised"], row["strict"])


@pytest.mark.parametrize("row", rows("translation"), ids=lambda row: f"{row['language']}:{row['raw'][:40]!r}")
def test_read_translation_agrees_with_golden_rows(row: dict[str, Any]) -> None:
    reading = read_translation(row["raw"], row["language"], row["source"])
    assert reading == FlaggedText(row["text"], tuple(row["flags"]))


@pytest.mark.parametrize("row", rows("judge"), ids=lambda row: repr(row["raw"]))
def test_read_judge_agrees_with_golden_rows(row: dict[str, Any]) -> None:
    assert read_judge(row["raw"]) is row["same"]


@pytest.mark.parametrize("row", rows("verdict"), ids=lambda row: f"{row['f0']}-{row['f1']}-{row['asked']}")
def test_verdict_agrees_with_golden_rows(row: dict[str, Any]) -> None:
    assert verdict(row["f0"], row["f1"], row["asked"]) is row["right"]


@pytest.mark.parametrize("row", rows("same_text"), ids=lambda row: repr(row["output"]))
def test_equal_by_rule_agrees_with_golden_rows(row: dict[str, Any]) -> None:
    assert equal_by_rule(row["output"], row["original"]) is row["same"]


def test_read_translation_rejects_an_unknown_language() -> None:
    with pytest.raises(ValueError, match="'it'; one of de, fr, ko, en"):
        read_translation("Pane.", cast("Language", "it"), "Bread.")


def test_verdict_rejects_a_third_meaning() -> None:
    with pytest.raises(ValueError, match="not 2"):
        verdict(0.1, 0.2, 2)


@given(st.floats(-1, 1), st.floats(-1, 1))
def test_verdict_is_true_for_at_most_one_meaning(f0: float, f1: float) -> None:
    assert not (verdict(f0, f1, 0) and verdict(f0, f1, 1))
    assert (verdict(f0, f1, 0) or verdict(f0, f1, 1)) == (abs(f0 - f1) > 1e-6 + 1e-12)
    assert not verdict(f0, math.nan, 0)


@given(ANSWERS)
def test_read_grounding_returns_one_line_and_is_idempotent(raw: str) -> None:
    reading = read_grounding(raw)
    assert reading == read_grounding(raw)
    assert reading.text == " ".join(reading.text.split())
    assert reading.text or not reading.flags
    assert exact_match(raw, raw).normalised == bool(reading.text)


@given(
    SENTENCES,
    st.sampled_from(LANGUAGES),
    st.sampled_from(["", "Sure:\n", "> "]),
    st.sampled_from(["", "\n\nBye.", "\nNote: x"]),
)
def test_read_translation_reads_the_whole_tagged_sentence(
    sentence: str, language: Language, before: str, after: str
) -> None:
    raw = before + TAGGED[language].format(sentence) + after
    assert read_translation(raw, language, "").text == sentence


@given(SENTENCES)
def test_equal_by_rule_ignores_case_punctuation_and_blanks(sentence: str) -> None:
    assert equal_by_rule(f"“{sentence.upper()}”!", f" {sentence}.\n")
    assert not equal_by_rule(f"{sentence} twice", sentence)


@pytest.mark.full
@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
@pytest.mark.parametrize("piece", LONG, ids=repr)
def test_readers_take_no_quadratic_time(piece: str, read: Callable[[str], object]) -> None:
    raw = (piece * (LONG_TEXT // len(piece) + 1))[:LONG_TEXT]
    assert_not_quadratic(read, raw)
