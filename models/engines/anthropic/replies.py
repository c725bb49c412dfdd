"""A message as the Anthropic API returns it, and the answer in it. A refusal is an answer that a filter stopped."""

from collections.abc import Mapping
from typing import Final

from models.engines.endpoints.failures import error_fields
from models.engines.endpoints.replies import (
    NoCompletionError,
    ReportedFailure,
    decoded,
    ended_failure,
    name_in,
    texts,
    token_counts,
    with_repairs,
)
from models.messages import Answer

_REASONS: Final = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}
_STATUSES: Final = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""The status that each type of an error has elsewhere, by which it is classified."""
_COUNTS: Final = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens")


def read_message(content: bytes) -> Answer | ReportedFailure:
    """Return the answer in a reply, or the failure that it tells.

    Raises:
        NoCompletionError: it is no message.
    """
    reply, repairs = decoded(content)
    if reply.get("error") or reply.get("type") == "error":
        fields = error_fields(reply)
        status = _STATUSES.get(str(fields.get("type")))
        return ReportedFailure({**fields, "code": status} if status else dict(fields) or "an error without a message")
    reason = reply.get("stop_reason")
    if failure := ended_failure(reason, reply.get("message")):
        return failure
    blocks = reply.get("content")
    if not isinstance(blocks, list):
        raise NoCompletionError("it holds no content")
    kinds = [(block.get("type"), block) for block in blocks if isinstance(block, Mapping)]
    parts = [part for kind, block in kinds if kind == "text" for part in texts(block)]
    thoughts = "\n".join(str(block.get("thinking") or "") for kind, block in kinds if kind == "thinking").strip()
    (fresh, cached, written, output), is_counted = token_counts(reply.get("usage"), _COUNTS)
    return Answer(
        text="".join(part for part in parts if part),
        finish_reason=_REASONS.get(str(reason), str(reason)) if reason else "stop",
        input_tokens=fresh + cached + written,
        output_tokens=output,
        cached_tokens=cached,
        cache_write_tokens=written,
        reasoning=thoughts or None,
        served_model=name_in(reply, "model"),
        repairs=with_repairs(repairs, reason, content=None in parts or len(kinds) < len(blocks), usage=not is_counted),
    )
