"""The endpoint of an OpenAI-compatible server: options of its client, and the name of its limit."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from models.engines.endpoints.endpoint import Endpoint
from models.engines.openai.completion import read_reply
from models.messages import Failure
from models.spec import ModelSpec

_ENDPOINT_PATH = re.compile(r"/*((/chat)?/completions)?/*$")  # what the client appends, and people copy into base_url
_NO_KEY = "no-key"  # sent where the model names no key: with None the client would send OPENAI_API_KEY to any endpoint


class OpenAIEndpoint(Endpoint):
    """The endpoint of one model."""

    def __init__(self, spec: ModelSpec, *, now: Callable[[], float] = time.time) -> None:
        """Read the key (`MissingSecretError` without one); `now` is Unix time, for Retry-After."""
        super().__init__(spec, read_reply, now=now)

    @property
    def client_options(self) -> dict[str, Any]:
        """Return the options of a client of this endpoint."""
        address = urlsplit(str(self.spec.base_url))
        path = _ENDPOINT_PATH.sub("", address.path)
        return {
            "api_key": self.key or _NO_KEY,
            "base_url": urlunsplit((address.scheme, address.netloc, path, "", "")),
            "default_query": dict(parse_qsl(address.query, keep_blank_values=True)),
        }


def rejects_max_tokens(failure: Failure) -> bool:
    """Return whether a server refused a request because it calls the limit `max_completion_tokens`."""
    return failure.type == "http_400" and "max_completion_tokens" in failure.message
