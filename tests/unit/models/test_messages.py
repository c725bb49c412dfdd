"""Prompt hashes enter request ids: they are pinned to constants."""

from __future__ import annotations

import pytest

from models.messages import Media, Step, StepOutput, Turn, logprobs_from_text, logprobs_to_text, prompt_sha256, user


def test_prompt_hash_is_the_one_of_earlier_versions() -> None:
    steps = [
        Step(turns=(user("a é", Media("video", "ff", 32)),)),
        Step(turns=(user(StepOutput(0, stripped=True), "b"), Turn("assistant", (StepOutput(0),))), scored=("x",)),
    ]
    assert prompt_sha256(steps) == "bf3ca34d596b389779c054bcea37bac6bf34c7f70aa059a1202e10d3271e9373"


def test_logprobs_survive_the_text_of_an_answer() -> None:
    assert logprobs_from_text(logprobs_to_text([-1.5, -0.25], [3, 1]), 2) == [-1.5, -0.25]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"logprobs": 3}', logprobs_to_text([-1.0], [1])])
def test_logprobs_of_other_texts_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="log-probabilities"):
        logprobs_from_text(text, 2)
