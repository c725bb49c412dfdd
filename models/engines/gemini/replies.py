"""Generated content as the Gemini API returns it, and the answer in it. A block of its filters is an answer."""

import math
from collections.abc import Mapping
from typing import Final

from models.engines.endpoints.replies import (
    NoCompletionError,
    ReportedFailure,
    decoded,
    ended_failure,
    first_item,
    name_in,
    texts,
    token_counts,
    with_repairs,
)
from models.messages import Answer

_BLOCKED: Final = frozenset(
    {
        *("SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII"),
        *("IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION", "MODEL_ARMOR", "JAILBREAK"),
    }
)
_FAILED: Final = frozenset({"malformed_response", "malformed_function_call", "missing_thought_signature"})
_REASONS: Final = {"STOP": "stop", "MAX_TOKENS": "length", **dict.fromkeys(_BLOCKED, "content_filter")}
_COUNTS: Final = ("promptTokenCount", "cachedContentTokenCount", "candidatesTokenCount", "thoughtsTokenCount")


def read_content(content: bytes) -> Answer | ReportedFailure:
    """Return the first candidate of a reply, a provider's block as an empty answer, or the failure that it tells.

    Raises:
        NoCompletionError: it is no generated content.
    """
    reply, repairs = decoded(content)
    if reply.get("error"):
        return ReportedFailure(reply["error"])
    (prompt, cached, output, thought), is_counted = token_counts(reply.get("usageMetadata"), _COUNTS)
    candidates = reply.get("candidates")
    if not candidates and reply.get("promptFeedback"):
        return Answer(text="", finish_reason="content_filter", input_tokens=prompt, cached_tokens=min(cached, prompt))
    candidate = first_item(candidates, "candidate")
    reason = candidate.get("finishReason")
    if failure := ended_failure(reason, candidate.get("finishMessage"), _FAILED):
        return failure
    body = candidate.get("content")
    parts = body.get("parts") if isinstance(body, Mapping) else None
    blocks = [part for part in parts if isinstance(part, Mapping)] if isinstance(parts, list) else []
    shown = [part for block in blocks if not block.get("thought") for part in texts(block)]
    thoughts = "\n".join(str(block.get("text") or "") for block in blocks if block.get("thought")).strip()
    is_cut = None in shown or (isinstance(parts, list) and len(blocks) < len(parts))
    if not blocks and reason is None:
        raise NoCompletionError("its first candidate holds no content")
    return Answer(
        text="".join(part for part in shown if part),
        finish_reason=_REASONS.get(str(reason), str(reason).lower()) if reason else "stop",
        input_tokens=max(prompt, cached),
        output_tokens=output + thought,
        cached_tokens=cached,
        mean_logprob=_finite(candidate.get("avgLogprobs")),
        reasoning=thoughts or None,
        served_model=name_in(reply, "modelVersion"),
        repairs=with_repairs(repairs, reason, content=is_cut, usage=not is_counted),
    )


def _finite(value: object) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if is_number else None  # type: ignore[arg-type]  # it is a number
