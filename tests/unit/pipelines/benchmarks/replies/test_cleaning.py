"""What is removed from replies before they are read: golden rows in five languages, bounds, and what it saves."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.benchmarks.maia.letters import read_letter
from pipelines.benchmarks.replies.cleaning import DROPPED, clean_reply
from tests.support.paths import GOLDEN
from tests.support.processor_time import LONG_TEXT, assert_not_quadratic

ROWS = [json.loads(line) for line in (GOLDEN / "replies" / "cleaning.jsonl").read_text(encoding="utf-8").splitlines()]
PIECES = (
    *(
        "<think>",
        "</think>",
        "[THINK]",
        "◁/think▷",
        "<|im_end|>",
        "</s>",
        "<answer>",
        "</answer>",
        "\\boxed{",
        "}",
        "**",
        "```",
    ),
    *(
        "<|channel|>",
        "final",
        "<|message|>",
        "analysis",
        "assistantfinal",
        "Sure!",
        "Here is the answer:",
        "\n",
        "B",
        " ",
    ),
)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["raw"][:40])
def test_golden_replies(row: dict[str, object]) -> None:
    assert clean_reply(str(row["raw"])) == (row["text"], tuple(row["dropped"]))


@pytest.mark.parametrize("token", ["</s>", "<|im_end|>", "<end_of_turn>", "<|endoftext|>", "<|eot_id|>"])
@pytest.mark.parametrize("letter", ["A", "B"])
def test_a_chat_token_behind_a_letter_loses_no_letter(token: str, letter: str) -> None:
    text, _ = clean_reply(letter + token)
    assert read_letter(text, "Il cane corre.", "Il cane dorme.").letter == letter


@given(st.text() | st.lists(st.sampled_from(PIECES)).map("".join))
def test_any_text_is_cleaned_once(raw: str) -> None:
    text, dropped = clean_reply(raw)
    assert set(dropped) <= set(DROPPED)
    assert len(text) <= len(raw) + len("<think>")
    if not dropped:
        assert text == raw


@pytest.mark.parametrize("piece", [*PIECES, "Sure! ", "translation ", "<answer>x", "\\boxed{{}", "a:", "Here is a "])
def test_time_is_linear_in_the_text(piece: str) -> None:
    assert_not_quadratic(clean_reply, (piece * LONG_TEXT)[:LONG_TEXT])
