"""What may go wrong at an endpoint: what is tried again and when, what is a failed row, what ends the run."""

from __future__ import annotations

import email.utils
import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC
from enum import Enum

from models.messages import Failure

LONGEST_WAIT_S = 600.0
"""An endpoint that asks for a longer pause than this has said no for now: the call fails instead."""

_MADE_UP_S = 1.0
"""Lateness that the pace catches up with; a sixtieth of a minute's requests at the most come closer together."""
_FIRST_WAIT_S, _LAST_WAIT_S = 0.5, 30.0
_MAY_PASS = frozenset({408, 409, 429})
_CONTEXT = re.compile(
    r"maximum context length|context_length_exceeded|longer than the maximum model length", re.IGNORECASE
)


class FailureScope(Enum):
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
class FailedAttempt:
    """One try that brought no answer."""

    failure: Failure
    blame: FailureScope
    may_pass: bool
    wait_s: float | None = None
    """Seconds that the endpoint asks for before the next try."""


def classify_status(
    status: int,
    headers: Mapping[str, str],
    *,
    body: object,
    text: str,
    now: float,
    hide: Callable[[str], str] = str,
) -> FailedAttempt:
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
        blame = FailureScope.ENTRY
    elif may_pass or out_of_quota or status == 401:
        blame = FailureScope.ENDPOINT
    else:
        blame = FailureScope.QUESTION
    return FailedAttempt(
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
