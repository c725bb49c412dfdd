"""Models behind the Gemini API, `models/NAME:generateContent`: in a turn pictures as inline data first, then text."""

import re
from collections.abc import Collection
from typing import Any, Final
from urllib.parse import quote

from models.engines.endpoints.dialect import Dialect, Pictures
from models.engines.endpoints.engine import EndpointEngine
from models.engines.endpoints.first_requests import Prefix
from models.engines.endpoints.pictures import split_uri
from models.engines.endpoints.texts import parts_in_order, system_text
from models.engines.gemini.replies import read_content
from models.messages import Call, Turn
from models.spec import ModelSpec

_RESOLUTIONS: Final = {"low": "MEDIA_RESOLUTION_LOW", "high": "MEDIA_RESOLUTION_HIGH"}


class GeminiDialect(Dialect):
    """Requests of generated content.

    The provider caches what requests share by itself. Thoughts are asked for by `reasoning_effort` as their level, or
    by `reasoning_tokens` as their budget.
    """

    tail = re.compile(r"/*(/openai)?(/models)?/*$")  # the first is what the other engine's address ends in
    key_header = "x-goog-api-key"
    optional_parameters = (
        *("temperature", "seed", "topp", "top_p", "responselogprobs", "mediaresolution", "media_resolution"),
        *("thinkingconfig", "thinkingbudget", "thinkinglevel", "includethoughts", "thinking"),
        *("thinking_config", "thinking_budget", "thinking_level"),
    )
    """As refusals name them, in small letters; any name of thoughts stands for their whole configuration."""
    caches_prefixes = True
    read_reply = staticmethod(read_content)

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        self.request_path = f"{model_path(spec)}:generateContent"

    def body(
        self, call: Call, pictures: Pictures, omitted: Collection[str], prefix: Prefix | None = None
    ) -> dict[str, Any]:
        """Return the body of a request; `omitted` parameters are left out, beside those of the entry."""
        del prefix
        spec = self.spec
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


class GeminiEngine(EndpointEngine):
    """Answers calls as an `EndpointEngine`; `base_url` ends in the version of the API."""

    dialect_type = GeminiDialect


def model_path(spec: ModelSpec) -> str:
    """Return the path of a model, which the name of a method follows."""
    return f"/models/{quote(spec.model.removeprefix('models/'), safe='')}"


def _content(turn: Turn, pictures: Pictures) -> dict[str, Any]:
    parts: list[dict[str, Any]] = []
    for part in parts_in_order(turn):
        uris = [] if isinstance(part, str) else map(split_uri, pictures[part])
        parts += [{"text": part}] if isinstance(part, str) else []
        parts += [{"inlineData": {"mimeType": mime_type, "data": data}} for mime_type, data in uris]
    return {"role": "model" if turn.role == "assistant" else "user", "parts": parts or [{"text": ""}]}


def _thinking(spec: ModelSpec) -> dict[str, Any] | None:
    if spec.reasoning_effort == "none":
        return {"thinkingBudget": 0}
    if spec.reasoning_effort:
        return {"thinkingLevel": spec.reasoning_effort.upper(), "includeThoughts": True}
    if spec.reasoning_tokens is not None:
        return {"thinkingBudget": spec.reasoning_tokens, "includeThoughts": spec.reasoning_tokens > 0}
    return None
