"""Failures at an endpoint: which are retried and when, which fail a row, which end the run."""

import email.utils
import hashlib
import html
import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import UTC
from enum import Enum
from typing import Any

from models.engines.context_errors import is_too_long
from models.engines.endpoints.replies import parsed
from models.messages import Failure

LONGEST_WAIT_S = 600.0  # longest pause that an endpoint may ask for; a call fails where it asks for more
NO_PICTURES = "no_pictures"  # a type of failure: the model or its server takes none
_FIRST_WAIT_S, _MAX_WAIT_S, _YEAR_S = 0.5, 30.0, 365 * 86_400.0
_TRANSIENT_STATUSES = frozenset({408, 409, 429})
_ACCOUNT = re.compile(
    r"credit balance|insufficient[ _](?:balance|quota|funds|credits?)|billing|payment required|out of credits?"
    r"|(?:invalid|incorrect|wrong|missing|expired)[ _](?:x-)?(?:api[ _-]?key|authentication|credentials?)"
    r"|arrearage|api key not valid|account (?:is )?(?:deactivated|disabled|suspended)",
    re.IGNORECASE,
)
_REFUSED = re.compile(
    r"unsupported|not supported|does not support|unrecognized|not permitted|not allowed|unknown|unexpected|invalid"
    r"|deprecated|cannot be (?:set|specified)|incompatible",
    re.IGNORECASE,
)
_WEB_PAGE = re.compile(r"\s*(<\?xml[^>]*>\s*)?<(!doctype\s+html|html|head|body)\b", re.IGNORECASE)
_STREAM = re.compile(r"\s*(?:data|event|id|retry):", re.IGNORECASE)
_NO_PICTURES = re.compile(
    r"(?:image|vision|multi-?modal)[\w ]*(?:is|are) not supported"
    r"|(?:does not|doesn't) support (?:image|vision|multi-?modal)|not a (?:multi-?modal|vision) model|mmproj",
    re.IGNORECASE,
)
_ONE_PICTURE = re.compile(
    r"\b(?:larger|too large|bigger|sizes?|formats?|mime|types?|resolution|dimensions?|pixels?|ratio|many|more than"
    r"|multiple|webp|gif|animated)\b|image/",
    re.IGNORECASE,
)
"""Words of refusals of one picture, or of several at once, where others may pass."""
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
    is_setup_failure: bool = False
    """Until there is a first answer no retry helps, and no other call: the key, address, model or server is wrong."""


def transient_failure(kind: str, message: str, scope: FailureScope = FailureScope.ENDPOINT) -> FailedAttempt:
    """Return an attempt that failed without a status, for example by a timeout."""
    return FailedAttempt(failure=Failure(type=kind, message=message), scope=scope, is_transient=True)


def wrong_server(text: str) -> FailedAttempt | None:
    """Return the failure of a reply that is a stream or a web page, as of another server's; None for other replies."""
    if _STREAM.match(text):
        message = "the server answered with a stream of events, which was not asked for"
    elif _WEB_PAGE.match(text):
        message = reply_text(text)
    else:
        return None
    failure = Failure(type="wrong_server", message=message)
    return FailedAttempt(failure=failure, scope=FailureScope.ENDPOINT, is_transient=True, is_setup_failure=True)


