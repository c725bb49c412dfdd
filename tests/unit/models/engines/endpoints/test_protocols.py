"""What holds for every protocol of an endpoint."""

from __future__ import annotations

import json
import logging

import pytest

from models.engines import wrap_engine
from models.errors import EngineUnreachableError
from models.messages import Answer, Call, Failure, Frames, Generation, Media, Text, Turn, user
from models.spec import ModelSpec
from tests.support.calls import CLIP, MEDIA, PICTURE, call, noise
from tests.support.endpoint_script import Action, EndpointRequest, Half, Hang, Raw, Say, Status, always
from tests.unit.models.engines.endpoints.rig import ENGINES, KEY, kinds, many, rig

LONG_CLIP = Media("video", "9" * 64, 32)
WORDS = {
    "too long": {
        "openai": "This model's maximum context length is 8 tokens.",
        "anthropic": "prompt is too long: 208310 tokens > 200000 maximum",
        "gemini": "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
    },
    "key": {
        "openai": "Incorrect API key provided",
        "anthropic": "invalid x-api-key",
        "gemini": "API key not valid. Please pass a valid API key.",
    },
    "credit": {
        "openai": "You have insufficient quota",
        "anthropic": "Your credit balance is too low to access the Anthropic API.",
        "gemini": "Billing account for this project is not active",
    },
    "temperature": {
        "openai": "Unsupported value: 'temperature' does not support 0 with this model.",
        "anthropic": "`temperature` is deprecated for this model.",
        "gemini": "Unsupported parameter: temperature is not supported by this model",
    },
}


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_picture_clip_system_and_turns_arrive_in_order(engine: str) -> None:
    turns = (
        Turn("system", (Text("Be kind."),)),
        user("Look", CLIP, "well"),
        Turn("assistant", (Text("Yes"),)),
        user(PICTURE, "And now?"),
    )
    with rig(always("A"), engine=engine, system="Be brief.") as at:
        at.ask(Call(call_id="a/0", turns=turns, generation=Generation()))
        (request,) = at.endpoint.requests
    system, first, second, third = request.body["messages"]
    assert "".join(system["content"]) == "Be brief.\n\nBe kind."
    assert [part["type"] for part in first["content"]] == ["text", *["image_url"] * 4, "text"]
    assert [first["content"][place]["text"] for place in (0, -1)] == ["Look", "well"]
    assert second["role"] == "assistant"
    assert [part["type"] for part in third["content"]] == ["image_url", "text"]
    assert len(set(request.pictures)) == 5


def test_tokens_reason_and_cache_are_read(engine: str) -> None:
    say = Say(text="two words", cached_tokens=40, prompt_tokens=90, finish_reason="length")
    with rig(lambda _: say, engine=engine) as at:
        answer = at.ask_one("Hi")
    assert answer == Answer(
        text="two words",
        finish_reason="length",
        input_tokens=90,
        output_tokens=2,
        cached_tokens=40,
        decoding="greedy",
        served_model="scripted",
    )


def test_other_model_that_answers_is_named(engine: str) -> None:
    with rig(lambda _: Say(text="A", model="other"), engine=engine) as at:
        answer = at.ask_one("Hi")
        assert isinstance(answer, Answer)
        assert answer.served_model == "other"
        (warning,) = at.engine.warnings
        assert "answers as 'other'" in warning


@pytest.mark.parametrize("text", [None, "I cannot help."])
def test_refusal_is_an_answer_that_is_counted_as_one(engine: str, text: str | None) -> None:
    with rig(lambda _: Say(text=text, finish_reason="content_filter"), engine=engine) as at:
        answer = at.ask_one("Hi")
        assert isinstance(answer, Answer)
        assert (answer.text, answer.finish_reason) == (text or "", "content_filter")
        assert len(at.endpoint.requests) == 1


@pytest.mark.parametrize("status", [429, 500, 503, 529])
def test_overload_is_retried_after_the_pause_that_is_asked_for(engine: str, status: int) -> None:
    rules = [{"status": status, "times": 2, "retry_after": "7"}, {"say": "A"}]
    with rig(rules, engine=engine) as at:
        assert isinstance(at.ask_one("Hi"), Answer)
        assert len(at.endpoint.requests) == 3
        assert sum(wait >= 7 for wait in at.time.slept) >= 2


@pytest.mark.parametrize("action", [Half(), Raw(b"<p>"), Raw(b"{}"), Raw(b"\xff"), Raw(b"[]")])
def test_reply_that_is_none_is_retried_and_then_a_failure(engine: str, action: Action) -> None:
    with rig(lambda _: action, engine=engine, retries=2) as at:
        outcome = at.ask_one("Hi")
        assert isinstance(outcome, Failure)
        assert outcome.type in ("bad_reply", "connection")
        assert len(at.endpoint.requests) == 3


