"""An OpenAI-compatible server: options of its client, and the name of its limit."""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import parse_qsl

from models.engines.endpoints.endpoint import address_of
from models.messages import Failure
from models.spec import ModelSpec

LIMIT: Final = "max_tokens"
NEW_LIMIT: Final = "max_completion_tokens"
_ENDPOINT_PATH = re.compile(r"/*((/chat)?/completions)?/*$")  # what the client appends, and people copy into base_url
_NO_KEY = "no-key"  # sent where the model names no key: with None the client would send OPENAI_API_KEY to any endpoint


def client_options(spec: ModelSpec, key: str | None) -> dict[str, Any]:
    """Return the options of a client of an entry's endpoint."""
    address, _, query = address_of(spec, _ENDPOINT_PATH, "").partition("?")
    return {
        "api_key": key or _NO_KEY,
        "base_url": address,
        "default_query": dict(parse_qsl(query, keep_blank_values=True)),
    }


def api_address(spec: ModelSpec, name: str, **query: str) -> str:
    """Return the address of what the API calls by a name."""
    return address_of(spec, _ENDPOINT_PATH, f"/{name}", **query)


def rejects_max_tokens(failure: Failure) -> bool:
    """Return whether a server refused a request because it calls the limit `max_completion_tokens`."""
    return failure.type == "http_400" and NEW_LIMIT in failure.message
