"""TODO doc."""

from __future__ import annotations

from collections.abc import Callable

from models.engines.openai.failures import (
    FailedAttempt,
    FailureScope,
)
from models.errors import EngineUnreachableError

STREAK_LIMIT = 64
"""Calls in a row without an answer, for reasons that lie with the endpoint, after which the run ends."""


class Health:
    """Tells a bad row from a bad endpoint, so that a run ends at once and not with thousands of failed rows.

    The endpoint counts as unreachable

    - when a call's last try found nobody to connect to and no call was answered since that call began, or
    - when `STREAK_LIMIT` calls in a row brought no answer for reasons that lie with the endpoint: 401, no quota left,
      and after all tries 408, 409, 429, 5xx, timeouts, broken connections and replies that cannot be read; 403 and
      404 count as long as nothing was ever answered.

    Up to then each is a failed row of its own. 400, 413, 422 and the like never count: they are about the question.
    """

    def __init__(self, describe: Callable[[str], str]) -> None:
        self._describe = describe
        self.answers = 0
        self._streak = 0

    def answered(self) -> None:
        """Note an answer."""
        self.answers += 1
        self._streak = 0

    def missed(self, miss: FailedAttempt, answers_before: int, tries: int) -> None:
        """Note a call that all its tries left without an answer.

        Args:
            miss: its last try.
            answers_before: `answers` when the call began.
            tries: how often it was tried.

        Raises:
            EngineUnreachableError: by the rule above.
        """
        told = f"{miss.failure.type}: {miss.failure.message}"
        if miss.blame is FailureScope.NO_CONNECTION and self.answers == answers_before:
            raise EngineUnreachableError(self._describe(f"no connection in {tries} tries ({told})"))
        if miss.blame is FailureScope.QUESTION or (miss.blame is FailureScope.ENTRY and self.answers):
            return
        self._streak += 1
        if self._streak >= STREAK_LIMIT:
            raise EngineUnreachableError(
                self._describe(f"no answer to {self._streak} calls in a row, the last time {told}")
            )
