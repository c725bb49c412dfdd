"""The contract of every engine. A test class inherits it and defines how its engine is built."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from models.engines.base import Engine
from models.engines.conversation import answer_requests
from models.messages import (
    Answer,
    Call,
    CallReply,
    Failure,
    Generation,
    Request,
    Step,
    StepOutput,
    Text,
    Turn,
    user,
)
from tests.support.calls import CLIP, MEDIA, OTHER_PICTURE, PICTURE, call

BAD = "THIS ONE FAILS " * 100
"""A prompt, longer than some models can read, that fails in the engine that `failing` gives."""

UNICODE = "Perché l'ombrello è rosso? \U0001f302 우산 \u2602\ufe0f «così» \u202bשלום\u202c U\u0308 \x00"


def texts(replies: Sequence[CallReply]) -> dict[str, str]:
    """Return texts by call id; fail on a failure."""
    texts_by_call = {}
    for reply in replies:
        assert isinstance(reply.outcome, Answer), reply.outcome
        texts_by_call[reply.call_id] = reply.outcome.text
    return texts_by_call


class EngineContract:
    """The tests that every engine passes."""

    @pytest.fixture
    def engine(self) -> Iterator[Engine]:
        """A working engine, closed afterwards."""
        raise NotImplementedError

    @pytest.fixture
    def failing(self) -> Iterator[Engine]:
        """An engine that fails the one call of request `bad` with the prompt `BAD`, and no other."""
        raise NotImplementedError

    @pytest.fixture
    def own_engine(self, engine: Engine) -> Engine:
        """An engine that a test may close."""
        return engine

    @pytest.fixture
    def calls(self) -> list[Call]:
        """Calls that share a medium, have several, or none."""
        return [
            call("a/0", PICTURE, "What is this?", choices=("A", "B")),
            call("b/0", PICTURE, "What else is it?", choices=("A", "B")),
            call("c/0", CLIP, "Cosa succede?"),
            call("d/0", "First", PICTURE, "second", OTHER_PICTURE, "Which one?"),
            call("e/0", CLIP, PICTURE, "Are they alike?"),
            call("f/0", "No picture at all: two and two?"),
        ]

    def test_each_call_is_answered_exactly_once(self, engine: Engine, calls: list[Call]) -> None:
        replies = list(engine.generate(calls, MEDIA))
        assert sorted(reply.call_id for reply in replies) == sorted(expected.call_id for expected in calls)
        for reply in replies:
            assert isinstance(reply.outcome, Answer), reply.outcome
            assert reply.outcome.finish_reason
            assert reply.outcome.input_tokens > 0
            assert 0 <= reply.outcome.cached_tokens <= reply.outcome.input_tokens
            assert reply.latency_s >= 0

    def test_no_calls_no_replies(self, engine: Engine) -> None:
        assert list(engine.generate([], {})) == []

    def test_unused_media_are_ignored(self, engine: Engine) -> None:
        (reply,) = engine.generate([call("a/0", PICTURE, "What is this?")], MEDIA)
        assert isinstance(reply.outcome, Answer)

    def test_groups_are_answered_one_after_another(self, engine: Engine) -> None:
        for group in range(3):
            calls = [call(f"{group}-{index}/0", PICTURE, f"Question {index}?") for index in range(3)]
            assert {reply.call_id for reply in engine.generate(calls, MEDIA)} == {
                expected.call_id for expected in calls
            }

    def test_unicode(self, engine: Engine) -> None:
        (reply,) = engine.generate([call("ü/0", PICTURE, UNICODE)], MEDIA)
        assert reply.call_id == "ü/0"
        assert isinstance(reply.outcome, Answer)
        reply.outcome.text.encode("utf-8")

    def test_half_a_surrogate_pair_fails_at_most_its_own_row(self, engine: Engine) -> None:
        calls = [call("good/0", "Well?"), call("half/0", "Half \ud83d a sign?")]
        replies = {reply.call_id: reply.outcome for reply in engine.generate(calls, {})}
        assert isinstance(replies["good/0"], Answer)
        assert isinstance(replies["half/0"], Answer | Failure)

    def test_assistant_turns_and_several_text_parts(self, engine: Engine) -> None:
        turns = (
            user(PICTURE, "Which letter?"),
            Turn("assistant", (Text("A"),)),
            user(OTHER_PICTURE, "And ", "now?"),
        )
        dialogue = Call(call_id="talk/0", turns=turns, generation=Generation(max_new_tokens=4))
        (reply,) = engine.generate([dialogue], MEDIA)
        assert isinstance(reply.outcome, Answer)

    @pytest.mark.parametrize("limit", [1, 3])
    def test_token_limit_is_respected(self, engine: Engine, limit: int) -> None:
        calls = [call(f"{index}/0", f"Tell a story, number {index}", max_new_tokens=limit) for index in range(6)]
        for reply in engine.generate(calls, {}):
            assert isinstance(reply.outcome, Answer)
            assert reply.outcome.output_tokens <= limit

    def test_limits_of_one_group_may_differ(self, engine: Engine) -> None:
        calls = [call(f"{limit}/0", "Tell a story", max_new_tokens=limit) for limit in (1, 5, 2)]
        for reply in engine.generate(calls, {}):
            assert isinstance(reply.outcome, Answer)
            assert reply.outcome.output_tokens <= int(reply.call_id.partition("/")[0])

    def test_same_calls_same_answers(self, engine: Engine, calls: list[Call]) -> None:
        first = texts(list(engine.generate(calls, MEDIA)))
        assert texts(list(engine.generate(calls, MEDIA))) == first

    def test_failure_spares_the_other_calls(self, failing: Engine) -> None:
        calls = [call("good/0", "Well?"), call("bad/0", BAD), call("fine/0", "And?")]
        replies = {reply.call_id: reply.outcome for reply in failing.generate(calls, {})}
        assert isinstance(replies["good/0"], Answer)
        assert isinstance(replies["fine/0"], Answer)
        bad = replies["bad/0"]
        assert isinstance(bad, Failure)
        assert bad.type
        assert " " not in bad.type
        assert bad.message

    def test_failed_request_keeps_its_id(self, failing: Engine) -> None:
        requests = [Request(request_id="bad", steps=(Step(turns=(user(BAD),)),))]
        (reply,) = answer_requests(failing, requests, {})
        assert (reply.request_id, type(reply.outcome)) == ("bad", Failure)

    def test_steps_read_outputs_of_earlier_steps(self, engine: Engine) -> None:
        generation = Generation(max_new_tokens=6)
        caption = Step(turns=(user(PICTURE, "Describe the picture."),), generation=generation)
        requests = [
            Request(
                request_id=name,
                steps=(
                    caption,
                    Step(turns=(user("It shows: ", StepOutput(0), f"\n{name}?"),), generation=generation),
                    Step(turns=(user(StepOutput(1), " or ", StepOutput(0), PICTURE, "?"),), generation=generation),
                ),
            )
            for name in ("one", "two")
        ]
        replies = {reply.request_id: reply for reply in answer_requests(engine, requests, MEDIA)}
        assert set(replies) == {"one", "two"}
        for reply in replies.values():
            assert isinstance(reply.outcome, Answer), reply.outcome
            assert len(reply.steps) == 2
        assert replies["one"].steps[0] == replies["two"].steps[0]

    def test_iterator_left_early_leaves_the_engine_usable(self, engine: Engine, calls: list[Call]) -> None:
        replies = engine.generate(calls, MEDIA)
        next(replies)
        replies.close()  # type: ignore[attr-defined]
        assert len(list(engine.generate(calls, MEDIA))) == len(calls)

    def test_pixels_are_not_modified(self, engine: Engine) -> None:
        frames = MEDIA[CLIP]
        before = frames.pixels.copy()
        list(engine.generate([call("a/0", CLIP, "What happens?")], {CLIP: frames}))
        assert (frames.pixels == before).all()

    def test_close_may_be_called_twice(self, own_engine: Engine) -> None:
        list(own_engine.generate([call("a/0", "Well?")], {}))
        own_engine.close()
        own_engine.close()
