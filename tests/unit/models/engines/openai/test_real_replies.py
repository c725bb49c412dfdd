"""What real servers send: failures inside status 200, blocks, nearly right replies, refusals."""

from __future__ import annotations

import json
from typing import Any

import pytest

from models.engines.context_errors import is_too_long
from models.engines.endpoints.endpoint import Endpoint
from models.engines.endpoints.failures import FailedAttempt
from models.engines.openai.completion import read_reply
from models.engines.openai.engine import OpenAIDialect
from models.messages import Answer, Failure
from models.spec import ModelSpec
from tests.support.calls import call
from tests.support.endpoint_script import Raw, Status, always
from tests.unit.models.engines.endpoints.rig import many, rig

ENDPOINT = Endpoint(ModelSpec(engine="openai", model="m", base_url="http://127.0.0.1:1/v1"), read_reply)
SAY_B = {"message": {"role": "assistant", "content": "B"}, "finish_reason": "stop"}


def read(reply: object) -> Answer | FailedAttempt:
    return ENDPOINT.read_completion(reply if isinstance(reply, bytes) else json.dumps(reply).encode())


@pytest.mark.parametrize(
    ("reply", "kind", "is_transient"),
    [
        ({"choices": [{**SAY_B, "finish_reason": "error"}]}, "finish_error", True),
        ({"choices": [{**SAY_B, "finish_reason": "abort"}]}, "finish_abort", True),
        ({"choices": [{**SAY_B, "finish_reason": "network_error"}]}, "finish_network_error", True),
        (
            {"choices": [{**SAY_B, "finish_reason": "insufficient_system_resource"}]},
            "finish_insufficient_system_resource",
            True,
        ),
        ({"choices": [{**SAY_B, "error": {"code": 502, "message": "upstream"}}]}, "http_502", True),
        ({"choices": [SAY_B], "error": {"message": "overloaded", "code": 429}}, "http_429", True),
        ({"choices": [SAY_B], "error": "something broke"}, "reported_error", True),
        ({"error": {"message": "prompt is too long: 9 > 8"}}, "context_length", False),
        ({"error": {"code": 402, "message": "Insufficient credits"}}, "http_402", False),
        ({"error": [{"error": {"code": 400, "message": "API key not valid"}}]}, "http_400", False),
        ({"choices": []}, "bad_reply", True),
        ({"choices": None}, "bad_reply", True),
        ({"choices": [{"finish_reason": "stop", "message": None}]}, "bad_reply", True),
        (b'data: {"choices":[{"delta":{"content":"B"}}]}\n\ndata: [DONE]\n', "wrong_server", True),
        (b"[" * 100_000, "bad_reply", True),
    ],
)
def test_a_failure_inside_status_200_is_a_failure(reply: object, kind: str, *, is_transient: bool) -> None:
    outcome = read(reply)
    assert isinstance(outcome, FailedAttempt)
    assert (outcome.failure.type, outcome.is_transient) == (kind, is_transient)


@pytest.mark.parametrize(
    "reply",
    [
        {"choices": [], "prompt_filter_results": [{"prompt_index": 0}]},
        {"choices": None, "promptFeedback": {"blockReason": "SAFETY"}},
        {"choices": [{"message": None, "finish_reason": "content_filter"}]},
        {"choices": [{"message": {"content": None}, "finish_reason": "content_filter"}]},
        {"error": {"code": "content_filter", "message": "blocked"}},
    ],
)
def test_a_block_of_the_provider_is_an_empty_answer(reply: object) -> None:
    outcome = read(reply)
    assert isinstance(outcome, Answer)
    assert (outcome.text, outcome.finish_reason) == ("", "content_filter")


def reply_with(**changes: object) -> dict[str, Any]:
    return {"choices": [{**SAY_B, **changes}]}


@pytest.mark.parametrize(
    ("reply", "repairs"),
    [
        (b"\xef\xbb\xbf" + json.dumps(reply_with()).encode(), ("byte_order_mark",)),
        (json.dumps({**reply_with(), "id": "caf\u00e9"}, ensure_ascii=False).encode("latin-1"), ("bytes",)),
        ({**reply_with(), "usage": {"prompt_tokens": 10**20}}, ("usage",)),
        ({**reply_with(), "usage": {"prompt_tokens": -3, "completion_tokens": 1}}, ("usage",)),
        ({**reply_with(), "usage": {"prompt_tokens": float("nan")}}, ("usage",)),
        ({**reply_with(), "usage": "many"}, ("usage",)),
        ({**reply_with(), "usage": {"prompt_tokens": "7.0", "completion_tokens": 1.5}}, ()),
        ({**reply_with(), "usage": None}, ()),
        (reply_with(finish_reason=1), ("finish_reason",)),
        (reply_with(message={"content": [None, {"type": "text", "text": "B"}]}), ("content",)),
        (reply_with(message={"content": [{"type": "text", "text": "B"}, {"type": "image"}]}), ()),
    ],
)
def test_a_nearly_right_reply_keeps_its_answer(reply: object, repairs: tuple[str, ...]) -> None:
    outcome = read(reply)
    assert isinstance(outcome, Answer)
    assert (outcome.text, outcome.repairs) == ("B", repairs)
    assert 0 <= outcome.input_tokens < 2**53


