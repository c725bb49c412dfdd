from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from models.engines.anthropic.engine import AnthropicDialect
from models.messages import Answer, Failure
from models.spec import ModelSpec
from tests.support.calls import CLIP, PICTURE, call
from tests.support.endpoint_script import Action, EndpointRequest, Raw, Say, Status, always
from tests.unit.models.engines.endpoints.rig import Rig, kinds, rig


def marks(raw: dict[str, Any]) -> Sequence[int]:
    """Return the places of marks in the first message."""
    return [index for index, block in enumerate(raw["messages"][0]["content"]) if "cache_control" in block]


def about_clip(count: int) -> list[Any]:
    return [call(f"{index}/0", CLIP, f"{index}?") for index in range(count)]


def sent(at: Rig) -> dict[str, Any]:
    (request,) = at.endpoint.requests
    return request.raw


class TestBody:
    def test_body_holds_only_known_parameters(self) -> None:
        with rig(always("A"), engine="anthropic") as at:
            at.ask_one("Hi")
            assert sent(at) == {
                "model": "scripted",
                "max_tokens": 8,
                "messages": [{"role": "user", "content": "Hi"}],
                "temperature": 0.0,
            }
            assert at.endpoint.requests[0].headers["anthropic-version"] == "2023-06-01"

    @pytest.mark.parametrize(
        ("entry", "expected"),
        [
            ({"reasoning_effort": "minimal"}, {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}),
            ({"reasoning_effort": "high"}, {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}}),
            ({"reasoning_effort": "none"}, {"thinking": {"type": "disabled"}, "temperature": 0.0}),
            ({"reasoning_tokens": 1000}, {"temperature": 0.0}),
            ({"top_p": 0.9, "omit_parameters": ["temperature"]}, {"top_p": 0.9}),
            ({"extra_body": {"top_k": 1}}, {"top_k": 1, "temperature": 0.0}),
        ],
    )
    def test_options_of_the_entry_are_sent_in_its_form(self, entry: dict[str, Any], expected: dict[str, Any]) -> None:
        with rig(always("A"), engine="anthropic", **entry) as at:
            at.ask_one("Hi")
            assert {
                name: value for name, value in sent(at).items() if name not in ("model", "messages", "max_tokens")
            } == (expected)

    def test_reasoning_tokens_are_the_budget_of_its_thoughts(self) -> None:
        with rig(always("A"), engine="anthropic", reasoning_tokens=2000) as at:
            (reply,) = at.ask(call("a/0", "Hi", max_new_tokens=2008))
            assert isinstance(reply.outcome, Answer)
            assert reply.outcome.decoding == "sampled"
            assert sent(at)["thinking"] == {"type": "enabled", "budget_tokens": 2000}
            assert "temperature" not in sent(at)

    def test_refused_thoughts_are_not_asked_for_again(self) -> None:
        def script(request: EndpointRequest) -> Action | str:
            if "thinking" in request.raw:
                return Status(status=400, message='"thinking.type.enabled" is not supported for this model.')
            return "A"

        with rig(script, engine="anthropic", reasoning_tokens=2000) as at:
            assert kinds(at.ask(call("a/0", "Hi", max_new_tokens=2008))) == ["answer"]
            assert kinds(at.ask(call("b/0", "Hi", max_new_tokens=2008))) == ["answer"]
            assert ["thinking" in request.raw for request in at.endpoint.requests] == [True, False, False]


