"""The HTTP side of the endpoint: authentication, paths, bodies, and pictures decoded outside the event loop."""

import asyncio
import itertools
import logging
import time
from queue import SimpleQueue
from typing import Any

from jobs.serve.auth import is_authorized
from jobs.serve.chat_api import (
    MAX_PIXELS,
    BadRequestError,
    completion,
    error_body,
    error_response,
    model_list,
    read_chat,
)
from models.messages import Answer, Failure, Frames
from models.spec import ModelSpec
from pipelines.media.decoder import Decoder

log = logging.getLogger(__name__)
MAX_BODY_BYTES = 128 << 20
_DECODERS = 4


class _Decoders:
    """A few decoder processes for many threads; each is started when it is first needed."""

    def __init__(self) -> None:
        self._free: SimpleQueue[Decoder] = SimpleQueue()
        for _ in range(_DECODERS):
            self._free.put(Decoder(max_image_pixels=MAX_PIXELS))

    def decode(self, content: bytes, max_pixels: int | None) -> Frames:
        """Decode an image when a decoder is free."""
        decoder = self._free.get()
        try:
            return decoder.decode_picture(content, max_pixels)
        finally:
            self._free.put(decoder)


class OpenAIApi:
    """Reads requests, calls the model, writes replies."""

    def __init__(self, model: Any, name: str, spec: ModelSpec, key: str | None) -> None:
        self._model, self._name, self._spec, self._key = model, name, spec, key
        self._numbers = itertools.count(1)
        self._decoders = _Decoders()

    async def __call__(self, request: Any) -> Any:
        """Handle one HTTP request."""
        from starlette.responses import JSONResponse

        status, body = await self._reply(request)
        headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None
        return JSONResponse(body, status_code=status, headers=headers)

    async def fatal(self) -> str:
        """Return why the model is unavailable, or ''."""
        return str(await self._model.fatal.remote())

    async def _reply(self, request: Any) -> tuple[int, Any]:
        if not is_authorized(request.headers.get("authorization"), self._key):
            return 401, error_body("Wrong or missing key", kind="invalid_request_error", code="invalid_api_key")
        route = (request.method, request.url.path.rstrip("/"))
        if route == ("GET", "/v1/models"):
            return 200, model_list(self._name)
        if route == ("GET", f"/v1/models/{self._name}"):
            return 200, model_list(self._name)["data"][0]
        if route != ("POST", "/v1/chat/completions"):
            return 404, error_body(f"No such path: {request.method} {request.url.path}", kind="invalid_request_error")
        return await self._chat(request)

    async def _chat(self, request: Any) -> tuple[int, Any]:
        from ray.exceptions import RayActorError
        from ray.serve.exceptions import DeploymentUnavailableError

        call_id = str(next(self._numbers))
        try:
            content = await _body(request)
            # Decoding an image would block other requests.
            chat = await asyncio.to_thread(
                read_chat, content, name=self._name, spec=self._spec, decode=self._decoders.decode
            )
        except BadRequestError as error:
            kind = "invalid_request_error"
            return error.status, error_body(str(error), kind=kind, code=error.code, param=error.param)
        try:
            outcome = await self._model.answer.remote(chat)
        except (RayActorError, DeploymentUnavailableError) as error:
            log.warning("a replica ended with a request: %s", error)
            outcome = Failure(type="model_unavailable", message="its replica ended meanwhile; send the request again")
        if isinstance(outcome, Answer):
            return 200, completion(outcome, name=self._name, call_id=call_id, created=int(time.time()))
        status, body = error_response(outcome)
        return (503 if outcome.type == "model_unavailable" else status), body


async def _body(request: Any) -> bytes:
    content = bytearray()
    async for chunk in request.stream():
        content += chunk
        if len(content) > MAX_BODY_BYTES:
            raise BadRequestError(f"the request is larger than {MAX_BODY_BYTES >> 20} MiB", status=413)
    return bytes(content)
