"""Bounds on what visitors use at once: queries and requests in flight."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final

from starlette.exceptions import HTTPException

RETRY_AFTER: Final = {"Retry-After": "5"}
IN_FLIGHT: Final = 100  # requests, a slow client's until it has read its reply
CHUNK: Final = 1 << 18  # bytes of a reply that are handed to the connection at once


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
