"""Calls as requests of the Gemini API: in a turn pictures as inline data first, then the text."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from models.engines.endpoints.pictures import split_uri
from models.engines.endpoints.texts import system_text, turn_text
from models.messages import Call, Media, Turn
from models.spec import ModelSpec

OPTIONAL: Final = (
    *("temperature", "seed", "topp", "top_p", "responselogprobs", "mediaresolution", "media_resolution"),
    *("thinkingconfig", "thinkingbudget", "thinkinglevel", "includethoughts", "thinking"),
    *("thinking_config", "thinking_budget", "thinking_level"),
)
"""Parameters as refusals name them, in small letters; any name of thoughts stands for their whole configuration."""
_RESOLUTIONS: Final = {"low": "MEDIA_RESOLUTION_LOW", "high": "MEDIA_RESOLUTION_HIGH"}


def content_body(
    spec: ModelSpec, call: Call, pictures: Mapping[Media, Sequence[str]], omitted: Collection[str] = ()
) -> dict[str, Any]:
    """Return the body of a call's request; `omitted` parameters are left out, beside those of the entry.

    `pictures` holds data URIs, a clip's in the order of its frames.
    """
    left_out = {name.replace("_", "") for name in (*spec.omit_parameters, *omitted)}
    parameters = {
        "maxOutputTokens": call.generation.max_new_tokens,
        "temperature": call.generation.temperature,
        "seed": call.generation.seed,
        "topP": spec.top_p,
        "responseLogprobs": spec.logprobs or None,
        "mediaResolution": _RESOLUTIONS.get(spec.detail or ""),
        "thinkingConfig": None
        if any(name.startswith(("thinking", "include", "reasoning")) for name in left_out)
        else _thinking(spec),
    }
    sent = {name: value for name, value in parameters.items() if name.lower() not in left_out and value is not None}
    system = system_text(spec, call)
    return {
        "contents": [_content(turn, pictures) for turn in call.turns if turn.role != "system"],
        **({"systemInstruction": {"parts": [{"text": system}]}} if system else {}),
        "generationConfig": sent,
        **spec.extra_body,
    }


def _content(turn: Turn, pictures: Mapping[Media, Sequence[str]]) -> dict[str, Any]:
    uris = [uri for part in turn.parts if isinstance(part, Media) for uri in pictures[part]]
    text = turn_text(turn)
    parts = [_picture(uri) for uri in uris] + ([{"text": text}] if text or not uris else [])
    return {"role": "model" if turn.role == "assistant" else "user", "parts": parts}


def _picture(uri: str) -> dict[str, Any]:
    mime_type, data = split_uri(uri)
    return {"inlineData": {"mimeType": mime_type, "data": data}}


def _thinking(spec: ModelSpec) -> dict[str, Any] | None:
    if spec.reasoning_effort == "none":
        return {"thinkingBudget": 0}
    if spec.reasoning_effort:
        return {"thinkingLevel": spec.reasoning_effort.upper(), "includeThoughts": True}
    if spec.reasoning_tokens is not None:
        return {"thinkingBudget": spec.reasoning_tokens, "includeThoughts": spec.reasoning_tokens > 0}
    return None
