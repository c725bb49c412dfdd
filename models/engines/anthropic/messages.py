"""Calls as requests of the Anthropic Messages API: in a message pictures as base64 blocks first, then the text."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from models.engines.endpoints.leaders import Prefix
from models.engines.endpoints.pictures import split_uri
from models.engines.endpoints.texts import MARK, chat_message, marked_messages, system_text
from models.messages import Call, Media
from models.spec import ModelSpec

LEAST_BUDGET: Final = 1024
"""Tokens of the smallest budget of thoughts that the API takes."""


def message_body(
    spec: ModelSpec,
    call: Call,
    pictures: Mapping[Media, Sequence[str]],
    omitted: Collection[str] = (),
    prefix: Prefix | None = None,
) -> dict[str, Any]:
    """Return the body of a call's request; `omitted` parameters are left out, beside those of the entry.

    `pictures` holds data URIs, a clip's in the order of its frames. The end of a shared `prefix` is marked.
    """
    left_out = {*spec.omit_parameters, *omitted}
    turns = [turn for turn in call.turns if turn.role != "system"]
    messages: Sequence[Mapping[str, Any]] = [chat_message(turn, pictures, _picture) for turn in turns]
    if prefix is not None and spec.prompt_cache == "auto" and MARK not in left_out:
        messages = marked_messages(messages, prefix.pictures)
    thinking = {} if left_out & {"thinking", "reasoning_effort"} else _thinking(spec)
    samples = thinking.get("thinking", {}).get("type") in (None, "disabled")
    parameters = {
        "system": system_text(spec, call),
        "temperature": call.generation.temperature if samples else None,
        "top_p": spec.top_p,
        **thinking,
        **spec.extra_body,
    }
    return {
        "model": spec.model,
        "max_tokens": call.generation.max_new_tokens,
        "messages": messages,
        **{name: value for name, value in parameters.items() if name not in left_out and value is not None},
    }


def _picture(uri: str) -> dict[str, Any]:
    mime_type, data = split_uri(uri)
    return {"type": "image", "source": {"type": "base64", "media_type": mime_type, "data": data}}


def _thinking(spec: ModelSpec) -> dict[str, Any]:
    if spec.reasoning_effort == "none":
        return {"thinking": {"type": "disabled"}}
    if spec.reasoning_effort:
        effort = "low" if spec.reasoning_effort == "minimal" else spec.reasoning_effort
        return {"thinking": {"type": "adaptive"}, "output_config": {"effort": effort}}
    if (spec.reasoning_tokens or 0) >= LEAST_BUDGET:
        return {"thinking": {"type": "enabled", "budget_tokens": spec.reasoning_tokens}}
    return {}
