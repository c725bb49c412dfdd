from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from models.engines.endpoints.endpoint import Endpoint
from models.engines.endpoints.failures import FailedAttempt
from models.engines.gemini.engine import GeminiDialect
from models.engines.gemini.replies import read_content
from models.messages import Answer, Failure
from models.spec import ModelSpec
from tests.support.calls import CLIP, call
from tests.support.endpoint_script import Action, EndpointRequest, Raw, Status, always
from tests.unit.models.engines.endpoints.rig import Rig, kinds, rig

BASE = {"maxOutputTokens": 8, "temperature": 0.0, "seed": 42}


def settings(at: Rig) -> dict[str, Any]:
    (request,) = at.endpoint.requests
    return dict(request.raw["generationConfig"])


class TestBody:
    def test_body_holds_only_known_parameters(self) -> None:
        with rig(always("A"), engine="gemini", system="Be brief.") as at:
            at.ask_one("Hi")
            (request,) = at.endpoint.requests
        assert request.raw == {
            "contents": [{"role": "user", "parts": [{"text": "Hi"}]}],
            "systemInstruction": {"parts": [{"text": "Be brief."}]},
            "generationConfig": BASE,
        }
        assert request.body["model"] == "scripted"

    @pytest.mark.parametrize(
        ("entry", "changes"),
        [
            ({"reasoning_effort": "low"}, {"thinkingConfig": {"thinkingLevel": "LOW", "includeThoughts": True}}),
            ({"reasoning_effort": "none"}, {"thinkingConfig": {"thinkingBudget": 0}}),
            ({"reasoning_tokens": 512}, {"thinkingConfig": {"thinkingBudget": 512, "includeThoughts": True}}),
            ({"detail": "low"}, {"mediaResolution": "MEDIA_RESOLUTION_LOW"}),
            ({"detail": "auto", "top_p": 0.9, "logprobs": True}, {"topP": 0.9, "responseLogprobs": True}),
        ],
    )
    def test_options_of_the_entry_are_sent_in_its_form(self, entry: dict[str, Any], changes: dict[str, Any]) -> None:
        with rig(always("A"), engine="gemini", **entry) as at:
            at.ask_one("Hi")
            assert settings(at) == BASE | changes

    def test_omitted_parameters_are_not_sent(self) -> None:
        with rig(always("A"), engine="gemini", omit_parameters=["seed", "temperature"]) as at:
            at.ask_one("Hi")
            assert settings(at) == {"maxOutputTokens": 8}

    def test_cache_needs_no_field(self) -> None:
        with rig(always("A"), engine="gemini") as at:
            at.ask(*(call(f"{index}/0", CLIP, f"{index}?") for index in range(3)))
            assert "cache" not in repr([request.raw for request in at.endpoint.requests])

    @pytest.mark.parametrize(
        "message",
        [
            "Thinking budget is not supported for this model.",
            'Unknown name "thinkingConfig"',
            "thinking_level is invalid",
        ],
    )
    def test_refused_thoughts_are_not_asked_for_again(self, message: str) -> None:
        def script(request: EndpointRequest) -> Action | str:
            return Status(status=400, message=message) if "thinkingConfig" in json.dumps(request.raw) else "A"

        with rig(script, engine="gemini", reasoning_tokens=512) as at:
            assert kinds(at.ask(call("a/0", "Hi"))) == ["answer"]
            assert len(at.endpoint.requests) == 2


