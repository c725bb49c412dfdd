"""Tokens to think with, and thoughts split from answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from models.engines import wrap_engine
from models.engines.reasoning import ReasoningEngine, split_reasoning
from models.entry_fields import ReasoningMarkers
from models.fingerprint import answer_fingerprint
from models.messages import Answer, Call, CallReply, Failure, Frames, Generation, Media, user
from models.spec import ModelSpec

MARKERS = ReasoningMarkers()


class ThinkingEngine:
    """Thinks for twenty words, then answers; one word is one token."""

    warnings: tuple[str, ...] = ("slow",)
    has_own_timeout = True

    def __init__(self, outcome: Answer | Failure | None = None) -> None:
        self.outcome, self.limits, self.closed = outcome, [], False

    def generate(self, calls: Sequence[Call], media: Mapping[Media, Frames]) -> Iterator[CallReply]:
        del media
        for call in calls:
            limit = call.generation.max_new_tokens
            self.limits.append(limit)
            words = ["<think>", *["hm"] * 20, "</think>", "B"]
            answer = Answer(text=" ".join(words[:limit]), finish_reason="stop" if limit >= len(words) else "length")
            yield CallReply(call_id=call.call_id, outcome=self.outcome or answer)

    def close(self) -> None:
        self.closed = True


def call(tokens: int = 16, *, scored: tuple[str, ...] = ()) -> Call:
    return Call(call_id="x", turns=(user("words"),), generation=Generation(max_new_tokens=tokens), scored=scored)


def outcome(engine: ThinkingEngine, tokens: int = 1024, *, scored: tuple[str, ...] = ()) -> Answer | Failure:
    (reply,) = ReasoningEngine(engine, tokens, MARKERS).generate([call(scored=scored)], {})
    return reply.outcome


def test_task_of_sixteen_tokens_is_answered_after_thinking() -> None:
    engine = ThinkingEngine()
    assert outcome(engine) == Answer(text="B", reasoning=" ".join(["hm"] * 20))
    assert engine.limits == [1040]


def test_thoughts_that_reach_the_limit_leave_no_answer() -> None:
    answer = outcome(ThinkingEngine(), tokens=2)
    assert answer == Answer(text="", reasoning=" ".join(["hm"] * 17), finish_reason="length")


def test_failures_scores_and_thoughts_of_the_server_pass_unchanged() -> None:
    failure = Failure(type="http_400", message="no")
    assert outcome(ThinkingEngine(failure)) == failure
    ready = Answer(text="A </think> B", reasoning="hm")
    assert outcome(ThinkingEngine(ready)) == ready
    scores = ThinkingEngine(Answer(text="{} </think>"))
    assert outcome(scores, scored=("a",)) == Answer(text="{} </think>")
    assert scores.limits == [16]


@pytest.mark.parametrize(
    ("text", "cut", "thoughts", "answer"),
    [
        ("<think>a</think>b", False, "a", "b"),
        ("a\n</think>\n\nb", False, "a", "b"),
        ("<think>a</think>b<think>c</think>d", False, "a</think>b<think>c", "d"),
        ("<think></think>b", False, "", "b"),
        ("<think>a", True, "a", ""),
        ("b", False, None, "b"),
        ("b", True, None, "b"),
    ],
)
def test_thoughts_are_split_at_the_markers(text: str, cut: bool, thoughts: str | None, answer: str) -> None:
    assert split_reasoning(text, MARKERS, is_truncated=cut) == (thoughts, answer)


def test_text_without_markers_is_a_thought_where_the_template_opens_it_and_the_limit_cuts_it() -> None:
    opened = ReasoningMarkers(opened=True)
    assert split_reasoning("a", opened, is_truncated=True) == ("a", "")
    assert split_reasoning("a", opened) == (None, "a")


def test_markers_of_other_models_are_stated_in_the_entry() -> None:
    markers = ReasoningMarkers(start="[T]", end="[/T]")
    assert split_reasoning("[T]a[/T]b", markers) == ("a", "b")
    assert split_reasoning("<think>a</think>b", markers) == (None, "<think>a</think>b")


def test_entry_decides_whether_and_how_long_a_model_thinks() -> None:
    assert ModelSpec(engine="random").thinking_tokens is None
    assert ModelSpec(engine="random", reasoning={}).thinking_tokens == 1024
    assert ModelSpec(engine="random", reasoning_tokens=0).thinking_tokens == 0


@pytest.mark.parametrize(("fields", "tokens"), [({"reasoning": {}}, 8 + 1024), ({}, 8)])
def test_wrapped_engine_has_tokens_to_think_with_where_the_entry_says_so(fields: dict[str, Any], tokens: int) -> None:
    engine = ThinkingEngine()
    list(wrap_engine(engine, ModelSpec(engine="random", **fields)).generate([call(8)], {}))
    assert engine.limits == [tokens]


def test_thinking_changes_what_names_an_answer_and_no_other_entry_changes() -> None:
    plain = answer_fingerprint(ModelSpec(engine="random"))
    assert "reasoning" not in plain
    prints = [answer_fingerprint(ModelSpec(engine="random", reasoning_tokens=n)) for n in (512, 1024)]
    assert plain != prints[0] != prints[1]
    assert prints[1] == answer_fingerprint(ModelSpec(engine="random", reasoning={}))


def test_engine_is_described_and_closed_as_the_one_inside() -> None:
    engine = ThinkingEngine()
    thinking = ReasoningEngine(engine, 1, MARKERS)
    assert (thinking.warnings, thinking.has_own_timeout) == (("slow",), True)
    thinking.close()
    assert engine.closed
