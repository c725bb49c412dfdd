"""Models behind any OpenAI-compatible `/chat/completions`.

Fields that tell a provider which prefix to keep are sent only where it documents them.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, get_args
from urllib.parse import urlsplit

from models.engines.endpoints.dialect import Dialect, Pictures
from models.engines.endpoints.engine import EndpointEngine
from models.engines.endpoints.leaders import Prefix
from models.engines.endpoints.texts import MARK, chat_message, marked_messages
from models.engines.openai.completion import read_reply
from models.entry_fields import OptionalParameter
from models.messages import Call, Failure, Media
from models.spec import ModelSpec

_LIMIT: Final = "max_tokens"
_NEW_LIMIT: Final = "max_completion_tokens"
KEY: Final = "prompt_cache_key"
_KEYED_HOSTS: Final = frozenset({"api.openai.com", "api.mistral.ai"})
_MARKED: Final = {"openrouter.ai": ("anthropic/", "google/")}  # hosts, and the prefixes of models that read marks there


class OpenAIDialect(Dialect):
    """Requests for chat completions.

    The limit of tokens is named `max_tokens`, or `max_completion_tokens` once a server demands it.
    """

    tail = re.compile(r"/*((/chat)?/completions)?/*$")
    request_path = "/chat/completions"
    follows_redirects = True
    key_header = "Authorization"
    key_prefix = "Bearer "
    read_reply = staticmethod(read_reply)

    def __init__(self, spec: ModelSpec) -> None:
        """Note what the provider is known to take."""
        super().__init__(spec)
        self._cache_fields = cache_fields(spec)
        self.caches_prefixes = bool(self._cache_fields)
        self.optional_parameters = (*get_args(OptionalParameter), *self._cache_fields)
        self._takes_new_name = urlsplit(str(spec.base_url)).hostname == "api.openai.com"

    def body(
        self, call: Call, pictures: Pictures, omitted: Collection[str], prefix: Prefix | None = None
    ) -> dict[str, Any]:
        """Return the body of a request, with the key of its media group or a mark at the end of the first pictures."""
        spec, generation = self.spec, call.generation
        parameters = {
            "temperature": generation.temperature,
            "seed": generation.seed,
            "top_p": spec.top_p,
            "reasoning_effort": spec.reasoning_effort,
            "logprobs": spec.logprobs or None,
        }
        left_out = {*spec.omit_parameters, *omitted}
        body: dict[str, Any] = {
            "model": spec.model,
            "messages": chat_messages(call, pictures, spec.system, spec.detail),
            _NEW_LIMIT if self._takes_new_name or _LIMIT in omitted else _LIMIT: generation.max_new_tokens,
            **{name: value for name, value in parameters.items() if name not in left_out and value is not None},
            **spec.extra_body,
        }
        hints = {*self._cache_fields} - {*omitted}
        if prefix and KEY in hints:
            body.setdefault(KEY, prefix.key)  # an entry's own stays
        if prefix and prefix.pictures and MARK in hints:
            body["messages"] = marked_messages(body["messages"], prefix.pictures)
        return body

    def refused(self, failure: Failure, omitted: Collection[str]) -> str | None:
        """Return the parameter that a refusal names, the old name of the limit where it asks for the new one."""
        if _LIMIT not in omitted and failure.type == "http_400" and _NEW_LIMIT in failure.message:
            return _LIMIT
        return super().refused(failure, omitted)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return what is no longer sent; the limit is, by its other name."""
        return tuple(text for text in super().warnings if f" {_LIMIT}," not in text)


class OpenAIEngine(EndpointEngine):
    """Answers calls as an `EndpointEngine`."""

    dialect_type = OpenAIDialect


def cache_fields(spec: ModelSpec) -> tuple[str, ...]:
    """Return the fields that the provider of an entry is known to take: those that it documents, by its host."""
    host = urlsplit(str(spec.base_url)).hostname or ""
    if spec.prompt_cache == "off":
        return ()
    if host in _KEYED_HOSTS:
        return (KEY,)
    return (MARK,) if spec.model.startswith(_MARKED.get(host, ("\0",))) else ()


def chat_messages(
    call: Call, pictures: Mapping[Media, Sequence[str]], system: str | None = None, detail: str | None = None
) -> list[dict[str, Any]]:
    """Return the chat messages of one call: in each turn all pictures, then the texts joined with line breaks.

    `pictures` holds data URIs, a clip's in the order of its frames; `system` comes before a system turn of the call;
    `detail` asks the server for a resolution of its own.
    """
    further = {"detail": detail} if detail else {}
    messages = [
        chat_message(turn, pictures, lambda uri: {"type": "image_url", "image_url": {"url": uri, **further}})
        for turn in call.turns
    ]
    if system is None:
        return messages
    if messages and messages[0]["role"] == "system":
        return [{"role": "system", "content": f"{system}\n\n{messages[0]['content']}"}, *messages[1:]]
    return [{"role": "system", "content": system}, *messages]