class TestReplies:
    @pytest.mark.parametrize(
        ("reply", "answer"),
        [
            (
                {"candidates": [{"content": {"parts": [{"text": "A"}]}, "finishReason": "STOP", "avgLogprobs": -0.5}]},
                Answer(text="A", mean_logprob=-0.5),
            ),
            (
                {
                    "candidates": [
                        {
                            "content": {"parts": [{"text": "So.", "thought": True}, {"text": "A"}, {"text": "B"}]},
                            "finishReason": "MAX_TOKENS",
                        }
                    ],
                    "usageMetadata": {
                        "promptTokenCount": 90,
                        "cachedContentTokenCount": 60,
                        "candidatesTokenCount": 2,
                        "thoughtsTokenCount": 5,
                    },
                },
                Answer(
                    text="AB",
                    reasoning="So.",
                    finish_reason="length",
                    input_tokens=90,
                    output_tokens=7,
                    cached_tokens=60,
                ),
            ),
            (
                {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": {"promptTokenCount": 9}},
                Answer(text="", finish_reason="content_filter", input_tokens=9),
            ),
            ({"candidates": [{"finishReason": "SAFETY"}]}, Answer(text="", finish_reason="content_filter")),
            ({"candidates": [{"finishReason": "RECITATION"}]}, Answer(text="", finish_reason="content_filter")),
            ({"candidates": [{"content": {"parts": None}, "finishReason": "STOP"}]}, Answer(text="")),
            (
                {"candidates": [{"content": {"parts": [None, {"text": "A"}]}}], "usageMetadata": [1]},
                Answer(text="A", repairs=("content", "usage")),
            ),
        ],
    )
    def test_contents_are_read(self, reply: dict[str, Any], answer: Answer) -> None:
        with rig(lambda _: Raw(json.dumps(reply).encode()), engine="gemini") as at:
            counted = answer.input_tokens > 0 and "usage" not in answer.repairs
            is_blocked = answer.finish_reason == "content_filter" and not answer.text
            assert at.ask_one("Hi") == replace(answer, decoding="greedy", is_counted=counted or is_blocked)

    @pytest.mark.parametrize("odd", [None, True, 3, -1, 10**20, "x", [], {}, [None], [[["x"]]], {"a": {"b": 1}}])
    @pytest.mark.parametrize("place", ["finishReason", "content", "avgLogprobs", "candidates", "usageMetadata"])
    def test_odd_value_ends_as_an_answer_or_a_failure(self, place: str, odd: object) -> None:
        candidate = {"content": {"parts": [{"text": "A"}]}, "finishReason": "STOP", place: odd}
        reply = {"candidates": [candidate]} | ({place: odd} if place in ("candidates", "usageMetadata") else {})
        endpoint = Endpoint(ModelSpec(engine="gemini", model="m"), read_content)
        outcome = endpoint.read_completion(json.dumps(reply).encode())
        assert isinstance(outcome, Answer | FailedAttempt)
        if place in ("finishReason", "avgLogprobs", "usageMetadata"):
            assert isinstance(outcome, Answer)
            assert outcome.text == "A"

    @pytest.mark.parametrize(
        ("reply", "kind", "requests"),
        [
            ({"candidates": [{"finishReason": "MALFORMED_RESPONSE"}]}, "finish_malformed_response", 3),
            ({"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}}, "http_503", 3),
            ({"error": {"code": 400, "message": "no", "status": "INVALID_ARGUMENT"}}, "http_400", 1),
            ({"candidates": []}, "bad_reply", 3),
            ({"candidates": [{"content": {}}]}, "bad_reply", 3),
        ],
    )
    def test_failure_inside_a_good_status_is_one(self, reply: dict[str, Any], kind: str, requests: int) -> None:
        with rig(lambda _: Raw(json.dumps(reply).encode()), engine="gemini", retries=2) as at:
            outcome = at.ask_one("Hi")
            assert isinstance(outcome, Failure)
            assert (outcome.type, len(at.endpoint.requests)) == (kind, requests)


@pytest.mark.parametrize("path", ["/v1beta", "/v1beta/", "/v1beta/models", "/v1beta/openai"])
@pytest.mark.parametrize("model", ["gemini-x", "models/gemini-x"])
def test_any_form_of_the_address_is_understood(path: str, model: str) -> None:
    spec = ModelSpec(engine="gemini", model=model, base_url=f"http://h{path}")
    dialect = GeminiDialect(spec)
    assert dialect.address(dialect.request_path) == "http://h/v1beta/models/gemini-x:generateContent"
