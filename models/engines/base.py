"""The protocol that every engine implements."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from models.messages import Call, CallReply, Frames, Media


class Engine(Protocol):
    """Answers calls. Built where it runs, used by one thread unless it has `wanted_calls`, closed once.

    `generate` takes all calls of one media group at once, may answer in any order, and answers each exactly once.
    A call that fails yields a `Failure`; an engine that is broken raises `EngineUnreachableError`, and then none of the
    unanswered calls counts as done. `EngineDiedError` means the same for an engine that can be rebuilt at once.
    """

    @property
    def warnings(self) -> tuple[str, ...]:
        """Facts about how the model runs that its user should know; more may become known while it answers."""

    @property
    def has_own_timeout(self) -> bool:
        """Whether it notices a stall itself; any other is wrapped in a `WatchdogEngine`."""

    def generate(self, calls: Sequence[Call], media: Mapping[Media, Frames]) -> Iterator[CallReply]:
        """Yield one reply for each call, in any order."""

    def close(self) -> None:
        """Release processes, connections and memory."""


def prepare(engine: Any, calls: Sequence[Call], media: Mapping[Media, Frames]) -> None:
    """Let an engine prepare calls that come next while it answers others in another thread; most engines cannot."""
    while isinstance(engine, EngineWrapper):
        engine = engine.engine
    if hasattr(engine, "prepare"):
        engine.prepare(calls, media)


def wanted_calls(engine: Any) -> int:
    """Return how many open calls keep an engine busy, from several threads if one has too few; 0 for one thread."""
    while isinstance(engine, EngineWrapper):
        engine = engine.engine
    return int(getattr(engine, "wanted_calls", 0))


class EngineWrapper:
    """What wrappers of an engine share: they say what it says, and close it."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return the engine's warnings until now."""
        return self.engine.warnings

    @property
    def has_own_timeout(self) -> bool:
        """Return whether the engine notices a stall itself."""
        return self.engine.has_own_timeout

    def close(self) -> None:
        """Close the engine."""
        self.engine.close()
