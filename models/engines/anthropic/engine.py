"""Models behind the Anthropic Messages API, `/v1/messages`."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Collection
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

from models.engines.anthropic.messages import message_body
from models.engines.anthropic.replies import read_message
from models.engines.endpoints.endpoint import Endpoint
from models.engines.endpoints.engine import Pictures
from models.engines.endpoints.http_engine import HttpEngine
from models.engines.endpoints.leaders import Prefix
from models.messages import Call
from models.spec import ModelSpec

VERSION: Final = "2023-06-01"
"""Of the API, which its servers require by name."""
_PATH: Final = re.compile(r"/*(/v1)?(/messages)?/*$")  # what is appended, and people copy into base_url


class AnthropicEngine(HttpEngine):
    """Answers calls as an `HttpEngine`.

    The end of a media group's first picture or clip is marked for the provider's cache. The API takes no seed. Thoughts
    are asked for by `reasoning_effort`, or by `reasoning_tokens` as their budget; then it takes no temperature.
    """

    optional_parameters = ("temperature", "top_p", "thinking", "output_config", "cache_control")

    def __init__(
        self,
        spec: ModelSpec,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Read the key (`MissingSecretError` without one) and start the thread; `now` is Unix time, for Retry-After."""
        endpoint = Endpoint(spec, read_message, now=now)
        key = {"x-api-key": endpoint.key} if endpoint.key else {}
        super().__init__(
            endpoint,
            messages_address(str(spec.base_url)),
            {**key, "anthropic-version": VERSION},
            clock=clock,
            sleep=sleep,
        )

    def body(self, call: Call, pictures: Pictures, omitted: Collection[str], prefix: Prefix | None) -> dict[str, Any]:
        """Return the body of a request."""
        return message_body(self.spec, call, pictures, omitted, prefix)

    def decoding(self, call: Call, omitted: Collection[str]) -> str:
        """Return how the answer was decoded: a model that thinks, or has no temperature, samples."""
        sent = message_body(self.spec, call, dict.fromkeys(call.media, ()), omitted)
        return super().decoding(call, () if "temperature" in sent else ("temperature",))


def messages_address(base_url: str) -> str:
    """Return the address of requests; `base_url` may end in `/v1` or `/v1/messages`."""
    address = urlsplit(base_url)
    return urlunsplit((address.scheme, address.netloc, _PATH.sub("", address.path) + "/v1/messages", address.query, ""))
