"""Bounds on what visitors use at once: queries, requests in flight, and the time of a client that does not move."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final

import h11
from starlette.exceptions import HTTPException
from uvicorn.protocols.http.h11_impl import H11Protocol

RETRY_AFTER: Final = {"Retry-After": "5"}
IN_FLIGHT: Final = 100  # requests, a slow client's until it has read its reply
CHUNK: Final = 1 << 18  # bytes of a reply that are handed to the connection at once

_HEADER_S: Final = 20.0  # in which a request's header must arrive
_WRITE_S: Final = 60.0  # in which a client must take some of a reply


class Gate:
    """Lets a few requests work at once; others wait in order, without a thread, and are refused after a while."""

    def __init__(self, running: int, patience_s: float = 10.0) -> None:
        self._free, self._patience_s = asyncio.Semaphore(running), patience_s

    @contextlib.asynccontextmanager
    async def entered(self) -> AsyncIterator[None]:
        """Wait for a place and hold it; HTTPException (503) when none becomes free in time."""
        try:
            async with asyncio.timeout(self._patience_s):
                await self._free.acquire()
        except TimeoutError:
            raise HTTPException(503, "Too many pages are being made at once; try again in a moment.") from None
        try:
            yield
        finally:
            self._free.release()


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