def classify_status(
    status: int, headers: Mapping[str, str], *, body: object, text: str, now: float, redact: Callable[[str], str] = str
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
    fields = error_fields(body)
    message = reply_text(redact(str(fields.get("message") or fields.get("detail") or text or f"HTTP {status}")))
    code = str(fields.get("code") or "")
    if status in (400, 413, 422, 500) and is_too_long(f"{code} {message} {text[:2000]}"):
        failure = Failure(type="context_length", message=message)
        return FailedAttempt(failure=failure, scope=FailureScope.PROMPT, is_transient=False)
    if _NO_PICTURES.search(message) and not _ONE_PICTURE.search(message):
        failure = Failure(type=NO_PICTURES, message=message)
        return FailedAttempt(failure=failure, scope=FailureScope.PROMPT, is_transient=False, is_setup_failure=True)
    out_of_quota = status == 429 and "insufficient_quota" in (code, str(fields.get("type")))
    is_transient = (status in _TRANSIENT_STATUSES or status >= 500) and not out_of_quota
    if status in (403, 404):
        scope = FailureScope.ENTRY
    elif is_transient or out_of_quota or status in (401, 402) or _ACCOUNT.search(f"{code} {message}"):
        scope = FailureScope.ENDPOINT
    else:
        scope = FailureScope.PROMPT
    wait_s = (retry_after_s(headers, now) or _retry_delay_s(fields)) if is_transient else None
    if wait_s and wait_s > LONGEST_WAIT_S:
        pause = f"{-(-wait_s // 60):,.0f} min" if wait_s < _YEAR_S else "more than a year"
        message += f"; it asks for a pause of {pause}, and a run waits {LONGEST_WAIT_S / 60:.0f} min at most"
    failure = Failure(type=f"http_{status}", message=message)
    return FailedAttempt(
        failure=failure, scope=scope, is_transient=is_transient, wait_s=wait_s, is_setup_failure=status in (401, 404)
    )


def reported_failure(error: object, reason: str, redact: Callable[[str], str]) -> FailedAttempt:
    """Classify a failure that a reply with status 200 tells, by the status in its code where it has one."""
    fields = error_fields(error)
    code = str(fields.get("code") or fields.get("status") or "")
    message = fields.get("message") or (error if isinstance(error, str) else json.dumps(error, default=str))
    text = clip(redact(str(message)))
    is_status = code.isdecimal() and 400 <= int(code) < 600
    if is_status or is_too_long(f"{code} {text}"):
        status = int(code) if is_status else 400
        return classify_status(status, {}, body=fields, text=str(message), now=0.0, redact=redact)
    return transient_failure(f"finish_{reason}" if reason else "reported_error", text)


def refused_parameter(failure: Failure, sent: Collection[str]) -> str | None:
    """Return the parameter, of those `sent`, that a refusal names as one that the model does not take."""
    if failure.type not in ("http_400", "http_422") or not _REFUSED.search(failure.message):
        return None
    words = re.findall(r"[a-z_]+", failure.message.lower())
    return next((name for name in sent if name in words), None)


def is_content_filter(body: object) -> bool:
    """Return whether the content filter stopped a prompt: that is an answer, not a failure."""
    fields = error_fields(body)
    codes = {str(fields.get("code")), str(fields.get("type")), str(error_fields(fields.get("innererror")).get("code"))}
    return bool(codes & {"content_filter", "content_policy_violation", "ResponsibleAIPolicyViolation"})


def error_object(text: str) -> object:
    """Return the body of an error where it is JSON, else None."""
    try:
        return parsed(text)
    except ValueError:
        return None


def error_fields(body: object) -> Mapping[str, Any]:
    """Return the fields of an error object; some servers send a list of them, some wrap it once more."""
    while isinstance(body, list) and body:
        body = body[0]
    while isinstance(body, Mapping) and isinstance(body.get("error"), Mapping):
        body = body["error"]
    return body if isinstance(body, Mapping) else {}


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
    except (KeyError, ValueError, OverflowError):
        return None
    # A date without a zone is UTC by RFC 9110; Python would read it as local time.
    return max(0.0, date.replace(tzinfo=date.tzinfo or UTC).timestamp() - now)


def _retry_delay_s(fields: Mapping[str, Any]) -> float | None:
    """Return the seconds that an error of Google's asks for in its details, as `34.07s`; None where there are none."""
    details = fields.get("details")
    for detail in details if isinstance(details, list) else []:
        delay = str(detail.get("retryDelay")) if isinstance(detail, Mapping) else ""
        if re.fullmatch(r"\d{1,9}(\.\d{1,9})?s", delay):
            return float(delay[:-1])
    return None


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
