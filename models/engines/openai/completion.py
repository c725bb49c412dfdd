"""A chat completion as endpoints return it, and the answer in it.

A reply that is nearly right keeps its answer: counts, finish reasons and text parts are read leniently, and what was
dropped is named. What tells a failure, also with status 200, is never an answer.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

from models.engines.endpoints.replies import (
    NoCompletionError,
    ReportedFailure,
    decoded,
    ended_failure,
    first_item,
    name_in,
    texts,
    token_count,
    with_repairs,
)
from models.messages import Answer

_CACHED = ("cached_tokens", "cache_read_input_tokens", "prompt_cache_hit_tokens")
_WRITTEN = ("cache_write_tokens", "cache_creation_input_tokens", "cache_creation_tokens")
"""Names of tokens read from a cache and written into it, in `usage` or its `prompt_tokens_details`."""
_FILTERS = ("prompt_filter_results", "content_filter_results", "prompt_feedback", "promptFeedback")


def read_reply(content: bytes) -> Answer | ReportedFailure:
    """Return the first choice of a reply, a provider's block as an empty answer, or the failure that it tells.

    Raises:
        NoCompletionError: it is no chat completion.
    """
    reply, repairs = decoded(content)
    if reply.get("error"):
        return ReportedFailure(reply["error"])
    choices = reply.get("choices")
    if not choices and any(reply.get(name) for name in _FILTERS):
        return Answer(text="", finish_reason="content_filter")
    choice = first_item(choices, "choice")
    reason = choice.get("finish_reason")
    if choice.get("error"):
        return ReportedFailure(choice["error"])
    if failure := ended_failure(reason, reply.get("message")):
        return failure
    message = choice.get("message")
    if message is None and reason == "content_filter":
        return Answer(text="", finish_reason="content_filter")
    if not isinstance(message, Mapping):
        raise NoCompletionError("its first choice holds no message")
    answer = _answer(choice, message, reply.get("usage"), repairs)
    return replace(
        answer, served_model=name_in(reply, "model"), system_fingerprint=name_in(reply, "system_fingerprint")
    )


def _answer(choice: Mapping[str, Any], message: Mapping[str, Any], usage: object, repairs: Sequence[str]) -> Answer:
    parts = list(texts(message.get("content")))
    counts = usage if isinstance(usage, Mapping) else {}
    details = counts.get("prompt_tokens_details")
    names = {**counts, **details} if isinstance(details, Mapping) else counts
    fields = (("prompt_tokens",), ("completion_tokens",), _CACHED, _WRITTEN)
    tokens = [token_count(next((names[name] for name in group if names.get(name)), None)) for group in fields]
    read, output, cached_tokens, write_tokens = (count or 0 for count in tokens)
    if cached_tokens + write_tokens > read:  # a server that counts apart what its cache holds
        read += cached_tokens + write_tokens
    reason = choice.get("finish_reason")
    thoughts = (message.get("reasoning_content"), message.get("reasoning"))
    return Answer(
        text="".join(part for part in parts if part) or next(filter(None, texts(message.get("refusal"))), ""),
        finish_reason=str(reason) if isinstance(reason, str | int | float) and reason != "" else "stop",
        input_tokens=read,
        output_tokens=output,
        cached_tokens=cached_tokens,
        cache_write_tokens=write_tokens,
        mean_logprob=_mean_logprob(choice.get("logprobs")),
        reasoning=next((text for text in thoughts if isinstance(text, str) and text), None),
        repairs=with_repairs(
            repairs, reason, content=None in parts, usage=None in tokens or not isinstance(usage, Mapping | None)
        ),
    )


def _mean_logprob(logprobs: object) -> float | None:
    """Return the mean over the tokens, in nats; None where the reply holds none, or in a form of its own."""
    tokens = logprobs.get("content") if isinstance(logprobs, Mapping) else None
    if not isinstance(tokens, list):
        return None
    values = [token.get("logprob") if isinstance(token, Mapping) else None for token in tokens]
    numbers = [value for value in values if isinstance(value, int | float) and math.isfinite(value)]
    return fmean(numbers) if numbers and len(numbers) == len(values) else None
