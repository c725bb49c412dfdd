"""The HTTP side of the endpoint: authentication, paths, bodies, and pictures decoded outside the event loop."""

import asyncio
import contextlib
import itertools
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable
from queue import SimpleQueue
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from jobs.serve.chat_api import (
    MAX_PIXELS,
    BadRequestError,
    Bounds,
    ChatRequest,
    chunks,
    completion,
    error_body,
    error_response,
    model_list,
    read_chat,
)
from jobs.shared.auth import is_authorized
from models.messages import Answer, Failure, Frames
from models.spec import ModelSpec
from pipelines.media.decoder import Decoder

log = logging.getLogger(__name__)
T = TypeVar("T")
_DECODERS = 4
_PREPARED = 4  # requests with pictures, or larger than `_SMALL_BYTES`, that are read at once
_SMALL_BYTES = 1 << 20
_BODY_S = 60.0  # in which a body must arrive
_DRAIN_S = 20.0  # of a refused body that is read to its end
_MEDIA_BYTES = 1 << 30  # of decoded pictures of requests that wait for their answer; one request may be larger
_INVALID = "invalid_request_error"


class _GoneError(Exception):
    """The client has left: what is done for it ends."""


class _Decoders:
    """A few decoder processes for many threads; each is started when it is first needed."""

    def __init__(self) -> None:
        self._free: SimpleQueue[Decoder] = SimpleQueue()
        for _ in range(_DECODERS):
            self._free.put(Decoder(max_image_pixels=MAX_PIXELS))

    def use(self, work: Callable[[Decoder], T], has_left: threading.Event) -> T:
        """Work with a decoder when it is free; raise `_GoneError` for a client that has left."""
        decoder = self._free.get()
        try:
            if has_left.is_set():
                raise _GoneError
            return work(decoder)
        finally:
            self._free.put(decoder)

    def close(self) -> None:
        """End the processes that are free."""
        while not self._free.empty():
            self._free.get().close()


