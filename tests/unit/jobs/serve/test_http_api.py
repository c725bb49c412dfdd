"""HTTP of the endpoint: keys, bodies, streams, time, and clients that leave, with a scripted model."""

from __future__ import annotations

import asyncio
import base64
import gc
import io
import json
import socket
import time
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
from PIL import Image
from ray import serve
from ray.serve.schema import ProxyStatus, ServeStatus
from starlette.testclient import TestClient

from cluster.connection import ClusterInfo
from cluster.errors import ClusterError
from jobs.serve import http_api
from jobs.serve import run as serving
from jobs.serve.chat_api import BadRequestError, Bounds, ChatRequest
from jobs.serve.http_api import OpenAIApi
from jobs.serve.options import ServeOptions
from jobs.serve.run import _bounds, _listening, is_loopback
from jobs.shared.auth import key_hash
from models.messages import Answer, Failure
from models.spec import ModelSpec
from pipelines.errors import ModelUnavailableError, UsageError

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


HOST = "127.0.0.1"


def test_free_port_is_taken_at_once_and_a_taken_one_or_a_strange_host_refused() -> None:
    with _listening(HOST, 0) as listener:
        port = listener.getsockname()[1]
        with socket.create_connection((HOST, port), timeout=30), listener.accept()[0]:
            pass
        with pytest.raises(UsageError, match=f"--host {HOST} --port {port}: cannot listen there"):
            _listening(HOST, port)
    with pytest.raises(UsageError, match=r"--host 192\.0\.2\.77 --port 0: cannot listen there"):
        _listening("192.0.2.77", 0)


def test_bounds_are_those_of_the_flags() -> None:
    assert _bounds(ServeOptions(model="m")) == Bounds()
    options = ServeOptions(model="m", max_pictures=1, max_total_pixels=2, max_messages=3, max_body_mib=4, timeout_s=5.0)
    assert _bounds(options) == Bounds(pictures=1, pixels=2, messages=3, body_bytes=4 << 20, timeout_s=5.0)


def test_loopback() -> None:
    assert [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "host")] == [
        *3 * [True],
        *2 * [False],
    ]


class Serve:
    """Ray Serve, scripted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, status: ServeStatus) -> None:
        self.current, self.is_shut, self.options = status, False, dict[str, Any]()
        for name in ("start", "status", "shutdown"):
            monkeypatch.setattr(serve, name, getattr(self, name))

    def start(self, **options: Any) -> None:
        self.options = options

    def status(self) -> ServeStatus:
        return self.current

    def shutdown(self) -> None:
        self.is_shut = True


@pytest.mark.parametrize("address", ["", "10.0.0.1:6379"])
def test_serve_has_no_proxies_and_ends_with_the_block(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    started = Serve(monkeypatch, ServeStatus())
    monkeypatch.setattr(serving, "_start", lambda *_: "handle")
    with serving.serving("m", SPEC, ClusterInfo(address, 2.0, 0.0), 1.0) as handle:
        assert handle == "handle"
        assert started.options["proxy_location"] == "Disabled"
    assert started.is_shut == bool(address), "an embedded cluster ends anyway, and waits for no request in flight"


def test_model_that_cannot_start_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_: object, **__: object) -> None:
        raise RuntimeError("no room")

    Serve(monkeypatch, ServeStatus())
    monkeypatch.setattr(serve, "run", run)
    message = "model 'm' could not be started: no room"
    with (
        pytest.raises(ModelUnavailableError, match=message),
        serving.serving("m", SPEC, ClusterInfo("", 2.0, 0.0), 1.0),
    ):
        pytest.fail("it cannot start")


def test_running_serve_is_not_shut_down(monkeypatch: pytest.MonkeyPatch) -> None:
    started = Serve(monkeypatch, ServeStatus(proxies={"a": ProxyStatus.HEALTHY}))
    message = "serves nothing yet.*serve shutdown"
    with pytest.raises(ClusterError, match=message), serving.serving("m", SPEC, ClusterInfo("", 2.0, 0.0), 1.0):
        pytest.fail("it is taken")
    assert not started.is_shut
