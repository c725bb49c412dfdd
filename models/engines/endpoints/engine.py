"""Models behind HTTP endpoints: concurrency, retries, limits, first requests; what is sent is a protocol's own."""

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import httpx2

from models.engines.endpoints.bounded import TooLongError, read_async
from models.engines.endpoints.budget import Budget, cost_limit_failure, estimate_tokens
from models.engines.endpoints.dialect import Dialect, Pictures
from models.engines.endpoints.endpoint import Endpoint
from models.engines.endpoints.event_loop import BackgroundLoop
from models.engines.endpoints.failures import (
    LONGEST_WAIT_S,
    FailedAttempt,
    FailureScope,
    backoff_s,
    error_object,
    transient_failure,
)
from models.engines.endpoints.first_requests import Prefix, PrefixCache, shared_prefix
from models.engines.endpoints.health import FirstCall, Health
from models.engines.endpoints.pictures import data_uris
from models.engines.endpoints.rate_limit import LONG_PAUSE_S, RateLimiter, Window
from models.messages import Answer, Call, CallReply, Failure, Frames, Media
from models.shell.connections import http_options
from models.spec import ModelSpec

log = logging.getLogger(__name__)

UNSCORED = Failure(
    type="unsupported",
    message="an endpoint returns no log-probabilities of given texts; use a model with `engine: transformers`",
)
"""The outcome of a call with `scored` texts."""


