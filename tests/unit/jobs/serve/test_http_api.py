"""HTTP of the endpoint: keys, bodies, streams, time, and clients that leave, with a scripted model."""

from __future__ import annotations

import asyncio
import base64
import gc
import io
import json
import time
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
from PIL import Image
from starlette.testclient import TestClient

from jobs.serve import http_api
from jobs.serve.chat_api import BadRequestError, Bounds, ChatRequest
from jobs.serve.http_api import OpenAIApi
from jobs.shared.auth import key_hash
from models.messages import Answer, Failure
from models.spec import ModelSpec

SPEC = ModelSpec(engine="random")
KEY = {"Authorization": "Bearer k"}
CHAT = "/v1/chat/completions"


class Response:
    """What a handle returns: awaitable, and to be cancelled."""

    def __init__(self, model: Model, chat: ChatRequest) -> None:
        self.model, self.chat = model, chat

    def __await__(self) -> Any:
        return self.model.answered(self.chat).__await__()

    def cancel(self) -> None:
        self.model.cancelled += 1


class Model:
    """The handle of a deployment."""

    def __init__(self, outcome: Answer | Failure = Answer(text="A"), delay_s: float = 0.0) -> None:  # noqa: B008 - frozen
        self.outcome, self.delay_s, self.cancelled, self.chats = outcome, delay_s, 0, list[ChatRequest]()
        self.ask = self

    def remote(self, chat: ChatRequest) -> Response:
        self.chats.append(chat)
        return Response(self, chat)

    async def answered(self, _: ChatRequest) -> Answer | Failure:
        await asyncio.sleep(self.delay_s)
        return self.outcome


def api(model: Model, **bounds: Any) -> OpenAIApi:
    return OpenAIApi(model, "m", SPEC, key=key_hash("k"), bounds=Bounds(**bounds))


@pytest.fixture
def model() -> Model:
    return Model()


@pytest.fixture
def client(model: Model) -> Iterator[TestClient]:
    application = api(model)
    yield TestClient(application, headers=KEY)
    application.close()


def body(**fields: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": "?"}], **fields}


def with_pictures(count: int, side: int = 8) -> dict[str, Any]:
    addresses = list[str]()
    for number in range(count):
        file = io.BytesIO()
        Image.new("RGB", (side, side), (number, 0, 0)).save(file, "PNG")
        addresses.append("data:image/png;base64," + base64.b64encode(file.getvalue()).decode())
    parts = [{"type": "image_url", "image_url": {"url": address}} for address in addresses]
    return body(messages=[{"role": "user", "content": parts}])


def test_reply_is_whole_or_a_stream_of_events(client: TestClient) -> None:
    assert client.post(CHAT, json=body()).json()["choices"][0]["message"]["content"] == "A"
    streamed = client.post(CHAT, json=body(stream=True))
    assert streamed.headers["content-type"].startswith("text/event-stream")
    assert streamed.text.endswith("data: [DONE]\n\n")


@pytest.mark.parametrize("path", ["/v1/models", "/-/routes", "/-/healthz", "/", CHAT])
def test_no_path_answers_without_the_key(client: TestClient, path: str) -> None:
    for headers in ({}, {"Authorization": "Bearer no"}):
        reply = client.request("GET", path, headers={"Authorization": "", **headers})
        assert (reply.status_code, reply.headers["www-authenticate"]) == (401, "Bearer")
    assert client.post(CHAT, content=b"x" * (3 << 20), headers={"Authorization": "Bearer no"}).status_code == 401


def test_failures_keep_their_status(client: TestClient, model: Model) -> None:
    assert client.get("/v2/x").status_code == 404
    assert client.post(CHAT, json=body(n=2)).status_code == 400
    for kind, status in (("model_unavailable", 503), ("preprocess", 400), ("out_of_memory", 500)):
        model.outcome = Failure(type=kind, message="no")
        for streamed in (False, True):
            assert client.post(CHAT, json=body(stream=streamed)).status_code == status


@pytest.mark.parametrize("is_announced", [True, False])
def test_body_above_the_bound_is_refused_and_not_kept(model: Model, is_announced: bool) -> None:
    content: Any = b"x" * (3 << 20)
    sent = content if is_announced else (content[start : start + 65536] for start in range(0, len(content), 65536))
    reply = TestClient(api(model, body_bytes=2 << 20), headers=KEY).post(CHAT, content=sent)
    assert reply.status_code == 413
    assert "larger than 2 MiB (--max-body-mib)" in reply.json()["error"]["message"]


def test_answer_that_takes_too_long_is_given_up() -> None:
    slow = Model(delay_s=30.0)
    reply = TestClient(api(slow, timeout_s=0.2), headers=KEY).post(CHAT, json=body())
    assert (reply.status_code, reply.json()["error"]["code"]) == (504, "timeout")
    assert slow.cancelled == 1


def test_pictures_of_requests_that_wait_take_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_api, "_MEDIA_BYTES", 3 * 64 * 64)
    waiting = Model(delay_s=0.3)

    async def send_all() -> list[int]:
        application, content = api(waiting), json.dumps(with_pictures(1, 64)).encode()
        sent = list[int]()

        async def send(message: Any) -> None:
            sent.extend([message["status"]] if message["type"] == "http.response.start" else [])

        await asyncio.gather(*(application(scope(), receiver(content), send) for _ in range(3)))
        application.close()
        return sent

    start = time.monotonic()
    assert asyncio.run(send_all()) == [200, 200, 200]
    assert time.monotonic() - start > 0.85, "each waits for the memory of the one before"


def test_refused_body_is_freed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    errors = list[weakref.ref[BadRequestError]]()

    def refusal() -> BadRequestError:
        error = BadRequestError("no")
        errors.append(weakref.ref(error))
        return error

    def refuse(*_: object, **__: object) -> ChatRequest:
        raise refusal()

    async def send(_: object) -> None:
        pass

    async def ask() -> None:
        application = api(Model())
        await application(scope(), receiver(json.dumps(body()).encode()), send)
        application.close()

    monkeypatch.setattr(http_api, "read_chat", refuse)
    gc.disable()
    try:
        asyncio.run(ask())
        assert [error() for error in errors] == [None]
    finally:
        gc.enable()


def scope() -> dict[str, Any]:
    headers = [(b"authorization", b"Bearer k")]
    return {"type": "http", "method": "POST", "path": CHAT, "headers": headers, "query_string": b""}


def receiver(content: bytes, leaves_after_s: float = 600.0) -> Any:
    messages = iter([{"type": "http.request", "body": content, "more_body": False}])

    async def receive() -> Any:
        if message := next(messages, None):
            return message
        await asyncio.sleep(leaves_after_s)
        return {"type": "http.disconnect"}

    return receive


def test_work_for_a_client_that_left_ends() -> None:
    slow = Model(delay_s=30.0)

    async def send(_: object) -> None:
        pytest.fail("nobody is there to read it")

    async def leave() -> None:
        application = api(slow)
        await application(scope(), receiver(json.dumps(body()).encode(), 0.1), send)
        await application(scope(), receiver(json.dumps(with_pictures(40)).encode(), 0.0), send)
        application.close()

    start = time.monotonic()
    asyncio.run(leave())
    assert time.monotonic() - start < 20
    assert (slow.cancelled, len(slow.chats)) == (1, 1), "the pictures of the second were never sent to the model"
