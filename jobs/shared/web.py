"""Serve an application over HTTP until it is interrupted; a client that does not move is disconnected."""

import asyncio
import socket
from typing import Any, Final

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

_HEADER_S: Final = 20.0  # in which a request's header must arrive
_WRITE_S: Final = 60.0  # in which a client must take some of a reply
_GRACE_S: Final = 2  # for replies in flight, when it is stopped


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens at an address, and at a free port for 0; OSError if it cannot."""
    family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
    listener = socket.socket(family)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(128)
    except OSError:
        listener.close()
        raise
    return listener


def run_app(app: Any, listener: socket.socket) -> None:
    """Serve an ASGI application until SIGINT or SIGTERM, whose handlers are called at the end."""
    config = uvicorn.Config(
        app,
        http=ImpatientProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=_GRACE_S,
    )
    uvicorn.Server(config).run(sockets=[listener])


class ImpatientProtocol(H11Protocol):
    """HTTP that ends a connection whose client neither completes a header nor takes its reply."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first header."""
        self._timers: dict[str, asyncio.TimerHandle] = {}
        super().connection_made(transport)
        self._await_header()

    def data_received(self, data: bytes) -> None:
        """Read, and wait for the rest of an incomplete header."""
        super().data_received(data)
        self._await_header()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._stop("header")
        self._stop("reply")
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Wait for a client that reads slower than its reply is made."""
        super().pause_writing()
        self._abort_after("reply", _WRITE_S)

    def resume_writing(self) -> None:
        """Go on: the client has read."""
        self._stop("reply")
        super().resume_writing()

    def _await_header(self) -> None:
        if self.conn.their_state is h11.IDLE:
            self._abort_after("header", _HEADER_S)
        else:
            self._stop("header")

    def _abort_after(self, name: str, seconds: float) -> None:
        if name not in self._timers:
            self._timers[name] = self.loop.call_later(seconds, self.transport.abort)

    def _stop(self, name: str) -> None:
        if timer := self._timers.pop(name, None):
            timer.cancel()