class EndpointEngine:
    """Answers calls over HTTP, concurrently, in its own thread. Endpoints have no beam search.

    Several threads may call `generate` at once: their calls share one window of attempts in flight, those of earlier
    units first.

    A 408, 409, 429 or 5xx, a timeout, a broken connection and a reply that is no completion are retried `retries`
    times, with exponential back-off and never before Retry-After, and fewer are in flight after a burst of refusals
    (`Window`). After that, and at once for every other status, the call is a `Failure`: `http_<status>`,
    `context_length`, `timeout`, `connection`, `bad_reply`, `finish_<reason>`, `reported_error`, or `cost_limit`, not
    sent. What a content filter stopped is an answer, whatever its status. An optional parameter that a refusal names is
    left out from then on.

    The first call is sent alone, for a second. If its failure is about key, address, model or server
    (`is_setup_failure`), it is not retried, and all other calls end with the same failure, unsent.

    Of the calls of a media group one is answered first, so that the provider keeps what they share (`Group`).
    """

    has_own_timeout = True  # each attempt has its `timeout_s`

    dialect_type: type[Dialect]
    """What is sent, and what comes back."""

    def __init__(
        self,
        spec: ModelSpec,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Read the key (`MissingSecretError` without one) and start the thread; `now` is Unix time, for Retry-After."""
        self.spec, self.dialect = spec, self.dialect_type(spec)
        self.endpoint = Endpoint(spec, self.dialect.read_reply, now=now)
        self._clock, self._sleep = clock, sleep
        self._units = 0
        most = spec.most_concurrency
        # `attempt` enforces `timeout_s` per attempt; a slow connection must still be distinguishable.
        self._client = httpx2.AsyncClient(
            timeout=httpx2.Timeout(None, connect=spec.connect_timeout_s),
            limits=httpx2.Limits(max_connections=most, max_keepalive_connections=most),
            headers={**self.dialect.headers(self.endpoint.key), "Content-Type": "application/json"},
            follow_redirects=self.dialect.follows_redirects,
            **http_options(str(spec.base_url)),
        )
        self._address = self.dialect.address(self.dialect.request_path)
        self._rate_limiter = RateLimiter(spec.requests_per_minute, clock, sleep)
        self._window = Window(spec.concurrency, spec.most_concurrency, clock)
        self._budget = Budget(spec.price, spec.cost_limit)
        self._cache = PrefixCache(spec, clock, caches=self.dialect.caches_prefixes)
        self._health = Health(self.endpoint.unreachable_message)
        self._first = FirstCall()
        self._loop = BackgroundLoop(f"endpoint of {spec.model}")

    async def attempt(self, body: Mapping[str, Any]) -> Answer | FailedAttempt:
        """Send a request once."""
        content = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
        try:
            async with asyncio.timeout(self.spec.timeout_s):
                async with self._client.stream("POST", self._address, content=content) as reply:
                    received = await read_async(reply.aiter_bytes())
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            message = self.endpoint.redact(f"{type(error).__name__}: {error}")
            return transient_failure("connection", message, FailureScope.NO_CONNECTION)
        except TimeoutError:
            return transient_failure("timeout", f"no reply within {self.spec.timeout_s:g} s")
        except TooLongError as error:
            return transient_failure("bad_reply", str(error))
        except httpx2.HTTPError as error:
            return transient_failure("connection", self.endpoint.redact(f"{type(error).__name__}: {error}"))
        if reply.is_success:
            return self.endpoint.read_completion(received)
        text = received.decode("utf-8", "replace")
        return self.endpoint.failed_status(reply.status_code, error_object(text), text, dict(reply.headers))

    def generate(self, calls: Sequence[Call], media: Mapping[Media, Frames]) -> Iterator[CallReply]:
        """Yield replies as they arrive, or raise `EngineUnreachableError` (see `Health`); closing cancels the rest."""
        if not calls:
            return
        items = dict.fromkeys(part for call in calls for part in call.media)
        pictures = {part: data_uris(part, media[part], self.spec.limits) for part in items}
        yield from self._loop.stream(partial(self._answer_all, calls, pictures))

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return what the endpoint refused and is no longer sent, and the other models that it answers as."""
        return (*self.dialect.warnings, *self.endpoint.remarks.warnings)

    @property
    def wanted_calls(self) -> int:
        """Return how many open calls keep the window full, those that wait for others of their group among them."""
        return 2 * self._window.limit

    @property
    def spent(self) -> float:
        """Return the dollars spent on answers so far, by `price`; 0 without one."""
        return self._budget.spent

    def close(self) -> None:
        """Cancel running calls, close the connections, end the thread."""
        self._loop.close(self._client.aclose)

    async def _answer_all(self, calls: Sequence[Call], pictures: Pictures, put: Callable[[CallReply], None]) -> None:
        prefixes = [shared_prefix(call, lambda medium: len(pictures[medium])) for call in calls]
        order = self._cache.add(prefixes, waiting=self._window.waiting, width=self._window.limit)
        self._units += 1
        unit = self._units

        async def answer(call: Call, prefix: Prefix | None) -> None:
            try:
                await self._first.begin()
                put(self._unsent(call) or await self._answer(call, prefix, pictures, unit))
            finally:
                self._first.end()  # where it was not sent
                self._cache.remove([prefix])

        try:
            async with asyncio.TaskGroup() as group:
                for number in order:
                    group.create_task(answer(calls[number], prefixes[number]))
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None

    def _unsent(self, call: Call) -> CallReply | None:
        """Return the reply to a call that is not worth sending."""
        if call.scored:
            return CallReply(call_id=call.call_id, outcome=UNSCORED)
        if failed := self._first.failure_of(call):
            self._health.record_failure(failed, self._health.answers, 1)
            return CallReply(call_id=call.call_id, outcome=failed.failure)
        return None

    async def _answer(self, call: Call, prefix: Prefix | None, pictures: Pictures, unit: int) -> CallReply:
        answers_before = self._health.answers
        attempt = number = 0  # the latter of the place in the window; 0 without one
        try:
            while True:
                omitted = tuple(self.dialect.omitted)
                group = self._cache.group(prefix)
                if group and number:  # of a later unit: its first request may wait for this place
                    self._window.leave()
                    number = 0
                async with group.turn() if group else nullcontext():
                    number = number or await self._window.enter(unit)
                    outcome, latency_s = await self._send(call, prefix, pictures, omitted, number)
                    if group and outcome:
                        group.record(outcome if isinstance(outcome, Answer) else outcome.failure)
                if outcome is None:
                    unsent = cost_limit_failure(self.spent, self.spec.cost_limit or 0.0)
                    return CallReply(call_id=call.call_id, outcome=unsent)
                is_final = self._first.end(outcome, has_media=bool(call.media))
                if isinstance(outcome, Answer):
                    self._health.record_answer()
                    self._cache.record(prefix, outcome)
                    outcome = replace(outcome, decoding=self.dialect.decoding(call, omitted))
                    return CallReply(call_id=call.call_id, outcome=outcome, latency_s=latency_s)
                if self.dialect.learn(outcome.failure, omitted):
                    continue
                wait = max(outcome.wait_s or 0.0, backoff_s(call.call_id, attempt))
                if is_final or not outcome.is_transient or attempt >= self.spec.retries or wait > LONGEST_WAIT_S:
                    break
                # Gateways and busy servers refuse single requests; an account at its limit refuses most, or for long.
                is_for_all = wait > LONG_PAUSE_S or self._window.is_refusing()
                if outcome.wait_s and is_for_all and self._rate_limiter.pause(outcome.wait_s):
                    text = "%s: the endpoint asks for a pause of %.0f s: %s"
                    log.warning(text, self.spec.model, outcome.wait_s, outcome.failure.message)
                # Else it keeps its place: no more calls ask an endpoint in trouble.
                if outcome.wait_s or group or self._window.is_overfull:
                    self._window.leave()
                    number = 0
                await self._sleep(wait)
                attempt += 1
        finally:
            if number:
                self._window.leave()
        self._health.record_failure(outcome, answers_before, attempt + 1)
        return CallReply(call_id=call.call_id, outcome=outcome.failure, latency_s=latency_s)

    async def _send(
        self, call: Call, prefix: Prefix | None, pictures: Pictures, omitted: tuple[str, ...], number: int
    ) -> tuple[Answer | FailedAttempt | None, float]:
        """Send a call once, in its place in the window; None at the cost limit. Second comes the time that it took."""
        tokens = estimate_tokens(self.spec, call, pictures)
        reserved = await self._budget.reserve(tokens, call.generation.max_new_tokens)
        if reserved is None:
            return None, 0.0
        outcome: Answer | FailedAttempt | None = None
        try:
            await self._rate_limiter.wait_for_turn()
            body = self.dialect.body(call, pictures, omitted, prefix if self._cache.is_shared(prefix) else None)
            started = self._clock()
            outcome = await self.attempt(body)
            latency_s = self._clock() - started
            if isinstance(outcome, Answer) and not outcome.is_counted:
                price = self.spec.price
                most = price.dollars(tokens, call.generation.max_new_tokens) if price else None
                outcome = replace(outcome, reserved_dollars=most)
            self._window.record(number, outcome, latency_s)
            return outcome, latency_s
        finally:
            self._budget.settle(reserved, outcome)
