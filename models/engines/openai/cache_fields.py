"""Fields of a request that tell a provider which prefix to keep; sent only where the provider documents them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from models.engines.endpoints.texts import MARK, marked_messages
from models.spec import ModelSpec

KEY: Final = "prompt_cache_key"

_KEYED_HOSTS: Final = frozenset({"api.openai.com", "api.mistral.ai"})
_MARKED: Final = {"openrouter.ai": ("anthropic/", "google/")}
"""Hosts, and the prefixes of models that read marks there."""


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
        result[KEY] = key
    if MARK in sent and pictures:
        result["messages"] = marked_messages(body["messages"], pictures)
    return result
