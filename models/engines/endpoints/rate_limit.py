"""Limits on concurrent attempts and on attempts per minute at an endpoint."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Self

from models.engines.endpoints.failures import FailedAttempt
from models.messages import Answer

LONG_PAUSE_S = 10.0  # from which on a pause that the endpoint asks for is logged
_CATCH_UP_S = 1.0  # lateness that the pace makes up for: at most a sixtieth of a minute's requests come closer together


class AdaptiveConcurrency:
    """Limits concurrent attempts: halves the limit once per burst of 429s, raises it slowly on success."""

    def __init__(self, maximum: int) -> None:
        self._maximum, self._limit = maximum, float(maximum)
        self._in_flight, self._sent, self._reduced_at = 0, 0, 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def limit(self) -> int:
        """Return the attempts that may be in flight now."""
        return max(1, int(self._limit))

    async def __aenter__(self) -> Self:
        while self._in_flight >= self.limit:
            slot = asyncio.get_running_loop().create_future()
            self._waiting.append(slot)
            try:
                await slot
            except asyncio.CancelledError:
                self._wake()  # the slot may have been granted already: pass it on
                raise
        self._in_flight += 1
        self._sent += 1
        return self

    async def __aexit__(self, *exception: object) -> None:
        self._in_flight -= 1
        self._wake()

    def record(self, outcome: Answer | FailedAttempt) -> None:
        """Adapt to an attempt's outcome, while it still counts as in flight."""
        if isinstance(outcome, Answer):
            self._limit = min(float(self._maximum), self._limit + 1.0 / self._limit)
        elif outcome.failure.type == "http_429" and self._sent - self._in_flight >= self._reduced_at:
            self._limit = max(1.0, self._limit / 2)
            self._reduced_at = self._sent

    def _wake(self) -> None:
        free = self.limit - self._in_flight
        while free > 0 and self._waiting:
            slot = self._waiting.popleft()
            if not slot.done():
                slot.set_result(None)
                free -= 1


class RateLimiter:
    """Spaces attempts evenly, and lets none pass while the endpoint asks for a pause."""

    def __init__(
        self,
        per_minute: float | None,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._interval = 60.0 / per_minute if per_minute else 0.0
        self._clock = clock
        self._sleep = sleep
        self._next = self._paused_until = self._logged_until = float("-inf")
        self._started = False

    async def wait_for_turn(self) -> None:
        """Wait until the next attempt may be sent."""
        while True:
            # A slot that came late on a busy machine is made up for: limits count the minute, not the moment.
            slot = max(self._next, self._clock() - (_CATCH_UP_S if self._started else 0.0))
            self._started = True
            self._next = slot + self._interval
            while (wait := slot - self._clock()) > 0:
                await self._sleep(wait)
            # A pause may have been set meanwhile; then this attempt queues again behind it.
            if self._clock() >= self._paused_until:
                return

    def pause(self, seconds: float) -> bool:
        """Pause all attempts for this time: a rate limit is per account, not per call.

        Returns:
            Whether to log it: a long pause that ends clearly after the last one that was logged.
        """
        self._paused_until = max(self._paused_until, self._clock() + seconds)
        self._next = max(self._next, self._paused_until)
        end = self._clock() + seconds
        is_new = seconds >= LONG_PAUSE_S and end >= self._logged_until + LONG_PAUSE_S / 2
        if is_new:
            self._logged_until = end
        return is_new
