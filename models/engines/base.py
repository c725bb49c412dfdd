"""The engine protocol, and what turns requests of several steps into an engine's calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from models.messages import (
    Call,
    CallReply,
    Frames,
    Media,
)


class EngineContractError(RuntimeError):
    """An engine answered a call twice, never, or one that nobody asked."""


class EngineUnreachableError(RuntimeError):
    """The model as a whole cannot be had: weights missing, endpoint down, device gone. Not a bad row."""


class EngineDiedError(RuntimeError):
    """Processes that the engine is made of are gone, and no call is to blame yet: the engine must be built anew."""


class EngineStalledError(EngineDiedError):
    """The engine was silent for longer than its model may be: it must be built anew, and what it held is suspect."""


class Engine(Protocol):
    """Answers calls. Built where it runs, used by one thread, closed once.

    `generate` takes all calls of one media group at once, may answer in any order, and answers each exactly once.
    A call that fails yields a `Failure`; an engine that is broken raises `EngineUnreachableError`, and then none of the
    unanswered calls counts as done. `EngineDiedError` is the same for an engine that can be had again at once.
    """

    def generate(self, calls: Sequence[Call], media: Mapping[Media, Frames]) -> Iterator[CallReply]:
        """Yield one reply for each call, in any order."""
        ...

    def close(self) -> None:
        """Give back processes, connections and memory."""
        ...
