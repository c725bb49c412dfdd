"""Chat requests in, calls out; answers in, replies out; and the replica's batches, without any server."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from jobs.serve.chat_api import (
    MAX_PIXELS,
    MAX_SIGNS,
    BadRequestError,
    Bounds,
    chunks,
    completion,
    error_response,
    read_chat,
)
from jobs.serve.run import ModelReplica
from jobs.shared.auth import is_authorized, key_hash
from models.errors import DeviceFailedError
from models.messages import Answer, Call, CallReply, Failure, Generation, Media, Text
from models.spec import ModelSpec
from pipelines.media.decoder import Decoder
from tests.support.scripted_engine import scripted

SPEC = ModelSpec(engine="random")
DECODER = Decoder(max_image_pixels=MAX_PIXELS)
BOUNDS = Bounds()


def uri(width: int = 6, height: int = 4, kind: str = "PNG") -> str:
    file = io.BytesIO()
    Image.new("RGB", (width, height), (200, 10, 30)).save(file, kind)
    return f"data:image/{kind.lower()};base64,{base64.b64encode(file.getvalue()).decode()}"


def read(spec: ModelSpec = SPEC, bounds: Bounds = BOUNDS, **fields: Any):
    body = {"model": "m", "messages": [{"role": "user", "content": "Hello"}], **fields}
    return read_body(json.dumps(body).encode(), spec, bounds)


def read_body(body: bytes, spec: ModelSpec = SPEC, bounds: Bounds = BOUNDS):
    decoding = {"decode": DECODER.decode_picture, "count": DECODER.count_pixels}
    return read_chat(body, name="m", spec=spec, bounds=bounds, **decoding)


def picture(address: str) -> list[dict[str, Any]]:
    parts = [{"type": "text", "text": "What?"}, {"type": "image_url", "image_url": {"url": address}}]
    return [{"role": "user", "content": parts}]


def test_text_roles_and_settings_are_read_or_the_models() -> None:
    turns = [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "A?"}]
    chat = read(messages=turns, temperature=0.5, max_tokens=7, seed=3, user="somebody", top_p=1)
    assert [(turn.role, turn.parts) for turn in chat.call.turns] == [
        ("system", (Text("Be brief."),)),
        ("user", (Text("A?"),)),
    ]
    assert chat.call.generation == Generation(max_new_tokens=7, temperature=0.5, seed=3)
    assert read().call.generation == Generation()
    model_spec = ModelSpec(engine="random", generation={"max_new_tokens": 9}, system="Short.")
    assert read(model_spec).call.generation.max_new_tokens == 9
    assert read(model_spec, max_completion_tokens=5).call.generation.max_new_tokens == 5
    assert [turn.role for turn in read(model_spec).call.turns] == ["user"], "the engine puts its system prompt in"


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
def test_picture_keeps_its_place_in_the_text(kind: str) -> None:
    chat = read(messages=picture(uri(kind=kind)))
    text, media = chat.call.turns[0].parts
    assert text == Text("What?")
    assert isinstance(media, Media)
    assert chat.media[media].pixels.shape == (1, 4, 6, 3)
    assert np.abs(chat.media[media].pixels.astype(int) - [200, 10, 30]).max() < 12


def test_pictures_are_shrunk_to_the_models_limit_and_counted_once() -> None:
    chat = read(ModelSpec(engine="random", limits={"max_pixels": 100}), messages=picture(uri(40, 10)))
    (frames,) = chat.media.values()
    assert frames.pixels.shape == (1, 5, 20, 3)
    chat = read(bounds=Bounds(pixels=24), messages=2 * picture(uri()))
    assert chat.media_bytes == 6 * 4 * 3


@pytest.mark.parametrize(
    ("fields", "status", "message"),
    [
        ({"model": "other"}, 404, "'m' is served here"),
        ({"messages": []}, 400, "messages"),
        ({"messages": [{"role": "tool", "content": "x"}]}, 400, "role"),
        ({"messages": [{"role": "user", "content": None}]}, 400, "messages.0.content: Input should be a valid array"),
        ({"messages": [{"role": "user", "content": [{"type": "video_url"}]}]}, 400, "tag 'video_url' found"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": "x"}]}]}, 400,
         "image_url.image_url"),
        ({"stream": 7}, 400, "stream"),
        ({"stream_options": {"include_usage": True}}, 400, "only with stream: true"),
        ({"stream": True, "stream_options": {"include_obfuscation": True}}, 400, "stream_options.include_obfuscation"),
        ({"tool_choice": "required"}, 400, "tool_choice"),
        ({"chat_template": "{{ x }}"}, 400, "chat_template"),
        ({"chat_template_kwargs": {"enable_thinking": False}}, 400, "chat_template_kwargs"),
        ({"allowed_token_ids": [1]}, 400, "allowed_token_ids"),
        ({"continue_final_message": True}, 400, "continue_final_message"),
        ({"truncate_prompt_tokens": 4}, 400, "truncate_prompt_tokens"),
        ({"verbosity": "low"}, 400, "verbosity"),
        ({"modalities": ["text", "audio"]}, 400, "modalities"),
        ({"prediction": {"type": "content", "content": "x"}}, 400, "prediction"),
        ({"prompt_logprobs": 1}, 400, "prompt_logprobs"),
        ({"typical_p": 0.5}, 400, "typical_p"),
        ({"of_no_api": None}, 400, "of_no_api: not supported here, leave it out"),
        ({"x" * 5000: 1}, 400, f"{'x' * 80}...: not supported"),
        ({"messages": [{"role": "user", "content": "x", "name": "bob"}]}, 400, "messages.0.name: not supported here"),
        ({"messages": [{"role": "assistant", "content": "x"}]}, 400, "the last message is from the assistant"),
        ({"n": 2}, 400, "n: "),
        ({"tools": []}, 400, "tools"),
        ({"stop": ["x"]}, 400, "stop"),
        ({"response_format": {"type": "json_object"}}, 400, "response_format"),
        ({"logprobs": True}, 400, "logprobs"),
        ({"top_p": 0.5}, 400, "top_p"),
        ({"presence_penalty": 0.5}, 400, "presence_penalty"),
        ({"logit_bias": {"50256": -100}}, 400, "logit_bias"),
        ({"repetition_penalty": 1.1}, 400, "repetition_penalty"),
        ({"best_of": 3}, 400, "best_of"),
        ({"reasoning_effort": "high"}, 400, "reasoning_effort"),
        ({"guided_choice": ["A", "B"]}, 400, "guided_choice"),
        ({"min_tokens": 8}, 400, "min_tokens"),
        ({"stop_token_ids": [7]}, 400, "stop_token_ids"),
        ({"temperature": -1}, 400, "temperature"),
        ({"max_tokens": 0}, 400, "max_tokens"),
        ({"messages": picture("http://169.254.169.254/x.png")}, 400, "only data URIs"),
        ({"messages": picture("https://example.org/x.png")}, 400, "nothing is fetched"),
        ({"messages": picture("file:///etc/passwd")}, 400, "only data URIs"),
        ({"messages": picture("data:image/svg+xml;base64,AAAA")}, 400, "only data URIs"),
        ({"messages": picture("data:image/png;base64,!!!!")}, 400, "not a readable image"),
        ({"messages": picture("data:image/png;base64,AAAA")}, 400, "not a readable image"),
        ({"messages": picture(uri(9000, 9000))}, 400, "pixels"),
    ],
)  # fmt: skip
def test_unservable_request_is_refused_with_a_reason(fields: dict[str, Any], status: int, message: str) -> None:
    with pytest.raises(BadRequestError) as caught:
        read(**fields)
    assert caught.value.status == status
    assert message in str(caught.value)


def test_options_that_change_nothing_are_accepted() -> None:
    neutral = {"n": 1, "stream": False, "top_p": 1.0, "presence_penalty": 0.0, "stop": None, "tools": None, "user": "a"}
    empty = {"stop_token_ids": [], "logit_bias": {}, "min_tokens": 0, "best_of": 1, "use_beam_search": False}
    assert read(response_format={"type": "text"}, **neutral, **empty).call == read(stop=[]).call == read().call
    harmless = {"metadata": {"a": "b"}, "store": True, "tool_choice": "none", "modalities": ["text"]}
    assert read(**harmless).call == read().call
    question = {"role": "user", "content": "Hello"}
    answer = {"role": "assistant", "content": "x"}
    sent_back = {**answer, "refusal": None, "tool_calls": None, "annotations": []}
    assert (
        read(messages=[question, sent_back, question]).call.turns
        == read(messages=[question, answer, question]).call.turns
    )


@given(st.binary(max_size=60))
def test_any_bytes_are_a_request_or_a_refusal(body: bytes) -> None:
    with pytest.raises(BadRequestError):
        read_body(body)


@pytest.mark.parametrize(
    ("bounds", "fields", "message"),
    [
        ({"pictures": 1}, {"messages": 2 * picture(uri())}, r"2 pictures, at most 1 \(--max-pictures\)"),
        ({"pixels": 47}, {"messages": [*picture(uri()), *picture(uri(4, 6))]},
         r"more than 47 pixels together \(--max-total-pixels\)"),
        ({"messages": 3}, {"messages": 4 * [{"role": "user", "content": "x"}]},
         r"messages: more than 3 messages and parts of messages \(--max-messages\)"),
        ({"messages": 2}, {"messages": picture(uri())}, r"--max-messages"),
    ],
)  # fmt: skip
def test_requests_above_a_bound_name_its_flag(bounds: dict[str, int], fields: dict[str, Any], message: str) -> None:
    with pytest.raises(BadRequestError, match=message) as refused:
        read(bounds=Bounds(**bounds), **fields)
    assert refused.value.status == 400


def test_body_that_would_unfold_into_millions_of_values_is_not_parsed() -> None:
    with pytest.raises(BadRequestError, match="brackets, quotes and commas") as refused:
        read_body(b"[" * (MAX_SIGNS + 1))
    assert refused.value.status == 413


def test_replies_are_whole_or_streamed_as_events() -> None:
    answer = Answer(text="Yes", finish_reason="length", input_tokens=5, output_tokens=2, cached_tokens=1)
    reply = completion(answer, name="m", call_id="9", created=7)
    assert reply["choices"][0]["message"]["content"] == "Yes"
    assert reply["choices"][0]["finish_reason"] == "length"
    assert reply["usage"]["total_tokens"] == 7
    status, body = error_response(Failure(type="context_length", message="too long"))
    assert (status, body["error"]["code"]) == (400, "context_length_exceeded")
    status, body = error_response(Failure(type="preprocess", message="the text holds an image placeholder"))
    assert (status, body["error"]["type"]) == (400, "invalid_request_error"), "a client must not send it again"
    assert error_response(Failure(type="out_of_memory", message="x"))[0] == 500
    reply = completion(Answer(text="Sì", finish_reason="length", output_tokens=2), name="m", call_id="9", created=7)
    *events, end = b"".join(chunks(reply, has_usage=True)).decode().split("\n\n")[:-1]
    assert end == "data: [DONE]"
    *deltas, usage = [json.loads(event.removeprefix("data: ")) for event in events]
    assert [item["choices"][0]["delta"] for item in deltas] == [
        {"role": "assistant", "content": ""},
        {"content": "Sì"},
        {},
    ]
    assert [item["choices"][0]["finish_reason"] for item in deltas] == [None, None, "length"]
    assert {item["id"] for item in deltas} == {"chatcmpl-9"}
    assert (usage["choices"], usage["usage"]["completion_tokens"]) == ([], 2)
    assert "usage" not in b"".join(chunks(reply, has_usage=False)).decode()


@pytest.mark.parametrize(
    ("header", "may"),
    [("Bearer right", True), ("bearer right", True), ("Bearer wrong", False), ("Basic right", False), (None, False)],
)
def test_keys(header: str | None, *, may: bool) -> None:
    assert is_authorized(header, key_hash("right")) is may
    assert is_authorized(header, None)


def test_batch_is_answered_in_order_and_a_failure_affects_one_request() -> None:
    spec = scripted(reverse=True, drop_every=3)
    chats = [read(spec, messages=[{"role": "user", "content": f"question {i}"}]) for i in range(4)]
    outcomes = asyncio.run(ModelReplica("m", spec).answer(chats))
    assert len(outcomes) == 4
    assert [outcome.type for outcome in outcomes if isinstance(outcome, Failure)] == ["engine_contract"]


def test_unavailable_model_is_reported_to_every_request(tmp_path) -> None:
    model = ModelReplica("m", ModelSpec(engine="vllm", model=str(tmp_path)))
    if not model.fatal():
        pytest.skip("vllm is installed here")
    (outcome,) = asyncio.run(model.answer([read()]))
    assert isinstance(outcome, Failure)
    assert outcome.type == "model_unavailable"


def test_replica_whose_device_failed_answers_no_more_and_asks_to_be_replaced() -> None:
    model = ModelReplica("m", scripted(cuda_error_on="poison"))
    model.check_health()
    (poison,) = asyncio.run(model.answer([read(messages=[{"role": "user", "content": "poison"}])]))
    (other,) = asyncio.run(model.answer([read()]))
    assert poison == other
    assert isinstance(other, Failure)
    assert other.type == "model_unavailable"
    with pytest.raises(RuntimeError, match="CUDA error"):
        model.check_health()


def test_model_with_dead_ranks_is_reloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    import models.engines
    from models.errors import EngineDiedError

    class Fragile:
        def __init__(self, *, dies: bool) -> None:
            self.dies = dies

        def generate(self, calls: list[Call], media: object) -> Iterator[CallReply]:
            del media
            if self.dies:
                raise EngineDiedError("rank 1 of 2 died (signal 9)")
            yield from (CallReply(call_id=call.call_id, outcome=Answer(text="A")) for call in calls)

    engines = iter([Fragile(dies=True), Fragile(dies=False)])
    monkeypatch.setattr(models.engines, "build_engine", lambda *_: next(engines))
    model = ModelReplica("m", ModelSpec(engine="random"))
    (first,) = asyncio.run(model.answer([read()]))
    assert isinstance(first, Failure)
    assert "rank 1 of 2 died (signal 9); send the request again" in first.message
    assert asyncio.run(model.answer([read()])) == [Answer(text="A")]
    assert model.fatal() == ""


def test_equal_requests_draw_equally_where_they_have_a_seed() -> None:
    class Drawing:
        def generate(self, calls: list[Call], media: object) -> Iterator[CallReply]:
            del media
            assert len({call.call_id for call in calls}) == len(calls), "replies are matched by call_id"
            yield from (CallReply(call_id=call.call_id, outcome=Answer(text=call.call_id)) for call in calls)

    model = ModelReplica("m", ModelSpec(engine="random"))
    model._engine = Drawing()
    question = [{"role": "user", "content": "B"}]
    first, same, longer, elsewhere = asyncio.run(
        model.answer(
            [read(seed=1), read(seed=1, user="x"), read(seed=1, max_tokens=9), read(seed=1, messages=question)]
        )
    )
    (later,) = asyncio.run(model.answer([read(seed=1)]))
    assert first == same == later
    assert len({answer.text for answer in (first, longer, elsewhere)}) == 3
    without = [answer for _ in range(2) for answer in asyncio.run(model.answer([read(), read()]))]
    assert len({answer.text for answer in without}) == 4


def test_request_that_an_engine_cannot_take_fails_alone() -> None:
    class Choosy:
        def generate(self, calls: list[Call], media: object) -> Iterator[CallReply]:
            del media
            for call in calls:
                if call.generation.max_new_tokens == 9:
                    raise ValueError("nine")
                yield CallReply(call_id=call.call_id, outcome=Answer(text="A"))

    model = ModelReplica("m", ModelSpec(engine="random"))
    model._engine = Choosy()
    outcomes = asyncio.run(model.answer([read(), read(max_tokens=9), read(max_tokens=8)]))
    assert outcomes == [Answer(text="A"), Failure(type="ValueError", message="nine"), Answer(text="A")]
    assert model.fatal() == ""


def test_broken_replica_sends_nothing_more_of_a_batch_to_its_engine() -> None:
    class Failing:
        calls = 0

        def generate(self, calls: list[Call], media: object) -> Iterator[CallReply]:
            del media
            self.calls += 1
            if len(calls) > 1:
                raise ValueError("a batch")
            raise DeviceFailedError("CUDA error")
            yield

    model = ModelReplica("m", ModelSpec(engine="random"))
    model._engine = Failing()
    outcomes = asyncio.run(model.answer([read(), read(), read()]))
    assert {outcome.type for outcome in outcomes} == {"model_unavailable"}
    assert model._engine.calls == 2, "the batch, then its first call alone"


def test_request_of_a_client_that_left_is_not_begun_and_its_batch_ends_early() -> None:
    begun = list[int]()

    class Slow:
        def generate(self, calls: list[Call], media: object) -> Iterator[CallReply]:
            del media
            for call in calls:
                begun.append(call.generation.max_new_tokens)
                time.sleep(0.2)
                yield CallReply(call_id=call.call_id, outcome=Answer(text="A"))

    async def leave() -> Answer | Failure:
        first = [asyncio.create_task(model.ask(read(max_tokens=n))) for n in (1, 2, 3)]
        await asyncio.sleep(0.1)  # the batch of these is with the engine
        waiting = asyncio.create_task(model.ask(read(max_tokens=4)))
        later = asyncio.create_task(model.ask(read(max_tokens=5)))
        await asyncio.sleep(0)
        for task in (*first, waiting):
            task.cancel()
        return await later

    model = ModelReplica("m", ModelSpec(engine="random"))
    model._engine = Slow()
    assert asyncio.run(leave()) == Answer(text="A")
    assert begun == [1, 5]
