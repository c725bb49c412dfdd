"""How many calls are out at an endpoint at once, and how much has been spent there."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from models.engines.openai_faults import Miss
from models.messages import Answer, Failure
from models.spec import Price

__all__ = ["Purse", "Window"]

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
    """Money spent by the tokens that the endpoint reports, and what calls in flight may still cost."""

    def __init__(self, price: Price | None, limit: float | None) -> None:
        self._price, self._limit = price, limit
        self._held = 0.0
        self.spent = 0.0
        """Dollars."""

    @property
    def empty(self) -> bool:
        """Whether one more call might break the limit."""
        return self._limit is not None and self.spent + self._held >= self._limit

    @contextlib.contextmanager
    def held(self, shown: Sequence[Mapping[str, Any]], max_new_tokens: int) -> Iterator[None]:
        """Set money aside while a call is out: its prompt by its length, its answer at the most."""
        aside = self._price.dollars(_tokens(shown), max_new_tokens) if self._price and self._limit else 0.0
        self._held += aside
        try:
            yield
        finally:
            self._held -= aside

    def paid(self, outcome: Answer | Miss) -> None:
        """Count an answer; what failed is not billed by the endpoints known."""
        if self._price and isinstance(outcome, Answer):
            self.spent += self._price.dollars(outcome.input_tokens, outcome.output_tokens)

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
