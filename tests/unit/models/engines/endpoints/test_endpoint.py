"""Replies that name another model than was asked for."""

from __future__ import annotations

import pytest

from models.engines.endpoints.endpoint import ReplyRemarks
from models.messages import Answer


@pytest.mark.parametrize(
    ("model", "name", "is_same"),
    [
        ("gpt-4o", "gpt-4o", True),
        ("gpt-4o", "gpt-4o-2024-08-06", True),
        ("gpt-4o-2024-08-06", "gpt-4o", True),
        ("openai/gpt-4o", "GPT-4o-2024-08-06", True),
        ("claude-sonnet-4-latest", "claude-sonnet-4-20250514", True),
        ("gemini-2.5-flash", "models/gemini-2.5-flash-001", True),
        ("llava:13b", "llava:13b", True),
        ("gpt-4", "gpt-4o", False),
        ("gpt-4", "gpt-4-turbo-2024-04-09", False),
        ("claude-sonnet-4", "claude-sonnet-4-5", False),
        ("m", "gpt-3.5-turbo", False),
        ("llava:13b", "llava:7b", False),
    ],
)
def test_names_of_one_model_differ_in_prefix_case_and_version_alone(model: str, name: str, is_same: bool) -> None:
    remarks = ReplyRemarks(model)
    remarks.note(Answer(text="A", served_model=name))
    assert (remarks.warnings == ()) is is_same
    assert is_same or f"answers as {name!r}" in remarks.warnings[0]


def test_versions_that_change_are_named() -> None:
    remarks = ReplyRemarks("gpt-4o")
    for name in ("gpt-4o-2024-11-20", None, "gpt-4o-2024-08-06", "gpt-4o-2024-11-20"):
        remarks.note(Answer(text="A", served_model=name))
    assert remarks.warnings == ("gpt-4o: replies come from several versions: gpt-4o-2024-08-06, gpt-4o-2024-11-20",)


def test_reasoning_without_an_answer_is_named() -> None:
    remarks = ReplyRemarks("m")
    for reason, text in (("length", ""), ("stop", "A")):
        remarks.note(Answer(text=text, finish_reason=reason, reasoning="It is blue, so A."))
    assert remarks.warnings == ()
    remarks.note(Answer(text="", reasoning="It is blue, so A."))
    assert remarks.warnings == ("m: replies hold reasoning and no answer; look at the reasoning parser of its server",)