def test_hanging_reply_is_a_timeout(engine: str) -> None:
    with rig(lambda _: Hang(), engine=engine, retries=0, timeout_s=0.2) as at:
        outcome = at.ask_one("Hi")
        assert isinstance(outcome, Failure)
        assert outcome.type == "timeout"


def test_no_server_ends_the_run(engine: str) -> None:
    with (
        rig(always("A"), engine=engine, base_url="http://127.0.0.1:9", retries=1) as at,
        pytest.raises(EngineUnreachableError, match="no connection in 2 attempts"),
    ):
        at.ask(*many(3))


@pytest.mark.parametrize(
    ("status", "kind"), [(400, "key"), (401, "key"), (400, "credit"), (402, "credit"), (403, "key")]
)
def test_account_fault_ends_the_run_with_the_providers_words(engine: str, status: int, kind: str) -> None:
    words = WORDS[kind][engine]
    with rig(lambda _: Status(status=status, message=words), engine=engine) as at:
        with pytest.raises(EngineUnreachableError) as caught:
            at.ask(*many(200))
        assert words in str(caught.value)
        assert len(at.endpoint.requests) < 100


def test_too_long_clip_is_shown_with_fewer_frames(engine: str) -> None:
    def script(request: EndpointRequest) -> Action | str:
        return Status(status=400, message=WORDS["too long"][engine]) if len(request.pictures) > 16 else "A"

    media: dict[Media, Frames] = {**MEDIA, LONG_CLIP: noise(9, frames=32, height=8, width=8)}
    with rig(script, engine=engine) as at:
        wrapped = wrap_engine(
            at.engine, ModelSpec.model_validate({"engine": engine, "model": "m", "base_url": "http://x"})
        )
        calls = [call(f"{index}/0", LONG_CLIP, f"{index}?") for index in range(3)]
        frames = [reply.outcome.frames_used for reply in wrapped.generate(calls, media)]  # type: ignore[union-attr]
    assert frames == [16, 16, 16]


def test_refused_parameter_is_left_out_from_then_on(engine: str, caplog: pytest.LogCaptureFixture) -> None:
    def script(request: EndpointRequest) -> Action | str:
        if "temperature" in json.dumps(request.raw):
            return Status(status=400, message=WORDS["temperature"][engine])
        return "A"

    with rig(script, engine=engine, concurrency=1) as at:
        replies = at.ask(*many(3))
        assert kinds(replies) == ["answer"] * 3
        assert {reply.outcome.decoding for reply in replies if isinstance(reply.outcome, Answer)} == {"sampled"}
        assert len(at.endpoint.requests) == 4
    assert sum("rejects temperature" in text for text in caplog.messages) == 1


def test_media_group_has_a_leader(engine: str) -> None:
    price = {"input_per_million": 1.0, "cached_input_per_million": 0.1, "output_per_million": 1.0}
    with rig(always("A"), engine=engine, price=price) as at:
        at.ask(*(call(f"{index}/0", CLIP, f"{index}?") for index in range(8)))
        first, *_ = at.endpoint.requests
        assert first.text == "0?"
        assert at.endpoint.most_at_once <= 7
        assert at.engine.spent == pytest.approx(8 * (401 + 1) / 1e6)


def test_key_is_in_a_header_and_nowhere_else(
    engine: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("SCRIPTED_KEY", KEY)
    caplog.set_level(logging.DEBUG)
    rules = [{"status": 400, "message": f"bad key {KEY}"}]
    with rig(rules, engine=engine, api_key_env="SCRIPTED_KEY") as at:
        outcome = at.ask_one("Hi")
        headers = at.endpoint.requests[0].headers
    header = {"openai": "authorization", "anthropic": "x-api-key", "gemini": "x-goog-api-key"}[engine]
    assert headers[header].removeprefix("Bearer ") == KEY
    assert isinstance(outcome, Failure)
    assert "bad key ***" in outcome.message
    assert KEY not in caplog.text


def test_environment_does_not_change_requests(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.setenv(name, KEY)
    for name in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with rig(always("A"), engine=engine) as at:
        at.ask_one("Hi")
        assert KEY not in str(at.endpoint.requests[0].headers)


@pytest.mark.parametrize(("omitted", "is_sent"), [((), True), (("reasoning_effort",), False)])
def test_omitted_effort_is_sent_in_no_form(engine: str, omitted: tuple[str, ...], is_sent: bool) -> None:
    with rig(always("A"), engine=engine, reasoning_effort="low", omit_parameters=omitted) as at:
        at.ask_one("Hi")
        assert (
            any(word in json.dumps(at.endpoint.requests[0].raw).lower() for word in ("thinking", "effort")) is is_sent
        )
