"""Models behind the Anthropic Messages API, `/v1/messages`: in a message pictures as base64 blocks, then the text."""

import re
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from models.engines.anthropic.replies import read_message
from models.engines.endpoints.dialect import Dialect, Pictures
from models.engines.endpoints.engine import EndpointEngine
from models.engines.endpoints.first_requests import Prefix
from models.engines.endpoints.pictures import split_uri
from models.engines.endpoints.texts import MARK, chat_message, marked_messages, system_text
from models.messages import Call
from models.spec import ModelSpec

VERSION: Final = "2023-06-01"  # of the API, which its servers require by name
LEAST_BUDGET: Final = 1024  # tokens of the smallest budget of thoughts that the API takes


class AnthropicDialect(Dialect):
    """Requests of messages.

    The end of a media group's first picture or clip is marked for the provider's cache. The API takes no seed. Thoughts
    are asked for by `reasoning_effort`, or by `reasoning_tokens` as their budget; then it takes no temperature.
    """

    tail = re.compile(r"/*(/v1)?(/messages)?/*$")
    root = "/v1/messages"
    request_path = ""
    key_header = "x-api-key"
    version_headers = MappingProxyType({"anthropic-version": VERSION})
    optional_parameters = ("temperature", "top_p", "thinking", "output_config", MARK)
    caches_prefixes = True
    read_reply = staticmethod(read_message)

    def body(
        self, call: Call, pictures: Pictures, omitted: Collection[str], prefix: Prefix | None = None
    ) -> dict[str, Any]:
        """Return the body of a request; `omitted` parameters are left out, beside those of the entry."""
        spec = self.spec
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

    def decoding(self, call: Call, omitted: Collection[str]) -> str:
        """Return how the answer was decoded: a model that thinks, or has no temperature, samples."""
        sent = self.body(call, dict.fromkeys(call.media, ()), omitted)
        return super().decoding(call, () if "temperature" in sent else ("temperature",))


class AnthropicEngine(EndpointEngine):
    """Answers calls as an `EndpointEngine`."""

    dialect_type = AnthropicDialect


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
