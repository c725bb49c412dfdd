"""Failures at an endpoint: which are retried and when, which fail a row, which end the run."""

from __future__ import annotations

import email.utils
import hashlib
import html
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC
from enum import Enum

from models.messages import Failure

LONGEST_WAIT_S = 600.0  # longest pause that an endpoint may ask for; a call fails where it asks for more
_FIRST_WAIT_S, _MAX_WAIT_S = 0.5, 30.0
_TRANSIENT_STATUSES = frozenset({408, 409, 429})
_CONTEXT = re.compile(
    r"maximum context length|context_length_exceeded|longer than the maximum model length|request fewer output tokens",
    re.IGNORECASE,
)
_WEB_PAGE = re.compile(r"\s*(<\?xml[^>]*>\s*)?<(!doctype\s+html|html|head|body)\b", re.IGNORECASE)
_TITLE = re.compile(r"<title[^>]*>(.*?)</title>", re.IGNORECASE | re.DOTALL)


class FailureScope(Enum):
    """The scope of a failure: which calls its cause affects."""

    PROMPT = "prompt"  # this prompt: another may succeed
    ENTRY = "entry"  # 403 and 404: a wrong key, model or address until there is a first answer, then this prompt
    ENDPOINT = "endpoint"  # the endpoint, the key or the quota: other prompts fail too
    NO_CONNECTION = "no connection"  # no server is reachable


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedAttempt:
    """One attempt without an answer."""

    failure: Failure
    scope: FailureScope
    is_transient: bool
    wait_s: float | None = None  # seconds that the endpoint asks for before the next attempt


def transient_failure(kind: str, message: str, scope: FailureScope = FailureScope.ENDPOINT) -> FailedAttempt:
    """Return an attempt that failed without a status, for example by a timeout."""
    return FailedAttempt(failure=Failure(type=kind, message=message), scope=scope, is_transient=True)


def classify_status(
    status: int,
    headers: Mapping[str, str],
    *,
    body: object,
    text: str,
    now: float,
    redact: Callable[[str], str] = str,
) -> FailedAttempt:
    """Classify an HTTP error status.

    Args:
        status: 400 or above.
        headers: names in lower case.
        body: the error object of the reply, where it is JSON.
        text: the raw reply, used where the body has no message.
        now: Unix time, to which a date in Retry-After is compared.
        redact: removes secrets from a message before it is cut: half a key is a secret too.
    """
    fields = body if isinstance(body, Mapping) else {}
    message = reply_text(redact(str(fields.get("message") or fields.get("detail") or text or f"HTTP {status}")))
    code = str(fields.get("code") or "")
    kind = f"http_{status}"
    if status == 400 and (code == "context_length_exceeded" or _CONTEXT.search(message)):
        kind = "context_length"
    out_of_quota = status == 429 and "insufficient_quota" in (code, str(fields.get("type")))
    is_transient = (status in _TRANSIENT_STATUSES or status >= 500) and not out_of_quota
    if status in (403, 404):
        scope = FailureScope.ENTRY
    elif is_transient or out_of_quota or status == 401:
        scope = FailureScope.ENDPOINT
    else:
        scope = FailureScope.PROMPT
    return FailedAttempt(
        failure=Failure(type=kind, message=message),
        scope=scope,
        is_transient=is_transient,
        wait_s=retry_after_s(headers, now) if is_transient else None,
    )


def is_content_filter(body: object) -> bool:
    """Return whether the content filter stopped a prompt: that is an answer, not a failure."""
    fields = body if isinstance(body, Mapping) else {}
    inner = fields.get("innererror")
    codes = {fields.get("code"), fields.get("type"), inner.get("code") if isinstance(inner, Mapping) else None}
    return bool(codes & {"content_filter", "content_policy_violation", "ResponsibleAIPolicyViolation"})


def retry_after_s(headers: Mapping[str, str], now: float) -> float | None:
    """Return the seconds in `retry-after-ms` or `retry-after` (seconds or an HTTP date); None if neither is set."""
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
    # A date without a zone is UTC by RFC 9110; Python would read it as local time.
    return max(0.0, date.replace(tzinfo=date.tzinfo or UTC).timestamp() - now)


def backoff_s(call_id: str, attempt: int) -> float:
    """Return the seconds before the next attempt: 0.5, 1, 2 ... 30, times 0.75 to 1.25, drawn by the call's id."""
    digest = hashlib.sha256(f"{call_id}|{attempt}".encode()).digest()
    share = int.from_bytes(digest[:8], "big") / 2**64
    # The exponent is capped too: 2**1100 overflows a float.
    return float(min(_MAX_WAIT_S, _FIRST_WAIT_S * 2 ** min(attempt, 10)) * (0.75 + 0.5 * share))


def reply_text(text: str) -> str:
    """Return an unreadable reply for a message; a web page as a sentence, for it is not the API that answered."""
    if not _WEB_PAGE.match(text):
        return clip(text)
    title = _TITLE.search(text)
    title_text = f" titled {clip(html.unescape(title[1]), 100)!r}" if title else ""
    return (
        f"the server answered with a web page{title_text}; base_url must be the API's address, mostly one ending in /v1"
    )


def clip(text: str, limit: int = 500) -> str:
    """Return the text on one line, cut to a limit."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 4]} ..."
