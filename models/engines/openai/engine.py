"""Models behind any OpenAI-compatible `/chat/completions`.

Fields that tell a provider which prefix to keep are sent only where it documents them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final, get_args
from urllib.parse import urlsplit

from models.engines.endpoints.dialect import Dialect, Pictures
from models.engines.endpoints.engine import EndpointEngine
from models.engines.endpoints.leaders import Prefix
from models.engines.endpoints.texts import MARK, marked_messages
from models.engines.openai.completion import read_reply
from models.engines.openai.messages import chat_messages, request_body
from models.entry_fields import OptionalParameter
from models.messages import Call, Failure
from models.spec import ModelSpec

_LIMIT: Final = "max_tokens"
_NEW_LIMIT: Final = "max_completion_tokens"
KEY: Final = "prompt_cache_key"
_KEYED_HOSTS: Final = frozenset({"api.openai.com", "api.mistral.ai"})
_MARKED: Final = {"openrouter.ai": ("anthropic/", "google/")}
"""Hosts, and the prefixes of models that read marks there."""


class OpenAIDialect(Dialect):
    """Requests as `request_body`.

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
        """Return the body of a request."""
        messages = chat_messages(call, pictures, self.spec.system, self.spec.detail)
        name = _NEW_LIMIT if self._takes_new_name or _LIMIT in omitted else _LIMIT
        body = request_body(self.spec, call, messages, name, omitted)
        if prefix is None:
            return body
        return with_cache_fields(body, prefix.key, prefix.pictures, self._cache_fields, omitted)

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


def with_cache_fields(
    body: Mapping[str, Any], key: str, pictures: int, fields: Collection[str], omitted: Collection[str]
) -> dict[str, Any]:
    """Return a request with the key of its media group, and a mark at the end of its first `pictures` pictures."""
    sent = {name for name in fields if name not in omitted}
    result = dict(body)
    if KEY in sent:
        result.setdefault(KEY, key)  # an entry's own stays
    if MARK in sent and pictures:
        result["messages"] = marked_messages(body["messages"], pictures)
    return result
