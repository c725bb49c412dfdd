"""Models behind any OpenAI-compatible `/chat/completions`."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from models.engines.openai.budget import Budget
from models.engines.openai.cache_fields import cache_fields, with_cache_fields
from models.engines.openai.endpoint import Endpoint, rejects_max_tokens
from models.engines.openai.event_loop import BackgroundLoop
from models.engines.openai.failures import (
    LONGEST_WAIT_S,
    FailedAttempt,
    FailureScope,
    backoff_s,
    refused_parameter,
    transient_failure,
)
from models.engines.openai.health import Health
from models.engines.openai.leaders import LeaderQueue, Prefix, PrefixCache, shared_prefix
from models.engines.openai.messages import OPTIONAL_PARAMETERS, UNSCORED, chat_messages, data_uris, request_body
from models.engines.openai.rate_limit import AdaptiveConcurrency, RateLimiter
from models.messages import Answer, Call, CallReply, Frames, Media, decoding_name
from models.spec import ModelSpec

if TYPE_CHECKING:
    import openai


log = logging.getLogger(__name__)


class OpenAIEngine:
    """Answers calls over HTTP, concurrently, in its own thread.

    The limit of tokens is named `max_tokens`, or `max_completion_tokens` once a server demands it. Endpoints have no
    beam search: `num_beams` is not sent.

    A 408, 409, 429 or 5xx, a timeout, a broken connection and a reply that is no chat completion are retried `retries`
    times, with less concurrency after each 429, exponential back-off and never before Retry-After; after that, and at
    once for every other status, the call is a `Failure`: `http_<status>`, `context_length`, `timeout`, `connection`,
    `bad_reply`, `finish_<reason>`, `reported_error`, or `cost_limit`, not sent. What a content filter stopped is an
    answer, whatever its status. An optional parameter that a refusal names is left out from then on.

    Of the calls of a media group one is answered first, so that the provider keeps what they share (`LeaderQueue`).
    """

    has_own_timeout = True  # each attempt has its `timeout_s`

    def __init__(
        self,
        spec: ModelSpec,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Read the key (`MissingSecretError` without one) and start the thread; `now` is Unix time, for Retry-After."""
        self._spec = spec
        self._clock, self._sleep = clock, sleep
        self._endpoint = Endpoint(spec, now=now)
        self._limit_name = "max_tokens"
        self._omitted: list[str] = []
        self._rate_limiter = RateLimiter(spec.requests_per_minute, clock, sleep)
        self._concurrency = AdaptiveConcurrency(spec.concurrency)
        self._budget = Budget(spec.price, spec.cost_limit)
        self._cache, self._cache_fields = PrefixCache(spec, clock), cache_fields(spec)
        self._health = Health(self._endpoint.unreachable_message)
        self._client = self._make_client()
        # Looked up here: the client imports this part lazily, which must not delay the first attempt.
        self._create = self._client.chat.completions.with_raw_response.create
        self._loop = BackgroundLoop(f"endpoint of {spec.model}")

    def generate(self, calls: Sequence[Call], media: Mapping[Media, Frames]) -> Iterator[CallReply]:
        """Yield replies as they arrive, or raise `EngineUnreachableError` (see `Health`); closing cancels the rest."""
        if not calls:
            return
        items = dict.fromkeys(part for call in calls for part in call.media)
        pictures = {part: data_uris(part, media[part], self._spec.limits) for part in items}

        async def produce(put: Callable[[CallReply], None]) -> None:
            await self._answer_all(calls, pictures, put)

        yield from self._loop.stream(produce)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return what the endpoint refused and is no longer sent."""
        return tuple(f"{self._spec.model}: the endpoint refuses {name}, which is not sent" for name in self._omitted)

    @property
    def spent(self) -> float:
        """Return the dollars spent on answers so far, by `price`; 0 without one."""
        return self._budget.spent

    def close(self) -> None:
        """Cancel running calls, close the connections, end the thread."""
        self._loop.close(self._client.close)

    def _make_client(self) -> openai.AsyncOpenAI:
        import openai

        # `_attempt` enforces `timeout_s` per attempt; a slow connection must still be distinguishable.
        timeout = openai.Timeout(None, connect=min(10.0, self._spec.timeout_s / 2))
        http = openai.DefaultAsyncHttpxClient(**self._endpoint.http_options)
        client = openai.AsyncOpenAI(**self._endpoint.client_options, timeout=timeout, max_retries=0, http_client=http)
        # The client reads these from the environment; requests must depend on the models file alone.
        client.organization = client.project = None
        return client

    async def _answer_all(
        self, calls: Sequence[Call], pictures: Mapping[Media, Sequence[str]], put: Callable[[CallReply], None]
    ) -> None:
        prefixes = [shared_prefix(call, lambda medium: len(pictures[medium])) for call in calls]
        queue = self._cache.queue(calls, prefixes)

        async def work() -> None:
            while taken := await queue.take():
                put(await self._answer(taken, pictures, queue))
                queue.end_attempt(*taken)  # a leader that was not sent

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(self._spec.concurrency, len(calls))):
                    group.create_task(work())
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None

    async def _answer(
        self, taken: tuple[Call, Prefix | None], pictures: Mapping[Media, Sequence[str]], queue: LeaderQueue
    ) -> CallReply:
        call, prefix = taken
        if call.scored:
            return CallReply(call_id=call.call_id, outcome=UNSCORED)
        messages = chat_messages(call, pictures, self._spec.system, self._spec.detail)
        answers_before = self._health.answers
        attempt = 0
        while True:
            reserved = await self._budget.reserve(messages, call.generation.max_new_tokens)
            if reserved is None:
                return CallReply(call_id=call.call_id, outcome=self._budget.failure())
            outcome: Answer | FailedAttempt | None = None
            limit_name, omitted = self._limit_name, tuple(self._omitted)
            try:
                async with self._concurrency:
                    await self._rate_limiter.wait_for_turn()
                    started = self._clock()
                    body = request_body(self._spec, call, messages, limit_name, omitted)
                    if prefix in queue.shared:
                        body = with_cache_fields(body, prefix.key, prefix.pictures, self._cache_fields, omitted)
                    outcome = await self._attempt(body)
                    self._concurrency.record(outcome)
            finally:
                self._budget.settle(reserved, outcome)
            if isinstance(outcome, Answer):
                self._health.record_answer()
                self._cache.record(prefix, outcome)
                queue.end_attempt(call, prefix, outcome)
                decoding = decoding_name(call.generation, beams=False) if "temperature" not in omitted else "sampled"
                outcome = replace(outcome, decoding=decoding)
                return CallReply(call_id=call.call_id, outcome=outcome, latency_s=self._clock() - started)
            if limit_name == "max_tokens" and rejects_max_tokens(outcome.failure):
                self._limit_name = "max_completion_tokens"
                continue
            refused = refused_parameter(outcome.failure, (*OPTIONAL_PARAMETERS, *self._cache_fields))
            if refused is not None and refused not in omitted:
                self._omit(refused, outcome.failure.message)
                continue
            queue.end_attempt(call, prefix, outcome.failure)
            wait = max(outcome.wait_s or 0.0, backoff_s(call.call_id, attempt))
            if not outcome.is_transient or attempt >= self._spec.retries or wait > LONGEST_WAIT_S:
                break
            if outcome.wait_s:
                self._rate_limiter.pause(outcome.wait_s)
            await self._sleep(wait)
            attempt += 1
        self._health.record_failure(outcome, answers_before, attempt + 1)
        latency = self._clock() - started
        return CallReply(call_id=call.call_id, outcome=outcome.failure, latency_s=latency)

    def _omit(self, parameter: str, reason: str) -> None:
        if parameter not in self._omitted:
            self._omitted.append(parameter)
            log.warning("%s refuses %s, which is left out from now on: %s", self._spec.model, parameter, reason)

    async def _attempt(self, body: Mapping[str, Any]) -> Answer | FailedAttempt:
        import openai

        try:
            async with asyncio.timeout(self._spec.timeout_s):
                reply = await self._create(**body)
        except openai.APIStatusError as error:
            return self._endpoint.failed_status(
                error.status_code, error.body, error.response.text, error.response.headers
            )
        except (TimeoutError, openai.APITimeoutError) as error:
            if _is_connect_error(error):
                return transient_failure("connection", "no connection in time", FailureScope.NO_CONNECTION)
            return transient_failure("timeout", f"no reply within {self._spec.timeout_s:g} s")
        except openai.APIConnectionError as error:
            scope = FailureScope.NO_CONNECTION if _is_connect_error(error) else FailureScope.ENDPOINT
            cause = error.__cause__ or error
            return transient_failure("connection", self._endpoint.redact(f"{type(cause).__name__}: {cause}"), scope)
        return self._endpoint.read_completion(reply.content)


def _is_connect_error(error: BaseException) -> bool:
    # By name: the client runs on httpx or on httpx2, by its version.
    return type(error.__cause__).__name__ in ("ConnectError", "ConnectTimeout")
