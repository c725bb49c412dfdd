"""Limits on concurrent attempts and on attempts per minute at an endpoint."""

import asyncio
import heapq
from collections import deque
from collections.abc import Awaitable, Callable

from models.engines.endpoints.failures import FailedAttempt
from models.messages import Answer

LONG_PAUSE_S = 10.0  # an endpoint that asks for more than this, or for a logged pause, means all attempts
_CATCH_UP_S = 1.0  # lateness that the pace makes up for: at most a sixtieth of a minute's requests come closer together
_REFUSALS = frozenset({"http_429", "http_503", "http_529"})  # 529 is Anthropic's, overloaded
_LAST = 20
_BURST = 5  # refusals among the last 20 attempts: gateways refuse single requests at random, which no width avoids
_PAUSE = (5, 10)  # so many refusals among so many last attempts, and
_BURSTS = (
    3  # so many bursts with nothing accepted between them: the account is at its limit, and fewer calls do not help
)
_MORE = 1.2  # times the answers per second that a doubled width must bring, or doubling ends
_SLOWER = 2.0  # times the mean latency at the start, up to which the width grows further
_ROUND = 32  # answers of a round, at least: twice as many as are in flight, since the first come at the old rate


class Window:
    """The number of attempts that may be in flight: it grows while that brings more answers, and halves at refusals.

    It starts at `start`. Above that it doubles as long as the rate of answers rises with it, then grows by one a round
    while answers take no more than twice as long as at first, up to `most`. It halves once per burst of refusals.
    """

    def __init__(self, start: int, most: int, clock: Callable[[], float]) -> None:
        self._start, self._most, self._clock = start, most, clock
        self._limit = float(min(start, most))
        self._in_flight = self._sent = self._reduced_at = self._bursts = 0
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._arrivals = 0
        self._last: deque[tuple[int, bool]] = deque(maxlen=_LAST)  # attempts, and whether they were refused
        self._doubles = start < most
        self._round_began, self._answers, self._seconds = clock(), 0, 0.0
        self._rate = 0.0  # answers per second of the last round
        self._first_latency: float | None = None
        self._slow = False

    @property
    def limit(self) -> int:
        """Return the attempts that may be in flight now."""
        return max(1, int(self._limit))

    @property
    def waiting(self) -> int:
        """Return how many attempts wait for their turn."""
        return len(self._waiting)

    async def enter(self, priority: int = 0) -> int:
        """Wait for a place, those of a lower `priority` first; return the number of the attempt."""
        while self._in_flight >= self.limit:
            slot = asyncio.get_running_loop().create_future()
            self._arrivals += 1
            heapq.heappush(self._waiting, (priority, self._arrivals, slot))
            try:
                await slot
            except asyncio.CancelledError:
                self._wake()  # the slot may have been granted already: pass it on
                raise
        self._in_flight += 1
        self._sent += 1
        return self._sent

    @property
    def is_overfull(self) -> bool:
        """Return whether more attempts hold a place than may be in flight now, since the window has narrowed."""
        return self._in_flight > self.limit

    def leave(self) -> None:
        """End an attempt."""
        self._in_flight -= 1
        self._wake()

    def record(self, number: int, outcome: Answer | FailedAttempt, latency_s: float = 0.0) -> None:
        """Adapt to the outcome of an attempt, while it still counts as in flight."""
        is_refused = isinstance(outcome, FailedAttempt) and outcome.failure.type in _REFUSALS
        self._last.append((number, is_refused))
        burst = sum(refused and sent > self._reduced_at for sent, refused in self._last)
        if is_refused and burst >= min(_BURST, self.limit):
            self._limit = max(1.0, self._limit / 2)
            self._reduced_at, self._doubles = self._sent, False
            self._bursts += 1
        elif isinstance(outcome, Answer):
            if number > self._reduced_at:
                self._bursts = 0
            self._count(latency_s)
            if self._limit < self._start or (self._waiting and not self._slow):
                self._limit = min(float(self._most), self._limit + 1.0 / self._limit)

    def is_refusing(self) -> bool:
        """Return whether most attempts are refused, also with few in flight, so that none is worth sending."""
        most, last = _PAUSE
        return (self._bursts >= _BURSTS or self.limit == 1) and sum(
            refused for _, refused in [*self._last][-last:]
        ) >= most

    def _count(self, latency_s: float) -> None:
        """Count an answer, and compare at the end of each round with those before."""
        self._answers += 1
        self._seconds += latency_s
        if self._answers < max(_ROUND, 2 * self.limit):
            return
        now = self._clock()
        rate, latency = self._answers / max(now - self._round_began, 1e-9), self._seconds / self._answers
        self._first_latency = self._first_latency or latency
        self._slow = latency > _SLOWER * self._first_latency
        self._doubles = self._doubles and rate >= _MORE * self._rate
        if self._doubles and self._waiting:
            self._limit = min(float(self._most), 2 * self._limit)
        self._rate, self._round_began, self._answers, self._seconds = rate, now, 0, 0.0

    def _wake(self) -> None:
        free = self.limit - self._in_flight
        while free > 0 and self._waiting:
            _, _, slot = heapq.heappop(self._waiting)
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
        """Pause all attempts for this time.

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
