"""Models behind the Gemini API, `models/NAME:generateContent`."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any
from urllib.parse import quote

from models.engines.endpoints.dialect import Dialect, Pictures
from models.engines.endpoints.engine import EndpointEngine
from models.engines.endpoints.leaders import Prefix
from models.engines.gemini.contents import OPTIONAL, content_body
from models.engines.gemini.replies import read_content
from models.messages import Call
from models.spec import ModelSpec


class GeminiDialect(Dialect):
    """Requests as `content_body`.

    The provider caches what requests share by itself. Thoughts are asked for by `reasoning_effort` as their level, or
    by `reasoning_tokens` as their budget.
    """

    tail = re.compile(r"/*(/openai)?(/models)?/*$")  # the first is what the other engine's address ends in
    key_header = "x-goog-api-key"
    optional_parameters = OPTIONAL
    caches_prefixes = True
    read_reply = staticmethod(read_content)

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        self.request_path = f"{model_path(spec)}:generateContent"

    def body(
        self, call: Call, pictures: Pictures, omitted: Collection[str], prefix: Prefix | None = None
    ) -> dict[str, Any]:
        """Return the body of a request."""
        del prefix
        return content_body(self.spec, call, pictures, omitted)


class GeminiEngine(EndpointEngine):
    """Answers calls as an `EndpointEngine`; `base_url` ends in the version of the API."""

    dialect_type = GeminiDialect


def model_path(spec: ModelSpec) -> str:
    """Return the path of a model, which the name of a method follows."""
    return f"/models/{quote(spec.model.removeprefix('models/'), safe='')}"
