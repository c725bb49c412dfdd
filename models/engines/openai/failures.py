"""What may go wrong at an endpoint: what is tried again and when, what is a failed row, what ends the run."""

from __future__ import annotations

import asyncio
import email.utils
import hashlib
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC
from enum import Enum

from models.engines.base import EngineUnreachableError
from models.messages import Failure

LONGEST_WAIT_S = 600.0
"""An endpoint that asks for a longer pause than this has said no for now: the call fails instead."""
STREAK_LIMIT = 64
"""Calls in a row without an answer, for reasons that lie with the endpoint, after which the run ends."""

_MADE_UP_S = 1.0
"""Lateness that the pace catches up with; a sixtieth of a minute's requests at the most come closer together."""
_FIRST_WAIT_S, _LAST_WAIT_S = 0.5, 30.0
_MAY_PASS = frozenset({408, 409, 429})
_CONTEXT = re.compile(
    r"maximum context length|context_length_exceeded|longer than the maximum model length", re.IGNORECASE
)


class Blame(Enum):
    """Where the reason lies that a call was not answered."""

    QUESTION = "question"
    """This prompt: another may do better."""
    ENTRY = "entry"
    """403 and 404: a wrong key, model or address as long as nothing was ever answered, else this prompt."""
    ENDPOINT = "endpoint"
    """The endpoint, the key or the quota: other prompts will fare no better."""
    NO_CONNECTION = "no connection"
    """Nobody is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Miss:
    """One try that brought no answer."""

    failure: Failure
    blame: Blame
    may_pass: bool
    wait_s: float | None = None
    """Seconds that the endpoint asks for before the next try."""


def miss_of_status(
    status: int,
    headers: Mapping[str, str],
    *,
    body: object,
    text: str,
    now: float,
    hide: Callable[[str], str] = str,
) -> Miss:
    """What an HTTP status other than success means.

    Args:
        status: HTTP status code, 400 or above.
        headers: the response's, names in lower case.
        body: the error object of the reply, where it is JSON.
        text: the reply as it came, for when the body says nothing.
        now: Unix time, to which a date in Retry-After is compared.
        hide: takes secrets out of a message, before it is cut: half a key is a secret too.
    """
    fields = body if isinstance(body, Mapping) else {}
    message = clipped(hide(str(fields.get("message") or fields.get("detail") or text or f"HTTP {status}")))
    code = str(fields.get("code") or "")
    kind = f"http_{status}"
    if status == 400 and (code == "context_length_exceeded" or _CONTEXT.search(message)):
        kind = "context_length"
    out_of_quota = status == 429 and "insufficient_quota" in (code, str(fields.get("type")))
    may_pass = (status in _MAY_PASS or status >= 500) and not out_of_quota
    if status in (403, 404):
        blame = Blame.ENTRY
    elif may_pass or out_of_quota or status == 401:
        blame = Blame.ENDPOINT
    else:
        blame = Blame.QUESTION
    return Miss(
        failure=Failure(type=kind, message=message),
        blame=blame,
        may_pass=may_pass,
        wait_s=retry_after_s(headers, now) if may_pass else None,
    )


def is_content_filter(body: object) -> bool:
    """Whether an error says that the content filter stopped a prompt: that is an answer to it, not a failure."""
    fields = body if isinstance(body, Mapping) else {}
    inner = fields.get("innererror")
    codes = {fields.get("code"), fields.get("type"), inner.get("code") if isinstance(inner, Mapping) else None}
    return bool(codes & {"content_filter", "content_policy_violation", "ResponsibleAIPolicyViolation"})


def retry_after_s(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds asked for by `retry-after-ms` or `retry-after`, which holds seconds or an HTTP date; None if neither."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers[name]) * unit
        except (KeyError, ValueError):
            continue
        if 0.0 <= seconds < float("inf"):
            return seconds
    try:
        date = email.utils.parsedate_to_datetime(headers["retry-after"])
    except (KeyError, ValueError):
        return None
    # A date without a zone is UTC by RFC 9110; Python would take it for local time.
    return max(0.0, date.replace(tzinfo=date.tzinfo or UTC).timestamp() - now)


def backoff_s(call_id: str, attempt: int) -> float:
    """Seconds before the next try: 0.5, 1, 2 ... 30, each times 0.75 to 1.25 by the call's id.

    The spread keeps calls that failed together from coming back together, and depends on ids alone.
    """
    digest = hashlib.sha256(f"{call_id}|{attempt}".encode()).digest()
    share = int.from_bytes(digest[:8], "big") / 2**64
    # The exponent is capped too: 2**1100 is more than a float holds.
    return float(min(_LAST_WAIT_S, _FIRST_WAIT_S * 2 ** min(attempt, 10)) * (0.75 + 0.5 * share))


def clipped(text: str, limit: int = 500) -> str:
    """Text on one line, cut to what a row can carry."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 4]} ..."


class Pacer:
    """Gives each try its turn: evenly spaced, and none while the endpoint asks for a pause."""

    def __init__(
        self,
        per_minute: float | None,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._interval = 60.0 / per_minute if per_minute else 0.0
        self._clock = clock
        self._sleep = sleep
        self._next = self._held_until = float("-inf")
        self._begun = False

    async def turn(self) -> None:
        """Return when the next try may be sent."""
        while True:
            # A turn that came late on a busy machine is made up for: limits count the minute, not the moment.
            slot = max(self._next, self._clock() - (_MADE_UP_S if self._begun else 0.0))
            self._begun = True
            self._next = slot + self._interval
            while (wait := slot - self._clock()) > 0:
                await self._sleep(wait)
            # A pause may have been asked for meanwhile; then this try queues again behind it.
            if self._clock() >= self._held_until:
                return

    def hold(self, seconds: float) -> None:
        """Let nothing pass for so long: a limit of requests is the account's, not one call's."""
        self._held_until = max(self._held_until, self._clock() + seconds)
        self._next = max(self._next, self._held_until)


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

    def missed(self, miss: Miss, answers_before: int, tries: int) -> None:
        """Note a call that all its tries left without an answer.

        Args:
            miss: its last try.
            answers_before: `answers` when the call began.
            tries: how often it was tried.

        Raises:
            EngineUnreachableError: by the rule above.
        """
        told = f"{miss.failure.type}: {miss.failure.message}"
        if miss.blame is Blame.NO_CONNECTION and self.answers == answers_before:
            raise EngineUnreachableError(self._describe(f"no connection in {tries} tries ({told})"))
        if miss.blame is Blame.QUESTION or (miss.blame is Blame.ENTRY and self.answers):
            return
        self._streak += 1
        if self._streak >= STREAK_LIMIT:
            raise EngineUnreachableError(
                self._describe(f"no answer to {self._streak} calls in a row, the last time {told}")
            )
