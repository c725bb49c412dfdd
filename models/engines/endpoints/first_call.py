"""The first call of an engine, which is sent alone: it may show that no call can pass."""

import asyncio

from models.engines.endpoints.failures import NO_PICTURES, FailedAttempt
from models.messages import Answer, Call


class FirstCall:
    """Holds other calls back during the first attempt, and keeps its failure if that is about the setup."""

    def __init__(self) -> None:
        self._ended = asyncio.Event()
        self._failed: FailedAttempt | None = None

    async def wait(self) -> None:
        """Wait until the first attempt has ended."""
        await self._ended.wait()

    def end(self, outcome: Answer | FailedAttempt | None = None) -> bool:
        """End the first attempt, unless it has ended; return whether its failure stays, so that no retry helps."""
        if self._ended.is_set():
            return False
        self._ended.set()
        if isinstance(outcome, FailedAttempt) and outcome.is_of_setup:
            self._failed = outcome
        return self._failed is not None

    def failure_of(self, call: Call) -> FailedAttempt | None:
        """Return the failure with which a call ends unsent; None for calls that may pass."""
        failed = self._failed
        return failed if failed and (call.media or failed.failure.type != NO_PICTURES) else None
