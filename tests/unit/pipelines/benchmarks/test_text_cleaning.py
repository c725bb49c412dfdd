"""Text cleaning shared by the readers of answers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.benchmarks import text_cleaning as reading_text


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("Ｂ", "B"),
        ("a\r\nb\rc\u2028d", "a\nb\nc\nd"),
        ("\ufeffB\u200b\u00ad", "B"),
        ("B<|im_end|>", "B"),
        ("<|start_header_id|>assistant<|end_header_id|>B<|eot_id|>", "B"),
        ("<s>B</s><end_of_turn><pad>", "B"),
        ("<｜end▁of▁sentence｜>B", "B"),
        ("a < b | c > d", "a < b | c > d"),
    ],
)
def test_canonical(raw: str, text: str) -> None:
    assert reading_text.canonical(raw) == text


def test_quotes_become_straight() -> None:
    assert reading_text.straight_quotes("“a” ‘b’ „c‟ ‚d‛ «e»") == "\"a\" 'b' \"c\" 'd' «e»"
    assert reading_text.straight_quotes("« e » ‹f›", angle=True) == "\" e \" 'f'"


@pytest.mark.parametrize(
    ("text", "rest"),
    [("B", "B"), ("<think>A</think>B", "B"), ("A</think>B", "B"), ("<THINK>A</Think> B", " B"), ("<think>A", None)],
)
def test_reasoning(text: str, rest: str | None) -> None:
    assert reading_text.after_reasoning(text) == rest


def test_reasoning_opened_again_is_open() -> None:
    assert reading_text.after_reasoning("<think>A</think>B<think>C") is None


def test_fences() -> None:
    assert reading_text.without_fences("```json\nB\n```") == "B\n"
    assert reading_text.without_fences("```B```") == "```B```"


@pytest.mark.parametrize(
    ("text", "inner"),
    [
        ('"a"', "a"),
        (" ' a ' ", "a"),
        ('"a', '"a'),
        ("\"a'", "\"a'"),
        ('"', '"'),
        ('""', ""),
        ('"a "b" c"', 'a "b" c'),
        ('"a" or "b"', '"a" or "b"'),
        ("'it's'", "it's"),
        ("'a' or 'b'", "'a' or 'b'"),
        ("'the dogs' bed'", "the dogs' bed"),
        ('"6" tall"', '6" tall'),
    ],
)
def test_outer_quotes(text: str, inner: str) -> None:
    assert reading_text.without_outer_quotes(text) == inner


@pytest.mark.parametrize(
    "text",
    [
        "I do not know",
        "He doesn't really know.",
        "No idea",
        "Sorry!",
        "Well, sorry, no",
        "I am very sorry",
        "it is not possible to determine that",
        "I could not even see it",
        "I will not be able to help you",
        "none of the given options",
        "As an AI model",
    ],
)
def test_refusals(text: str) -> None:
    assert reading_text.is_refusal(text)


@pytest.mark.parametrize("text", ["She wants him to say sorry.", "A known fact", "He cannot swim", "None", ""])
def test_no_refusals(text: str) -> None:
    assert not reading_text.is_refusal(text)


@given(st.text())
def test_normalizing_words_is_idempotent(text: str) -> None:
    assert reading_text.normalize_words(reading_text.normalize_words(text)) == reading_text.normalize_words(text)
    assert reading_text.collapsed(reading_text.collapsed(text)) == reading_text.collapsed(text)
