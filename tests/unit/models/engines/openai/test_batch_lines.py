"""Lines of batch files, as providers write them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from models.engines.endpoints.failures import FailedAttempt
from models.engines.openai.batch_api import OpenAIBatchApi
from models.messages import Answer, Failure
from models.spec import ModelSpec
from tests.support.calls import call

KEY = "sk-planted-secret"


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> OpenAIBatchApi:
    monkeypatch.setenv("BATCH_KEY", KEY)
    spec = ModelSpec(engine="openai", model="m", base_url="http://127.0.0.1/v1", api_key_env="BATCH_KEY")
    return OpenAIBatchApi(spec)


def line(**fields: Any) -> bytes:
    return json.dumps({"id": "r", "custom_id": "x-0", "response": None, "error": None, **fields}).encode()


def response(status: int, body: Any) -> bytes:
    return line(response={"status_code": status, "request_id": "q", "body": body})


def completion(text: str) -> dict[str, Any]:
    usage = {"prompt_tokens": 5, "completion_tokens": 2}
    return {"choices": [{"message": {"content": text}, "finish_reason": "stop"}], "usage": usage}


def only(content: bytes, api: OpenAIBatchApi) -> Answer | Failure:
    ((custom_id, outcome),) = api.read_results(content)
    assert custom_id == "x-0"
    return outcome.failure if isinstance(outcome, FailedAttempt) else outcome


def test_answer_has_text_and_tokens(api: OpenAIBatchApi) -> None:
    outcome = only(response(200, completion("A\u2028B")), api)
    assert isinstance(outcome, Answer)
    assert (outcome.text, outcome.input_tokens, outcome.output_tokens) == ("A\u2028B", 5, 2)


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (response(400, {"error": {"message": "maximum context length is 10"}}), "context_length"),
        (response(500, {"error": {"message": "oops"}}), "http_500"),
        (response(429, None), "http_429"),
        (response(200, {"choices": []}), "bad_reply"),
        (line(error={"code": "invalid_image", "message": "no picture"}), "batch_request"),
    ],
)
def test_errors_are_failures_of_their_kind(api: OpenAIBatchApi, content: bytes, kind: str) -> None:
    outcome = only(content, api)
    assert isinstance(outcome, Failure)
    assert outcome.type == kind


def test_content_filter_is_an_answer(api: OpenAIBatchApi) -> None:
    outcome = only(response(400, {"error": {"code": "content_filter", "message": "no"}}), api)
    assert outcome == Answer(text="", finish_reason="content_filter")


@pytest.mark.parametrize(
    "content",
    [
        line(error={"code": "batch_expired", "message": "not executed in time"}),
        line(error={"code": "batch_cancelled", "message": "cancelled"}),
        line(),
        response(200, completion("A"))[:-20],
        b"\n",
    ],
)
def test_requests_without_a_result_have_no_outcome(api: OpenAIBatchApi, content: bytes) -> None:
    assert list(api.read_results(content)) == []


def test_key_is_removed_from_messages(api: OpenAIBatchApi) -> None:
    for content in (
        response(401, {"error": {"message": f"bad key {KEY}"}}),
        line(error={"code": "x", "message": f"bad key {KEY}"}),
    ):
        outcome = only(content, api)
        assert isinstance(outcome, Failure)
        assert KEY not in outcome.message


def test_other_limit_name_is_learned_once(api: OpenAIBatchApi) -> None:
    refusal = only(response(400, {"error": {"message": "use 'max_completion_tokens' instead"}}), api)
    assert isinstance(refusal, Failure)
    assert api.dialect.learn(refusal, ())
    assert api.dialect.learn(refusal, ())  # of a request that was sent before
    assert not api.dialect.learn(refusal, ("max_tokens",))
    assert (api.dialect.omitted, api.dialect.warnings) == (["max_tokens"], ())


def test_request_line_holds_further_fields_in_its_body() -> None:
    api = OpenAIBatchApi(ModelSpec(engine="openai", model="m", base_url="http://h/v1", extra_body={"top_k": 5}))
    content = api.line("x-0", api.dialect.body(call("x/0", "Hi", max_new_tokens=3), {}, ()))
    assert content.endswith(b"\n")
    record = json.loads(content)
    assert (record["custom_id"], record["method"], record["url"]) == ("x-0", "POST", "/v1/chat/completions")
    assert record["body"]["top_k"] == 5
    assert "extra_body" not in record["body"]
