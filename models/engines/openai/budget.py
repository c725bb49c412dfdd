"""TODO doc."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from models.engines.openai.failures import (
    FailedAttempt,
)
from models.messages import Answer, Failure
from models.spec import Price

_CHARS_A_TOKEN = 3.5


_TOKENS_A_PICTURE = 1_100
"""What a large picture costs at the endpoints known; only for what is in flight."""


class Budget:
    """Money spent by the tokens that the endpoint reports, and what calls in flight may still cost.

    A call that might break the limit waits for those in flight, which mostly cost less than was set aside for them. So
    the limit can be passed by the cost of one call at the most.
    """

    def __init__(self, price: Price | None, limit: float | None) -> None:
        self._price, self._limit = price, limit
        self._held, self._out = 0.0, 0
        self._returned = asyncio.Event()
        self._ratio = 0.0
        """The most that an answer cost of what was set aside for it."""
        self.spent = 0.0
        """Dollars."""

    async def lend(self, shown: Sequence[Mapping[str, Any]], max_new_tokens: int) -> float | None:
        """Dollars set aside for a call: its prompt by its length, its answer at the most; None when there is no money.

        What is lent must be given back by `settle`.
        """
        if self._price is None or self._limit is None:
            return 0.0
        reckoned = self._price.dollars(_tokens(shown), max_new_tokens)
        while True:
            aside = reckoned * (self._ratio or 1.0)
            if self.spent >= self._limit:
                return None
            if self._out == 0 or self.spent + self._held * (self._ratio or 1.0) + aside <= self._limit:
                self._out += 1
                self._held += reckoned
                return reckoned
            self._returned.clear()
            await self._returned.wait()

    def settle(self, lent: float, outcome: Answer | FailedAttempt | None) -> None:
        """Take back what was lent and count an answer; what failed is not billed by the endpoints known."""
        if self._price and isinstance(outcome, Answer):
            cost = self._price.dollars(outcome.input_tokens, outcome.output_tokens)
            self.spent += cost
            self._ratio = max(self._ratio, min(1.0, cost / lent)) if lent else self._ratio
        if self._limit is not None and self._price is not None:
            self._out -= 1
            self._held -= lent
            self._returned.set()

    def failure(self) -> Failure:
        """Why a call is not sent any more."""
        return Failure(
            type="cost_limit", message=f"not asked: ${self.spent:.4f} of the limit of ${self._limit:.4f} are spent"
        )


def _tokens(shown: Sequence[Mapping[str, Any]]) -> float:
    tokens = 0.0
    for message in shown:
        content = message["content"]
        for part in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            tokens += len(part["text"]) / _CHARS_A_TOKEN if part["type"] == "text" else _TOKENS_A_PICTURE
    return tokens
