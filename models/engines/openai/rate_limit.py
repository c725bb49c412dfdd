"""How many calls are out at an endpoint at once, and how much has been spent there."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

from models.engines.openai.failures import (
    _MADE_UP_S,
    FailedAttempt,
)
from models.messages import Answer


class AdaptiveConcurrency:
    """Lets so many tries through at a time: half as many after a 429, slowly more again while all goes well.

    A storm of 429s halves it once: those that were sent before the cut say nothing about the new width.
    """

    def __init__(self, most: int) -> None:
        self._most, self._width = most, float(most)
        self._out, self._sent, self._cut_at = 0, 0, 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def width(self) -> int:
        """Tries that may be out now."""
        return max(1, int(self._width))

    async def __aenter__(self) -> Self:
        while self._out >= self.width:
            turn = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                self._wake()  # the turn may have been given already: hand it on
                raise
        self._out += 1
        self._sent += 1
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._out -= 1
        self._wake()

    def told(self, outcome: Answer | FailedAttempt) -> None:
        """Learn from one try, while it is still counted as out."""
        if isinstance(outcome, Answer):
            self._width = min(float(self._most), self._width + 1.0 / self._width)
        elif outcome.failure.type == "http_429" and self._sent - self._out >= self._cut_at:
            self._width = max(1.0, self._width / 2)
            self._cut_at = self._sent

    def _wake(self) -> None:
        room = self.width - self._out
        while room > 0 and self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                room -= 1


class RateLimiter:
    """Gives each try its turn: evenly spaced, and none while the endpoint asks for a pause."""

    def __init__(
        self,
        per_minute: float | None,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._interval = 60.0 / per_minute if per_minute else 0.0
        self._clock = clock
        self._sleep = sleep
        self._next = self._held_until = float("-inf")
        self._begun = False

    async def turn(self) -> None:
        """Return when the next try may be sent."""
        while True:
            # A turn that came late on a busy machine is made up for: limits count the minute, not the moment.
            slot = max(self._next, self._clock() - (_MADE_UP_S if self._begun else 0.0))
            self._begun = True
            self._next = slot + self._interval
            while (wait := slot - self._clock()) > 0:
                await self._sleep(wait)
            # A pause may have been asked for meanwhile; then this try queues again behind it.
            if self._clock() >= self._held_until:
                return

    def hold(self, seconds: float) -> None:
        """Let nothing pass for so long: a limit of requests is the account's, not one call's."""
        self._held_until = max(self._held_until, self._clock() + seconds)
        self._next = max(self._next, self._held_until)