class OpenAIApi:
    """Reads requests, calls the model, writes replies: an ASGI application beside the handle of a deployment."""

    def __init__(self, model: Any, name: str, spec: ModelSpec, *, key: str | None, bounds: Bounds) -> None:
        self._model, self._name, self._spec, self._key, self._bounds = model, name, spec, key, bounds
        self._numbers = itertools.count(1)
        self._decoders = _Decoders()
        self._preparing = asyncio.Semaphore(_PREPARED)
        self._media_bytes, self._has_room = 0, asyncio.Condition()

    def close(self) -> None:
        """End the decoders."""
        self._decoders.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one HTTP request."""
        request = Request(scope, receive)
        with contextlib.suppress(ClientDisconnect):
            response = await self._respond(request)
            if response.status_code in (401, 408, 413):
                response.headers["Connection"] = "close"
            await response(scope, receive, send)

    async def _respond(self, request: Request) -> Response:
        if not is_authorized(request.headers.get("authorization"), self._key):
            await _drain(request)
            body = error_body("Wrong or missing key", kind=_INVALID, code="invalid_api_key")
            return JSONResponse(body, 401, headers={"WWW-Authenticate": "Bearer"})
        route = (request.method, request.url.path.rstrip("/"))
        if route == ("GET", "/v1/models"):
            return JSONResponse(model_list(self._name))
        if route == ("GET", f"/v1/models/{self._name}"):
            return JSONResponse(model_list(self._name)["data"][0])
        if route != ("POST", "/v1/chat/completions"):
            problem = f"No such path: {request.method} {request.url.path}"
            return JSONResponse(error_body(problem, kind=_INVALID), 404)
        return await self._chat(request)

    async def _chat(self, request: Request) -> Response:
        """Answer while the client waits: when it leaves, or the time is over, the work for it ends."""
        has_left, finish_reading = threading.Event(), asyncio.Event()
        work = asyncio.create_task(self._answered(request, has_left, finish_reading))
        leaving = asyncio.create_task(_leaving(request, finish_reading))
        try:
            await asyncio.wait({work, leaving}, timeout=self._bounds.timeout_s, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                return await work
            if leaving.done():
                raise ClientDisconnect
            problem = f"no answer within {self._bounds.timeout_s:g} s (--timeout-s)"
            return JSONResponse(error_body(problem, kind="server_error", code="timeout"), 504)
        except BadRequestError as error:
            body = error_body(str(error), kind=_INVALID, code=error.code, param=error.param)
            return JSONResponse(body, error.status)
        finally:
            has_left.set()
            for task in (work, leaving):
                task.cancel()
            await asyncio.gather(work, leaving, return_exceptions=True)
            # A failed task, its traceback and this frame hold each other, and with them the body of the request.
            del work, leaving, task

    async def _answered(self, request: Request, has_left: threading.Event, finish_reading: asyncio.Event) -> Response:
        async with self._prepared(request, has_left, finish_reading) as chat:
            outcome = await self._outcome(chat)
        if not isinstance(outcome, Answer):
            status, body = error_response(outcome)
            return JSONResponse(body, 503 if outcome.type == "model_unavailable" else status)
        number = str(next(self._numbers))
        reply = completion(outcome, name=self._name, call_id=number, created=int(time.time()))
        if not chat.is_streamed:
            return JSONResponse(reply)
        events = b"".join(chunks(reply, has_usage=chat.has_usage))
        return Response(events, media_type="text/event-stream", headers={"Cache-Control": "no-cache"})

    @contextlib.asynccontextmanager
    async def _prepared(
        self, request: Request, has_left: threading.Event, finish_reading: asyncio.Event
    ) -> AsyncIterator[ChatRequest]:
        """Yield the call of a request; those that take much memory are read a few at a time, and wait for room."""
        async with contextlib.AsyncExitStack() as waiting:
            async with contextlib.AsyncExitStack() as slot:
                is_large = int(request.headers.get("content-length", _SMALL_BYTES + 1)) > _SMALL_BYTES
                if is_large:
                    await slot.enter_async_context(self._preparing)
                content = await self._body(request)
                finish_reading.set()
                if not is_large and b"image_url" in content:
                    await slot.enter_async_context(self._preparing)
                # Parsing and decoding would block other requests.
                chat = await asyncio.to_thread(self._read, content, has_left)
                if size := chat.media_bytes:
                    async with self._has_room:
                        await self._has_room.wait_for(lambda: self._media_bytes + size <= max(_MEDIA_BYTES, size))
                        self._media_bytes += size
                    waiting.push_async_callback(self._leave_room, size)
            yield chat

    async def _leave_room(self, size: int) -> None:
        async with self._has_room:
            self._media_bytes -= size
            self._has_room.notify_all()

    def _read(self, content: bytes, has_left: threading.Event) -> ChatRequest:
        def decode(file: bytes, max_pixels: int | None) -> Frames:
            return self._decoders.use(lambda decoder: decoder.decode_picture(file, max_pixels), has_left)

        def count(file: bytes) -> int:
            return self._decoders.use(lambda decoder: decoder.count_pixels(file), has_left)

        return read_chat(content, name=self._name, spec=self._spec, decode=decode, count=count, bounds=self._bounds)

    async def _body(self, request: Request) -> bytes:
        content, limit = bytearray(), self._bounds.body_bytes
        too_large = BadRequestError(f"the request is larger than {limit >> 20} MiB (--max-body-mib)", status=413)
        if int(request.headers.get("content-length", "0")) > limit:
            await _drain(request)
            raise too_large
        try:
            async with asyncio.timeout(_BODY_S):
                has_more = True
                while has_more:
                    message = await request.receive()
                    if message["type"] == "http.disconnect":
                        raise ClientDisconnect
                    has_more = bool(message.get("more_body"))
                    content += message.get("body", b"")
                    if len(content) > limit:
                        content.clear()
                        if has_more:
                            await _drain(request)
                        raise too_large
        except TimeoutError:
            raise BadRequestError(f"the request did not arrive within {_BODY_S:g} s", status=408) from None
        return bytes(content)

    async def _outcome(self, chat: ChatRequest) -> Answer | Failure:
        from ray.exceptions import RayActorError
        from ray.serve.exceptions import DeploymentUnavailableError

        response = self._model.ask.remote(chat)
        try:
            outcome: Answer | Failure = await response
        except (RayActorError, DeploymentUnavailableError) as error:
            log.warning("a replica ended with a request: %s", error)
            return Failure(type="model_unavailable", message="its replica ended meanwhile; send the request again")
        except asyncio.CancelledError:
            response.cancel()
            raise
        return outcome


async def _drain(request: Request) -> None:
    """Read the rest of a refused body and keep nothing: a client that still sends would not see the reply."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_DRAIN_S):
            while (await request.receive()).get("more_body"):
                pass


async def _leaving(request: Request, finish_reading: asyncio.Event) -> None:
    """Return when the client closes its connection, once its body has been read."""
    await finish_reading.wait()
    while (await request.receive())["type"] != "http.disconnect":
        pass
