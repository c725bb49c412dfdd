"""How many calls are out at an endpoint at once, and how much has been spent there."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from models.engines.openai.failures import Miss
from models.messages import Answer, Failure
from models.spec import Price

_CHARS_A_TOKEN = 3.5
_TOKENS_A_PICTURE = 1_100
"""What a large picture costs at the endpoints known; only for what is in flight."""


class Window:
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

    def told(self, outcome: Answer | Miss) -> None:
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


class Purse:
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

    def settle(self, lent: float, outcome: Answer | Miss | None) -> None:
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
