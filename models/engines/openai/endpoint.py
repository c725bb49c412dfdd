"""An OpenAI-compatible server: options of its client, and the name of its limit."""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from models.messages import Failure
from models.spec import ModelSpec

LIMIT: Final = "max_tokens"
NEW_LIMIT: Final = "max_completion_tokens"
_ENDPOINT_PATH = re.compile(r"/*((/chat)?/completions)?/*$")  # what the client appends, and people copy into base_url
_NO_KEY = "no-key"  # sent where the model names no key: with None the client would send OPENAI_API_KEY to any endpoint


def client_options(spec: ModelSpec, key: str | None) -> dict[str, Any]:
    """Return the options of a client of an entry's endpoint."""
    address = urlsplit(str(spec.base_url))
    path = _ENDPOINT_PATH.sub("", address.path)
    return {
        "api_key": key or _NO_KEY,
        "base_url": urlunsplit((address.scheme, address.netloc, path, "", "")),
        "default_query": dict(parse_qsl(address.query, keep_blank_values=True)),
    }


def rejects_max_tokens(failure: Failure) -> bool:
    """Return whether a server refused a request because it calls the limit `max_completion_tokens`."""
    return failure.type == "http_400" and NEW_LIMIT in failure.message
