"""A limit on the dollars that an engine spends at an endpoint."""

import asyncio
from collections.abc import Mapping, Sequence

from models.engines.endpoints.failures import FailedAttempt
from models.entry_fields import Price
from models.messages import Answer, Call, Failure, Media, Text
from models.spec import ModelSpec

_CHARS_PER_TOKEN = 3.5
TOKENS_PER_PICTURE = 1_100  # of a large picture at known endpoints, unless the entry has its own number


class Budget:
    """Dollars spent, by reported tokens, and reserved for calls in flight.

    A call that might exceed the limit waits for those in flight, which mostly cost less than was reserved. So the limit
    is exceeded by the cost of one call at most.
    """

    def __init__(self, price: Price | None, limit: float | None) -> None:
        self._price, self._limit = price, limit
        self._reserved, self._in_flight = 0.0, 0
        self._released = asyncio.Event()
        self._ratio = 0.0  # maximum share of its reservation that an answer cost
        self.spent = 0.0  # dollars

    async def reserve(self, tokens: float, max_new_tokens: int) -> float | None:
        """Reserve dollars for a call by its prompt tokens, for `settle` to release; None when the limit is reached."""
        if self._price is None or self._limit is None:
            return 0.0
        estimate = self._price.dollars(tokens, max_new_tokens)
        while True:
            expected = estimate * (self._ratio or 1.0)
            if self.spent >= self._limit:
                return None
            if self._in_flight == 0 or self.spent + self._reserved * (self._ratio or 1.0) + expected <= self._limit:
                self._in_flight += 1
                self._reserved += estimate
                return estimate
            self._released.clear()
            await self._released.wait()

    def settle(self, reserved: float, outcome: Answer | FailedAttempt | None) -> None:
        """Release a reservation and count an answer; known endpoints do not bill failures."""
        if self._price and isinstance(outcome, Answer):
            cost = self._price.of(outcome) if outcome.reserved_dollars is None else outcome.reserved_dollars
            self.spent += cost
            self._ratio = max(self._ratio, min(1.0, cost / reserved)) if reserved else self._ratio
        if self._limit is not None and self._price is not None:
            self._in_flight -= 1
            self._reserved -= reserved
            self._released.set()


def cost_limit_failure(spent: float, limit: float) -> Failure:
    """Return the failure of a call that is not sent, because the cost limit is reached."""
    return Failure(type="cost_limit", message=f"not sent: ${spent:.4f} of the limit of ${limit:.4f} are spent")


def estimate_tokens(spec: ModelSpec, call: Call, pictures: Mapping[Media, Sequence[str]]) -> float:
    """Estimate the prompt tokens of a call, for what is reserved while it is in flight."""
    texts = (part.text for turn in call.turns for part in turn.parts if isinstance(part, Text))
    characters = len(spec.system or "") + sum(map(len, texts))
    shown = sum(len(pictures[medium]) for medium in call.media)
    return characters / _CHARS_PER_TOKEN + (spec.tokens_per_picture or TOKENS_PER_PICTURE) * shown
