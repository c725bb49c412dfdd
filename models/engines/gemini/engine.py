"""Models behind the Gemini API, `models/NAME:generateContent`."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, Final
from urllib.parse import quote

from models.engines.endpoints.dialect import Dialect, Pictures
from models.engines.endpoints.endpoint import address_of
from models.engines.endpoints.http_engine import HttpEngine
from models.engines.endpoints.leaders import Prefix
from models.engines.gemini.contents import OPTIONAL, content_body
from models.engines.gemini.replies import read_content
from models.messages import Call
from models.spec import ModelSpec

_PATH: Final = re.compile(r"/*(/openai)?(/models)?/*$")  # what is appended, and what the other engine's address ends in


class GeminiDialect(Dialect):
    """Requests as `content_body`.

    The provider caches what requests share by itself. Thoughts are asked for by `reasoning_effort` as their level, or
    by `reasoning_tokens` as their budget.
    """

    key_header = "x-goog-api-key"
    optional_parameters = OPTIONAL
    caches_prefixes = True
    read_reply = staticmethod(read_content)

    def body(
        self, call: Call, pictures: Pictures, omitted: Collection[str], prefix: Prefix | None = None
    ) -> dict[str, Any]:
        """Return the body of a request."""
        del prefix
        return content_body(self.spec, call, pictures, omitted)


class GeminiEngine(HttpEngine):
    """Answers calls as an `HttpEngine`."""

    dialect_type = GeminiDialect

    @staticmethod
    def request_address(spec: ModelSpec) -> str:
        """Return the address of requests for a model."""
        return model_address(spec, "generateContent")


def model_address(spec: ModelSpec, method: str) -> str:
    """Return the address of a method of a model; `base_url` ends in the version of the API."""
    name = quote(spec.model.removeprefix("models/"), safe="")
    return api_address(spec, f"models/{name}:{method}")


def api_address(spec: ModelSpec, name: str, **query: str) -> str:
    """Return the address of what the API calls by a name."""
    return address_of(spec, _PATH, f"/{name}", **query)
