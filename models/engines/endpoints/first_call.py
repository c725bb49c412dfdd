"""The first call of an engine, which is sent alone, and the first with a picture: they may show that none can pass."""

import asyncio

from models.engines.endpoints.failures import NO_PICTURES, FailedAttempt
from models.messages import Answer, Call


class FirstCall:
    """Holds other calls back during the first attempt, and keeps its failure if that is about the setup."""

    def __init__(self) -> None:
        self._ended = asyncio.Event()
        self._failed: FailedAttempt | None = None
        self._sees = False

    async def wait(self) -> None:
        """Wait until the first attempt has ended."""
        await self._ended.wait()

    def end(self, outcome: Answer | FailedAttempt | None = None, *, has_media: bool = False) -> bool:
        """End the first attempt, unless it has ended; return whether its failure stays, so that no retry helps.

        A refusal of pictures stays at any time until a call with one is answered.
        """
        is_first = not self._ended.is_set()
        self._ended.set()
        if not isinstance(outcome, FailedAttempt):
            self._sees |= outcome is not None and has_media
            return False
        if stays := outcome.is_of_setup and (is_first or (outcome.failure.type == NO_PICTURES and not self._sees)):
            self._failed = outcome
        return stays

    def failure_of(self, call: Call) -> FailedAttempt | None:
        """Return the failure with which a call ends unsent; None for calls that may pass."""
        failed = self._failed
        if failed and failed.failure.type == NO_PICTURES and (self._sees or not call.media):
            return None
        return failed
