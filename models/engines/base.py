"""The protocol that every engine implements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from models.messages import (
    Call,
    CallReply,
    Frames,
    Media,
)


class Engine(Protocol):
    """Answers calls. Built where it runs, used by one thread, closed once.

    `generate` takes all calls of one media group at once, may answer in any order, and answers each exactly once.
    A call that fails yields a `Failure`; an engine that is broken raises `EngineUnreachableError`, and then none of the
    unanswered calls counts as done. `EngineDiedError` means the same for an engine that can be rebuilt at once.
    """

    warnings: tuple[str, ...]  # facts about how the model runs that its user should know
    has_own_timeout: bool  # whether it notices a stall itself; any other is wrapped in a `WatchdogEngine`

    def generate(self, calls: Sequence[Call], media: Mapping[Media, Frames]) -> Iterator[CallReply]:
        """Yield one reply for each call, in any order."""
        ...

    def close(self) -> None:
        """Release processes, connections and memory."""
        ...