def test_a_lone_surrogate_costs_no_answer() -> None:
    outcome = read(b'{"choices": [{"message": {"content": "B \\ud83d"}, "finish_reason": "stop"}]}')
    assert isinstance(outcome, Answer)
    assert outcome.text.startswith("B ")


@pytest.mark.parametrize(
    "message",
    [
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
        "prompt is too long: 208310 tokens > 200000 maximum",
        "input length and `max_tokens` exceed context limit: 199000 + 20000 > 200000",
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        "The input (40000 tokens) is longer than the model's context length (32768 tokens).",
        "the request exceeds the available context size. try increasing the context size or enable context shift",
        "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4000 + 200",
        "Input validation error: `inputs` must have less than 4095 tokens. Given: 5000",
        "The decoder prompt (length 5000) is longer than the maximum model length of 4096.",
        "You passed 5000 input tokens and requested 16. However, the model's context length is 4096.",
        "Please reduce the length of the input prompt.",
        "the input length exceeds the context length",
        "litellm.ContextWindowExceededError: AnthropicException",
        "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
        "Please reduce the length of the messages or completion.",
        "Range of input length should be [1, 30720]",
        "Input is too long for requested model.",
    ],
)
def test_too_long_is_recognised_by_what_servers_say(message: str) -> None:
    assert is_too_long(message)
    with rig(lambda _: Status(status=400, message=message)) as at:
        outcome = at.ask_one("Hi")
        assert isinstance(outcome, Failure)
        assert outcome.type == "context_length"


@pytest.mark.parametrize(
    "message",
    ["max_tokens must be positive", "image exceeds 5 MB", "too many images", "model not found", "prompt is empty"],
)
def test_other_refusals_are_not_too_long(message: str) -> None:
    assert not is_too_long(message)


@pytest.mark.parametrize(
    ("parameter", "message"),
    [
        ("temperature", "Unsupported value: 'temperature' does not support 0.0 with this model."),
        ("seed", "Unrecognized request argument supplied: seed"),
        ("seed", "body.seed: Extra inputs are not permitted"),
        ("logprobs", "logprobs is not supported by this model"),
    ],
)
def test_a_refused_parameter_is_left_out_once(parameter: str, message: str) -> None:
    def script(request: Any) -> Any:
        return Status(status=400, message=message) if parameter in request.body else always("B")(request)

    with rig(script, logprobs=True, concurrency=1) as at:
        replies = at.ask(*many(5))
        assert [reply.outcome.text for reply in replies if isinstance(reply.outcome, Answer)] == ["B"] * 5
        assert [parameter in request.body for request in at.endpoint.requests] == [True] + [False] * 5
        assert at.engine.warnings == (f"scripted: the endpoint refuses {parameter}, which is not sent",)
        expected = "sampled" if parameter == "temperature" else "greedy"
        assert {reply.outcome.decoding for reply in replies if isinstance(reply.outcome, Answer)} == {expected}


@pytest.mark.parametrize("query", ["", "?api-version=2024-10-21"])
@pytest.mark.parametrize("suffix", ["", "/", "//", "/chat/completions", "/chat/completions/", "/completions"])
def test_any_form_of_the_address_is_understood(suffix: str, query: str) -> None:
    dialect = OpenAIDialect(ModelSpec(engine="openai", model="m", base_url=f"http://h/v1{suffix}{query}"))
    assert dialect.address(dialect.request_path) == f"http://h/v1/chat/completions{query}"


ERROR_BODIES = (
    b"",
    b"null",
    b"[]",
    b'[{"error": {"code": 400, "message": "API key not valid", "status": "INVALID_ARGUMENT"}}]',
    b'{"error": {"code": {"nested": 1}, "message": ["a", {"b": 2}]}}',
    b'{"error": {"code": ["x"], "type": {"y": 1}, "innererror": ["z"]}}',
    b'{"error": "plain"}',
    b'{"detail": [{"loc": ["body", "seed"], "msg": "Extra inputs are not permitted"}]}',
    b"<html><title>Bad gateway</title></html>",
    b'data: {"error": "stream only"}\n\n',
    b"\xff\xfe\x00",
)


@pytest.mark.parametrize("body", ERROR_BODIES)
@pytest.mark.parametrize("status", [400, 500])
def test_error_bodies_of_any_shape_fail_the_row(body: bytes, status: int) -> None:
    try:
        error = json.loads(body)
    except ValueError:
        error = None
    outcome = ENDPOINT.failed_status(status, error, body.decode("utf-8", "replace"))
    assert isinstance(outcome, FailedAttempt)
    assert outcome.failure.type == f"http_{status}"


def test_a_failure_inside_200_is_retried() -> None:
    replies = iter(
        [Raw(json.dumps(reply_with(finish_reason="error")).encode()), Raw(json.dumps(reply_with()).encode())]
    )
    with rig(lambda _: next(replies)) as at:
        (reply,) = at.ask(call("a/0", "Hi"))
        assert isinstance(reply.outcome, Answer)
        assert reply.outcome.text == "B"
