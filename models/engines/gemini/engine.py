"""Models behind the Gemini API, `models/NAME:generateContent`."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, Final
from urllib.parse import quote, urlsplit, urlunsplit

from models.engines.endpoints.engine import Pictures
from models.engines.endpoints.http_engine import HttpEngine
from models.engines.endpoints.leaders import Prefix
from models.engines.gemini.contents import OPTIONAL, content_body
from models.engines.gemini.replies import read_content
from models.messages import Call
from models.spec import ModelSpec

_PATH: Final = re.compile(r"/*(/openai)?(/models)?/*$")  # what is appended, and what the other engine's address ends in


class GeminiEngine(HttpEngine):
    """Answers calls as an `HttpEngine`.

    The provider caches what requests share by itself. Thoughts are asked for by `reasoning_effort` as their level, or
    by `reasoning_tokens` as their budget.
    """

    optional_parameters = OPTIONAL

    key_header = "x-goog-api-key"
    read_reply = staticmethod(read_content)

    @staticmethod
    def request_address(spec: ModelSpec) -> str:
        """Return the address of requests for a model; `base_url` ends in the version of the API."""
        address = urlsplit(str(spec.base_url))
        name = quote(spec.model.removeprefix("models/"), safe="")
        path = f"{_PATH.sub('', address.path)}/models/{name}:generateContent"
        return urlunsplit((address.scheme, address.netloc, path, address.query, ""))

    def body(self, call: Call, pictures: Pictures, omitted: Collection[str], prefix: Prefix | None) -> dict[str, Any]:
        """Return the body of a request."""
        del prefix
        return content_body(self.spec, call, pictures, omitted)