class TestCache:
    def test_end_of_what_a_group_shares_is_marked(self) -> None:
        with rig(always("A"), engine="anthropic") as at:
            at.ask(*about_clip(3), call("x/0", PICTURE, "alone"))
            requests = {request.text: request.raw for request in at.endpoint.requests}
        assert [marks(requests[f"{index}?"]) for index in range(3)] == [[3], [3], [3]]
        assert marks(requests["alone"]) == []

    def test_off_sends_no_mark(self) -> None:
        with rig(always("A"), engine="anthropic", prompt_cache="off") as at:
            at.ask(*about_clip(3))
            assert "cache_control" not in repr([request.raw for request in at.endpoint.requests])

    def test_refused_mark_is_dropped_and_no_row_is_lost(self) -> None:
        def script(request: EndpointRequest) -> Action | str:
            if "cache_control" in json.dumps(request.raw):
                return Status(status=400, message="messages.0.content.3.cache_control: Extra inputs are not permitted")
            return "A"

        with rig(script, engine="anthropic") as at:
            assert kinds(at.ask(*about_clip(10))) == ["answer"] * 10
            assert len(at.endpoint.requests) == 11

    def test_tokens_written_and_read_are_billed_at_their_prices(self) -> None:
        def script(request: EndpointRequest) -> Say:
            is_first = request.number == 0
            return Say(
                text="A",
                prompt_tokens=1000,
                cached_tokens=0 if is_first else 900,
                cache_write_tokens=900 if is_first else 0,
            )

        price = {
            "input_per_million": 4.0,
            "cached_input_per_million": 0.2,
            "cache_write_per_million": 5.0,
            "output_per_million": 20.0,
        }
        with rig(script, engine="anthropic", price=price) as at:
            replies = at.ask(*about_clip(3))
            assert [reply.outcome.input_tokens for reply in replies] == [1000] * 3  # type: ignore[union-attr]
            spent = 3 * (100 * 4 + 20) + 900 * 5 + 2 * 900 * 0.2
            assert at.engine.spent == pytest.approx(spent / 1e6)


class TestReplies:
    @pytest.mark.parametrize(
        ("reply", "answer"),
        [
            ({"content": [{"type": "text", "text": "A"}]}, Answer(text="A")),
            (
                {
                    "content": [
                        {"type": "thinking", "thinking": "So.", "signature": "x"},
                        {"type": "redacted_thinking", "data": "x"},
                        {"type": "text", "text": "A"},
                        {"type": "text", "text": "B"},
                    ],
                    "stop_reason": "end_turn",
                    "usage": {
                        "input_tokens": 5,
                        "output_tokens": 7,
                        "cache_read_input_tokens": 20,
                        "cache_creation_input_tokens": 3,
                    },
                },
                Answer(
                    text="AB",
                    reasoning="So.",
                    input_tokens=28,
                    output_tokens=7,
                    cached_tokens=20,
                    cache_write_tokens=3,
                ),
            ),
            ({"content": [], "stop_reason": "refusal"}, Answer(text="", finish_reason="content_filter")),
            (
                {"content": [{"type": "text", "text": "A"}], "stop_reason": "model_context_window_exceeded"},
                Answer(text="A", finish_reason="length"),
            ),
            (
                {"content": [None, {"type": "text", "text": "A"}], "usage": {"input_tokens": "many"}, "stop_reason": 3},
                Answer(text="A", finish_reason="3", repairs=("content", "usage", "finish_reason")),
            ),
            (
                {"content": [{"type": "text", "text": "A"}], "usage": {"cache_read_input_tokens": None}},
                Answer(text="A"),
            ),
        ],
    )
    def test_messages_are_read(self, reply: dict[str, Any], answer: Answer) -> None:
        with rig(lambda _: Raw(json.dumps(reply).encode()), engine="anthropic") as at:
            counted = answer.input_tokens > 0 and "usage" not in answer.repairs
            is_blocked = answer.finish_reason == "content_filter" and not answer.text
            assert at.ask_one("Hi") == replace(answer, decoding="greedy", is_counted=counted or is_blocked)

    @pytest.mark.parametrize(
        ("kind", "requests", "failure"),
        [
            ("overloaded_error", 3, "http_529"),
            ("invalid_request_error", 1, "http_400"),
            ("not_known", 3, "reported_error"),
        ],
    )
    def test_error_inside_a_good_status_is_one_of_its_kind(self, kind: str, requests: int, failure: str) -> None:
        body = {"type": "error", "error": {"type": kind, "message": "so it is"}}
        with rig(lambda _: Raw(json.dumps(body).encode()), engine="anthropic", retries=2) as at:
            outcome = at.ask_one("Hi")
            assert isinstance(outcome, Failure)
            assert (outcome.type, outcome.message) == (failure, "so it is")
            assert len(at.endpoint.requests) == requests


@pytest.mark.parametrize("path", ["", "/", "/v1", "/v1/", "/v1/messages", "/v1/messages/"])
@pytest.mark.parametrize("query", ["", "?a=b"])
def test_any_form_of_the_address_is_understood(path: str, query: str) -> None:
    spec = ModelSpec(engine="anthropic", model="m", base_url=f"http://h/proxy{path}{query}")
    dialect = AnthropicDialect(spec)
    assert dialect.address(dialect.request_path) == f"http://h/proxy/v1/messages{query}"
