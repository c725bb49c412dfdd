from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import pytest

from models.engines.conversation import answer_requests
from models.errors import EngineContractError, EngineUnreachableError
from models.messages import (
    Answer,
    Call,
    CallReply,
    Failure,
    Frames,
    Generation,
    Media,
    Request,
    Step,
    StepOutput,
    Text,
    user,
)

Word = Callable[[Call], Answer | Failure]


def echo(call: Call) -> Answer:
    text = "".join(part.text for turn in call.turns for part in turn.parts if isinstance(part, Text))
    return Answer(text=f"<{text}>", input_tokens=10, output_tokens=2, cached_tokens=1)


class ScriptedEngine:
    """Answers by a function, then lets `spoil` tamper with the list of replies."""

    warnings: tuple[str, ...] = ()
    has_own_timeout = False

    def __init__(
        self, word: Word = echo, spoil: Callable[[list[CallReply]], list[CallReply]] = lambda replies: replies
    ) -> None:
        self.word = word
        self.spoil = spoil
        self.groups: list[list[str]] = []

    def generate(self, calls: Sequence[Call], media: Mapping[Media, Frames]) -> Iterator[CallReply]:
        self.groups.append([call.call_id for call in calls])
        yield from self.spoil(
            [CallReply(call_id=call.call_id, outcome=self.word(call), latency_s=0.5) for call in calls]
        )

    def close(self) -> None:
        """Hold nothing."""


def request(name: str, *steps: Step) -> Request:
    return Request(request_id=name, steps=steps)


def step(*parts: str | StepOutput | Media, choices: tuple[str, ...] = (), seed: int = 42) -> Step:
    return Step(turns=(user(*parts),), generation=Generation(seed=seed), choices=choices)


THREE = [request(name, step(f"{name}?")) for name in ("a", "b", "c")]


def test_each_request_is_answered_once() -> None:
    replies = list(answer_requests(ScriptedEngine(), THREE, {}))
    assert {reply.request_id: reply.outcome for reply in replies} == {
        name: Answer(text=f"<{name}?>", input_tokens=10, output_tokens=2, cached_tokens=1) for name in "abc"
    }
    assert all(reply.steps == () and reply.latency_s == 0.5 for reply in replies)


def test_no_requests_make_no_calls() -> None:
    engine = ScriptedEngine()
    assert list(answer_requests(engine, [], {})) == []
    assert engine.groups == []


def test_engine_may_answer_in_any_order() -> None:
    replies = answer_requests(ScriptedEngine(spoil=lambda replies: replies[::-1]), THREE, {})
    assert [reply.request_id for reply in replies] == ["c", "b", "a"]


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        pytest.param(lambda replies: replies[:-1], "1 of 3 calls unanswered, first c/0", id="drops one"),
        pytest.param(lambda _: [], "3 of 3 calls unanswered, first a/0", id="drops all"),
        pytest.param(lambda replies: [*replies, replies[0]], "a/0 twice", id="doubles"),
        pytest.param(lambda replies: [replace(replies[0], call_id="z/0"), *replies[1:]], "never sent", id="invents"),
    ],
)
def test_engine_that_violates_the_contract_is_reported(
    spoil: Callable[[list[CallReply]], list[CallReply]], message: str
) -> None:
    with pytest.raises(EngineContractError, match=message):
        list(answer_requests(ScriptedEngine(spoil=spoil), THREE, {}))


def test_violation_in_a_later_step_is_reported() -> None:
    engine = ScriptedEngine(spoil=lambda replies: [reply for reply in replies if reply.call_id != "a/1"])
    with pytest.raises(EngineContractError, match="first a/1"):
        list(answer_requests(engine, [request("a", step("x"), step(StepOutput(0)))], {}))


def test_unreachable_error_passes_through() -> None:
    def unreachable(_: Call) -> Answer:
        raise EngineUnreachableError("gone")

    with pytest.raises(EngineUnreachableError, match="gone"):
        list(answer_requests(ScriptedEngine(unreachable), THREE, {}))


def test_replies_before_a_violation_are_kept() -> None:
    replies = answer_requests(ScriptedEngine(spoil=lambda replies: replies[:-1]), THREE, {})
    assert [next(replies).request_id, next(replies).request_id] == ["a", "b"]
    with pytest.raises(EngineContractError):
        next(replies)


def test_later_steps_get_the_texts_of_earlier_ones() -> None:
    dialogue = request("a", step("x"), step("saw ", StepOutput(0)), step(StepOutput(1), "|", StepOutput(0)))
    (reply,) = answer_requests(ScriptedEngine(), [dialogue], {})
    assert reply.steps == ("<x>", "<saw <x>>")
    assert reply.outcome == Answer(text="<<saw <x>>|<x>>", input_tokens=30, output_tokens=6, cached_tokens=3)
    assert reply.latency_s == 1.5


def test_requests_of_different_lengths_run_together() -> None:
    engine = ScriptedEngine()
    requests = [request("short", step("s")), request("long", step("l"), step(StepOutput(0)))]
    replies = {reply.request_id: reply for reply in answer_requests(engine, requests, {})}
    assert engine.groups == [["short/0", "long/0"], ["long/1"]]
    assert replies["short"].steps == ()
    assert replies["long"].steps == ("<l>",)


def test_equal_early_steps_are_called_once_and_last_steps_never_shared() -> None:
    engine = ScriptedEngine()
    media = Media("image", "0" * 64)
    requests = [request(name, step(media, "caption"), step(StepOutput(0), "same")) for name in ("a", "b")]
    requests.append(request("c", step(media, "other"), step(StepOutput(0), "same")))
    replies = list(answer_requests(engine, requests, {}))
    assert engine.groups == [["a/0", "c/0"], ["a/1", "b/1", "c/1"]]
    assert sorted(reply.request_id for reply in replies) == ["a", "b", "c"]


def test_early_steps_that_differ_in_their_settings_are_not_shared() -> None:
    engine = ScriptedEngine()
    requests = [request(str(seed), step("caption", seed=seed), step(StepOutput(0))) for seed in (1, 2)]
    list(answer_requests(engine, requests, {}))
    assert engine.groups[0] == ["1/0", "2/0"]


def test_failed_step_fails_exactly_its_requests() -> None:
    def word(call: Call) -> Answer | Failure:
        failure = Failure(type="timeout", message="too slow")
        return failure if call.call_id == "a/1" or echo(call).text == "<bad>" else echo(call)

    requests = [
        request("a", step("x"), step(StepOutput(0)), step("never sent")),
        request("b", step("bad"), step(StepOutput(0))),
        request("c", step("bad"), step(StepOutput(0))),
        request("d", step("x"), step(StepOutput(0))),
    ]
    engine = ScriptedEngine(word)
    replies = {reply.request_id: reply for reply in answer_requests(engine, requests, {})}
    assert {name: type(reply.outcome) for name, reply in replies.items()} == {
        "a": Failure,
        "b": Failure,
        "c": Failure,
        "d": Answer,
    }
    assert replies["a"].steps == ("<x>",)
    assert (replies["a"].latency_s, replies["b"].latency_s) == (1.0, 0.5)
    assert engine.groups == [["a/0", "b/0"], ["a/1", "d/1"]]


def test_choices_reach_the_engine() -> None:
    engine = ScriptedEngine(lambda call: Answer(text="|".join(call.choices)))
    (reply,) = answer_requests(engine, [request("a", step("x", choices=("A", "B")))], {})
    assert reply.outcome == Answer(text="A|B")
