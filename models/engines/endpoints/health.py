"""Decide when an endpoint as a whole counts as unreachable."""

import asyncio
import re
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

from models.engines.endpoints.failures import NO_PICTURES, FailedAttempt, FailureScope
from models.errors import EngineUnreachableError
from models.messages import Answer, Call

STREAK_LIMIT = 64  # consecutive calls without an answer, caused by the endpoint, after which the run ends
ALONE_S = 1.0  # for which the first call has the endpoint to itself
REFUSAL_LIMIT = 16  # equal refusals before the first answer, after which the run ends


class Health:
    """Distinguishes a failed row from a failed endpoint, so that a run ends early instead of failing every row.

    The endpoint is unreachable when a call's last attempt found no server and no call was answered since it started, or
    when `STREAK_LIMIT` consecutive calls had no answer because of the endpoint: 401, no quota left, and after all
    attempts 408, 409, 429, 5xx, timeouts, broken connections and unreadable replies; 403 and 404 count until there is a
    first answer. 400, 413, 422 and the like are about the prompt and do not count, unless `REFUSAL_LIMIT` calls before
    the first answer are refused in the same words: then the account or the entry is at fault.
    """

    def __init__(self, describe: Callable[[str], str]) -> None:
        self._describe = describe
        self.answers = 0
        self._streak = 0
        self._refusals: Counter[str] = Counter()

    def record_answer(self) -> None:
        """Count an answer."""
        self.answers += 1
        self._streak = 0

    def record_failure(self, failed: FailedAttempt, answers_before: int, attempts: int) -> None:
        """Count a failed call, or raise by the rule of the class; `answers_before` is `answers` at the call's start."""
        reason = f"{failed.failure.type}: {failed.failure.message}"
        if failed.scope is FailureScope.NO_CONNECTION and self.answers == answers_before:
            raise EngineUnreachableError(self._describe(f"no connection in {attempts} attempts ({reason})"))
        if (
            not self.answers
            and (failed.is_setup_failure or not failed.is_transient)
            and failed.failure.type != "context_length"
        ):
            words = re.sub(r"\W*\d[\w-]*", " #", reason)  # numbers and ids differ between equal refusals
            self._refusals[words] += 1
            if self._refusals[words] >= REFUSAL_LIMIT:
                raise EngineUnreachableError(self._describe(f"{REFUSAL_LIMIT} calls were refused alike: {reason}"))
        if failed.scope is FailureScope.PROMPT or (failed.scope is FailureScope.ENTRY and self.answers):
            return
        self._streak += 1
        if self._streak >= STREAK_LIMIT:
            raise EngineUnreachableError(
                self._describe(f"no answer to {self._streak} consecutive calls, the last time {reason}")
            )


class FirstCall:
    """Holds other calls back during the first attempt, for a second, and keeps its failure if it is about the setup."""

    def __init__(self) -> None:
        self._ended = asyncio.Event()
        self._has_begun = False
        self._failed: FailedAttempt | None = None
        self._sees = False

    async def begin(self) -> None:
        """Begin a call: the first one at once, the others when its first attempt has ended, or takes long.

        What is wrong with a setup is said at once; a server that takes longer computes an answer.
        """
        if self._has_begun:
            with suppress(TimeoutError):
                async with asyncio.timeout(ALONE_S):  # Python 3.11's `wait_for` may swallow that a call is cancelled
                    await self._ended.wait()
        self._has_begun = True

    def end(self, outcome: Answer | FailedAttempt | None = None, *, has_media: bool = False) -> bool:
        """End the first attempt, unless it has ended; return whether its failure stays, so that no retry helps.

        A refusal of pictures stays at any time until a call with one is answered.
        """
        is_first = not self._ended.is_set()
        self._ended.set()
        if not isinstance(outcome, FailedAttempt):
            self._sees |= outcome is not None and has_media
            return False
        if stays := outcome.is_setup_failure and (is_first or (outcome.failure.type == NO_PICTURES and not self._sees)):
            self._failed = outcome
        return stays

    def failure_of(self, call: Call) -> FailedAttempt | None:
        """Return the failure with which a call ends unsent; None for calls that may pass."""
        failed = self._failed
        if failed and failed.failure.type == NO_PICTURES and (self._sees or not call.media):
            return None
        return failed
