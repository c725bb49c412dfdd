"""Engines of protocols in which a request is one JSON body to one address."""

from __future__ import annotations

import asyncio
import json
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import httpx2

from models.engines.endpoints.engine import EndpointEngine
from models.engines.endpoints.failures import FailedAttempt, FailureScope, error_object, transient_failure
from models.messages import Answer
from models.spec import ModelSpec


class HttpEngine(EndpointEngine):
    """Answers calls as an `EndpointEngine`: each attempt posts a body, and the endpoint reads the reply."""

    @staticmethod
    @abstractmethod
    def request_address(spec: ModelSpec) -> str:
        """Return the address to which requests are posted."""

    def connect(self) -> None:
        """Make the client."""
        # `attempt` enforces `timeout_s` per attempt; a slow connection must still be distinguishable.
        timeout = httpx2.Timeout(None, connect=self.spec.connect_timeout_s)
        count = self.spec.concurrency
        limits = httpx2.Limits(max_connections=count, max_keepalive_connections=count)
        headers = {**self.dialect.headers(self.endpoint.key), "Content-Type": "application/json"}
        self._client = httpx2.AsyncClient(timeout=timeout, limits=limits, headers=headers, **self.endpoint.http_options)
        self._address = self.request_address(self.spec)

    async def attempt(self, body: Mapping[str, Any]) -> Answer | FailedAttempt:
        """Send a request once."""
        content = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
        try:
            async with asyncio.timeout(self.spec.timeout_s):
                reply = await self._client.post(self._address, content=content)
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            message = self.endpoint.redact(f"{type(error).__name__}: {error}")
            return transient_failure("connection", message, FailureScope.NO_CONNECTION)
        except TimeoutError:
            return transient_failure("timeout", f"no reply within {self.spec.timeout_s:g} s")
        except httpx2.HTTPError as error:
            return transient_failure("connection", self.endpoint.redact(f"{type(error).__name__}: {error}"))
        if reply.is_success:
            return self.endpoint.read_completion(reply.content)
        text = reply.content.decode("utf-8", "replace")
        return self.endpoint.failed_status(reply.status_code, error_object(text), text, dict(reply.headers))

    async def disconnect(self) -> None:
        """Close the connections."""
        await self._client.aclose()
