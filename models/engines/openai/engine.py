"""Models behind any OpenAI-compatible `/chat/completions`."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Final, get_args
from urllib.parse import urlsplit

from models.engines.endpoints.dialect import Dialect, Pictures
from models.engines.endpoints.endpoint import Endpoint
from models.engines.endpoints.engine import EndpointEngine
from models.engines.endpoints.failures import FailedAttempt, FailureScope, transient_failure
from models.engines.endpoints.leaders import Prefix
from models.engines.endpoints.texts import MARK, marked_messages
from models.engines.openai.completion import read_reply
from models.engines.openai.endpoint import LIMIT, NEW_LIMIT, client_options, rejects_max_tokens
from models.engines.openai.messages import chat_messages, request_body
from models.entry_fields import OptionalParameter
from models.messages import Answer, Call, Failure
from models.spec import ModelSpec

if TYPE_CHECKING:
    import openai


class OpenAIDialect(Dialect):
    """Requests as `request_body`.

    The limit of tokens is named `max_tokens`, or `max_completion_tokens` once a server demands it.
    """

    key_header = "Authorization"
    key_prefix = "Bearer "
    read_reply = staticmethod(read_reply)

    def __init__(self, spec: ModelSpec) -> None:
        """Note what the provider is known to take."""
        super().__init__(spec)
        self._cache_fields = cache_fields(spec)
        self.caches_prefixes = bool(self._cache_fields)
        self.optional_parameters = (*get_args(OptionalParameter), *self._cache_fields)
        self._takes_new_name = urlsplit(str(spec.base_url)).hostname == "api.openai.com"

    def body(
        self, call: Call, pictures: Pictures, omitted: Collection[str], prefix: Prefix | None = None
    ) -> dict[str, Any]:
        """Return the arguments of the client."""
        messages = chat_messages(call, pictures, self.spec.system, self.spec.detail)
        name = NEW_LIMIT if self._takes_new_name or LIMIT in omitted else LIMIT
        body = request_body(self.spec, call, messages, name, omitted)
        if prefix is None:
            return body
        return with_cache_fields(body, prefix.key, prefix.pictures, self._cache_fields, omitted)

    def refused(self, failure: Failure, omitted: Collection[str]) -> str | None:
        """Return the parameter that a refusal names, the old name of the limit where it asks for the new one."""
        if LIMIT not in omitted and rejects_max_tokens(failure):
            return LIMIT
        return super().refused(failure, omitted)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return what is no longer sent; the limit is, by its other name."""
        return tuple(text for text in super().warnings if f" {LIMIT}," not in text)


class OpenAIEngine(EndpointEngine):
    """Answers calls as an `EndpointEngine`."""

    dialect_type = OpenAIDialect

    def connect(self) -> None:
        """Make the client."""
        self._client = _make_client(self.endpoint)
        # Looked up here: the client imports this part lazily, which must not delay the first attempt.
        self._create = self._client.chat.completions.with_raw_response.create

    async def disconnect(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def attempt(self, body: Mapping[str, Any]) -> Answer | FailedAttempt:
        """Send a request once."""
        import openai

        try:
            async with asyncio.timeout(self.spec.timeout_s):
                reply = await self._create(**body)
        except openai.APIStatusError as error:
            return self.endpoint.failed_status(
                error.status_code, error.body, error.response.text, error.response.headers
            )
        except (TimeoutError, openai.APITimeoutError) as error:
            if _is_connect_error(error):
                return transient_failure("connection", "no connection in time", FailureScope.NO_CONNECTION)
            return transient_failure("timeout", f"no reply within {self.spec.timeout_s:g} s")
        except openai.APIConnectionError as error:
            scope = FailureScope.NO_CONNECTION if _is_connect_error(error) else FailureScope.ENDPOINT
            cause = error.__cause__ or error
            return transient_failure("connection", self.endpoint.redact(f"{type(cause).__name__}: {cause}"), scope)
        return self.endpoint.read_completion(reply.content)


def _make_client(endpoint: Endpoint) -> openai.AsyncOpenAI:
    import openai

    # `attempt` enforces `timeout_s` per attempt; a slow connection must still be distinguishable.
    timeout = openai.Timeout(None, connect=endpoint.spec.connect_timeout_s)
    http = openai.DefaultAsyncHttpxClient(**endpoint.http_options)
    client = openai.AsyncOpenAI(
        **client_options(endpoint.spec, endpoint.key), timeout=timeout, max_retries=0, http_client=http
    )
    # The client reads these from the environment; requests must depend on the models file alone.
    client.organization = client.project = None
    return client


def _is_connect_error(error: BaseException) -> bool:
    # By name: the client runs on httpx or on httpx2, by its version.
    return type(error.__cause__).__name__ in ("ConnectError", "ConnectTimeout")


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
