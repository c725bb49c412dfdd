"""A scripted endpoint over real HTTP, in a thread of the test.

It speaks chat completions as OpenAI-compatible servers, the Anthropic Messages API and the Gemini API, by path.

`with ScriptedEndpoint(always("A")) as endpoint: ... endpoint.base_url`.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from tests.support.endpoint_batch_protocols import SERVERS
from tests.support.endpoint_batches import BatchScript, BatchServer
from tests.support.endpoint_protocols import ChatProtocol, RefusedBodyError, protocol_of
from tests.support.endpoint_script import (
    Action,
    Drop,
    EndpointRequest,
    Half,
    Hang,
    Raw,
    Say,
    Script,
    Status,
    always,
    by_rules,
)

__all__ = [
    "Action",
    "BatchEndpoint",
    "BatchScript",
    "BatchServer",
    "Drop",
    "EndpointRequest",
    "Half",
    "Hang",
    "Raw",
    "Say",
    "Script",
    "ScriptedEndpoint",
    "Status",
    "always",
    "by_rules",
]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def log_message(self, *args: object) -> None:
        """Silence."""

    def do_GET(self) -> None:
        if self._is_batch_path():
            self._batch("GET", b"")
        elif self.path.endswith("/models"):
            self._send(200, {"object": "list", "data": [{"id": "scripted", "object": "model"}]})
        else:
            self._send(404, {"error": {"message": f"no such path {self.path}"}})

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self._is_batch_path():
            self._batch("POST", content)
            return
        raw, protocol, endpoint = json.loads(content), protocol_of(self.path), self.server.endpoint
        headers = {name.lower(): value for name, value in self.headers.items()}
        if protocol is None:
            self._send(404, {"error": {"message": f"no such path {self.path}"}})
            return
        try:
            body = protocol.to_chat(raw, self.path, headers)
        except RefusedBodyError as error:
            self._send(400, protocol.error(400, str(error), None))
            return
        request = endpoint.note(body, raw, headers)
        try:
            self._follow(request, endpoint.script(request), protocol)
        finally:
            endpoint.done()

    def _is_batch_path(self) -> bool:
        batches = self.server.endpoint.batches
        return batches.serves(self.path) if batches else self.path.startswith(BatchServer.paths)

    def _batch(self, method: str, content: bytes) -> None:
        batches = self.server.endpoint.batches
        if batches is None:
            self._send(404, {"error": {"message": f"no such path {self.path}"}})
        else:
            headers = {name.lower(): value for name, value in self.headers.items()}
            self._send_bytes(*batches.handle(method, self.path, content, headers))

    def _follow(self, request: EndpointRequest, action: Action | str, protocol: ChatProtocol) -> None:
        if isinstance(action, str):
            action = Say(text=action)
        if isinstance(action, Say):
            self.server.endpoint.stopping.wait(action.delay_s)
            action.on_end()
            self._send(200, protocol.reply(_completion(request, action)))
        elif isinstance(action, Status):
            error = protocol.error(action.status, action.message, action.code)
            self._send(action.status, error, action.headers)
        elif isinstance(action, Raw):
            self._send_bytes(200, action.body, {})
        elif isinstance(action, Half):
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b'{"choices": [')
            self.close_connection = True
        else:
            if isinstance(action, Hang):
                self.server.endpoint.stopping.wait(action.seconds)
            self.close_connection = True

    def _send(self, status: int, body: object, headers: Mapping[str, str] | None = None) -> None:
        self._send_bytes(status, json.dumps(body).encode(), headers or {})

    def _send_bytes(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _completion(request: EndpointRequest, say: Say) -> dict[str, Any]:
    limit = request.body.get("max_completion_tokens", request.body.get("max_tokens"))
    words = (say.text or "").split()
    text, reason = say.text, say.finish_reason
    if limit is not None and len(words) > limit:
        words, reason = words[:limit], "length"
        text = " ".join(words)
    prompt_tokens = len(request.text.split()) + 100 * len(request.pictures)
    prompt_tokens = prompt_tokens if say.prompt_tokens is None else say.prompt_tokens
    return {
        "id": f"chatcmpl-{request.number}",
        "object": "chat.completion",
        "created": 0,
        "model": say.model or request.body["model"],
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": reason}],
        "usage": {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": len(words),
            "total_tokens": prompt_tokens + len(words),
            "prompt_tokens_details": {"cached_tokens": say.cached_tokens, "cache_write_tokens": say.cache_write_tokens},
        },
    }


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    endpoint: ScriptedEndpoint

    def __init__(self, address: tuple[str, int]) -> None:
        super().__init__(address, _Handler)
        self._connections: set[socket.socket] = set()

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        self._connections.add(connection)
        return connection, address

    def shutdown_request(self, request: Any) -> None:
        self._connections.discard(request)
        super().shutdown_request(request)

    def hang_up(self) -> None:
        """End connections that are kept alive: without it a stopped endpoint would go on answering them."""
        for connection in list(self._connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore clients that went away: scripts make them."""


class ScriptedEndpoint:
    """Serves while entered; `requests` holds all chat requests, `most_at_once` the most open at one time."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.batches: BatchServer | None = None
        """Serves files and batches, where set."""
        self.requests: list[EndpointRequest] = []
        self.most_at_once = 0
        self.stopping = threading.Event()
        self._open = 0
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0))
        self._server.endpoint = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def base_url(self) -> str:
        return f"{self.address}/v1"

    @property
    def address(self) -> str:
        """The address of all protocols."""
        return "http://{}:{}".format(*self._server.server_address[:2])

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop serving; a second call does nothing."""
        if self.stopping.is_set():
            return
        self.stopping.set()
        self._server.shutdown()
        self._server.server_close()
        self._server.hang_up()
        self._thread.join()

    def note(self, body: dict[str, Any], raw: dict[str, Any], headers: dict[str, str]) -> EndpointRequest:
        with self._lock:
            request = EndpointRequest(
                number=len(self.requests), body=body, raw=raw, headers=headers, at=time.monotonic()
            )
            self.requests.append(request)
            self._open += 1
            self.most_at_once = max(self.most_at_once, self._open)
        return request

    def done(self) -> None:
        with self._lock:
            self._open -= 1


class BatchEndpoint(ScriptedEndpoint):
    """A scripted endpoint with batches, whose requests the same script answers; `batches` has their scripts."""

    batches: BatchServer

    def __init__(
        self,
        script: Script,
        batch_script: Callable[[int], BatchScript] = lambda _: BatchScript(),
        *,
        engine: str = "openai",
    ) -> None:
        """`engine` is the one whose protocol its batches have."""
        super().__init__(script)
        self.engine = engine
        self.batches = SERVERS[engine](self._answer, batch_script)

    def _answer(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        request = EndpointRequest(number=0, body=body, raw=body, headers={}, at=0.0)
        action = self.script(request)
        if isinstance(action, Status):
            return action.status, {"error": {"message": action.message, "code": action.code}}
        assert isinstance(action, str | Say)
        return 200, _completion(request, Say(text=action) if isinstance(action, str) else action)
