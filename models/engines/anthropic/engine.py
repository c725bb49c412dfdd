"""Models behind the Anthropic Messages API, `/v1/messages`."""

from __future__ import annotations

import re
from collections.abc import Collection
from types import MappingProxyType
from typing import Any, Final

from models.engines.anthropic.messages import message_body
from models.engines.anthropic.replies import read_message
from models.engines.endpoints.dialect import Dialect, Pictures
from models.engines.endpoints.engine import EndpointEngine
from models.engines.endpoints.leaders import Prefix
from models.engines.endpoints.texts import MARK
from models.messages import Call

VERSION: Final = "2023-06-01"
"""Of the API, which its servers require by name."""


class AnthropicDialect(Dialect):
    """Requests as `message_body`.

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
        """Return the body of a request."""
        return message_body(self.spec, call, pictures, omitted, prefix)

    def decoding(self, call: Call, omitted: Collection[str]) -> str:
        """Return how the answer was decoded: a model that thinks, or has no temperature, samples."""
        sent = message_body(self.spec, call, dict.fromkeys(call.media, ()), omitted)
        return super().decoding(call, () if "temperature" in sent else ("temperature",))


class AnthropicEngine(EndpointEngine):
    """Answers calls as an `EndpointEngine`."""

    dialect_type = AnthropicDialect
