"""Models behind HTTP endpoints: concurrency, retries, limits, leaders; what is sent and how is a protocol's own."""

from __future__ import annotations

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from models.engines.endpoints.budget import Budget, estimate_tokens
from models.engines.endpoints.endpoint import Endpoint
from models.engines.endpoints.event_loop import BackgroundLoop
from models.engines.endpoints.failures import LONGEST_WAIT_S, FailedAttempt, backoff_s, refused_parameter
from models.engines.endpoints.health import Health
from models.engines.endpoints.leaders import LeaderQueue, Prefix, PrefixCache, shared_prefix
from models.engines.endpoints.pictures import data_uris
from models.engines.endpoints.rate_limit import AdaptiveConcurrency, RateLimiter
from models.engines.endpoints.replies import ReportedFailure
from models.messages import Answer, Call, CallReply, Failure, Frames, Media, decoding_name
from models.spec import ModelSpec

log = logging.getLogger(__name__)

Pictures: TypeAlias = Mapping[Media, Sequence[str]]
"""Data URIs of each medium of a call, a clip's in the order of its frames."""
UNSCORED = Failure(
    type="unsupported",
    message="an endpoint returns no log-probabilities of given texts; use a model with `engine: transformers`",
)
"""The outcome of a call with `scored` texts."""


class EndpointEngine(ABC):
    """Answers calls over HTTP, concurrently, in its own thread. Endpoints have no beam search.

    A 408, 409, 429 or 5xx, a timeout, a broken connection and a reply that is no completion are retried `retries`
    times, with less concurrency after each 429, exponential back-off and never before Retry-After; after that, and at
    once for every other status, the call is a `Failure`: `http_<status>`, `context_length`, `timeout`, `connection`,
    `bad_reply`, `finish_<reason>`, `reported_error`, or `cost_limit`, not sent. What a content filter stopped is an
    answer, whatever its status. An optional parameter that a refusal names is left out from then on.

    Of the calls of a media group one is answered first, so that the provider keeps what they share (`LeaderQueue`).
    """

    has_own_timeout = True  # each attempt has its `timeout_s`

    optional_parameters: Sequence[str] = ()
    """Left out where the endpoint refuses them."""

    caches_prefixes = False
    """Whether the provider is known to keep prefixes."""

    def __init__(
        self,
        spec: ModelSpec,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Read the key (`MissingSecretError` without one) and start the thread; `now` is Unix time, for Retry-After."""
        self.spec, self.endpoint = spec, Endpoint(spec, self.read_reply, now=now)
        self._clock, self._sleep = clock, sleep
        self.connect()
        self._omitted: list[str] = []
        self._rate_limiter = RateLimiter(spec.requests_per_minute, clock, sleep)
        self._concurrency = AdaptiveConcurrency(spec.concurrency)
        self._budget = Budget(spec.price, spec.cost_limit)
        self._cache = PrefixCache(spec, clock, caches=self.caches_prefixes)
        self._health = Health(self.endpoint.unreachable_message)
        self._loop = BackgroundLoop(f"endpoint of {spec.model}")

    @staticmethod
    @abstractmethod
    def read_reply(content: bytes) -> Answer | ReportedFailure:
        """Return what the body of a reply says, as a `ReplyReader`."""

    @abstractmethod
    def connect(self) -> None:
        """Make the client from `spec` and `endpoint`, before anything is sent."""

    @abstractmethod
    def body(self, call: Call, pictures: Pictures, omitted: Collection[str], prefix: Prefix | None) -> dict[str, Any]:
        """Return a request without the `omitted` parameters; `prefix` is what other calls begin with too."""

    @abstractmethod
    async def attempt(self, body: Mapping[str, Any]) -> Answer | FailedAttempt:
        """Send a request once."""

    @abstractmethod
    async def disconnect(self) -> None:
        """Close the connections."""

    def adapt(self, failure: Failure, body: Mapping[str, Any]) -> bool:
        """Learn from a refusal how requests must be; return whether the call is to be sent again."""
        del failure, body
        return False

    def decoding(self, call: Call, omitted: Collection[str]) -> str:
        """Return how the answer to a call sent without the `omitted` parameters was decoded."""
        is_sent = "temperature" not in {*omitted, *self.spec.omit_parameters}
        return decoding_name(call.generation, beams=False) if is_sent else "sampled"

    def generate(self, calls: Sequence[Call], media: Mapping[Media, Frames]) -> Iterator[CallReply]:
        """Yield replies as they arrive, or raise `EngineUnreachableError` (see `Health`); closing cancels the rest."""
        if not calls:
            return
        items = dict.fromkeys(part for call in calls for part in call.media)
        pictures = {part: data_uris(part, media[part], self.spec.limits) for part in items}

        async def produce(put: Callable[[CallReply], None]) -> None:
            await self._answer_all(calls, pictures, put)

        yield from self._loop.stream(produce)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return what the endpoint refused and is no longer sent."""
        return tuple(f"{self.spec.model}: the endpoint refuses {name}, which is not sent" for name in self._omitted)

    @property
    def spent(self) -> float:
        """Return the dollars spent on answers so far, by `price`; 0 without one."""
        return self._budget.spent

    def close(self) -> None:
        """Cancel running calls, close the connections, end the thread."""
        self._loop.close(self.disconnect)

    async def _answer_all(self, calls: Sequence[Call], pictures: Pictures, put: Callable[[CallReply], None]) -> None:
        prefixes = [shared_prefix(call, lambda medium: len(pictures[medium])) for call in calls]
        queue = self._cache.queue(calls, prefixes)

        async def work() -> None:
            while taken := await queue.take():
                put(await self._answer(taken, pictures, queue))
                queue.end_attempt(*taken)  # a leader that was not sent

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(self.spec.concurrency, len(calls))):
                    group.create_task(work())
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None

    async def _answer(self, taken: tuple[Call, Prefix | None], pictures: Pictures, queue: LeaderQueue) -> CallReply:
        call, prefix = taken
        if call.scored:
            return CallReply(call_id=call.call_id, outcome=UNSCORED)
        tokens = estimate_tokens(self.spec, call, pictures)
        answers_before = self._health.answers
        attempt = 0
        while True:
            reserved = await self._budget.reserve(tokens, call.generation.max_new_tokens)
            if reserved is None:
                return CallReply(call_id=call.call_id, outcome=self._budget.failure())
            outcome: Answer | FailedAttempt | None = None
            omitted = tuple(self._omitted)
            body = self.body(call, pictures, omitted, prefix if prefix in queue.shared else None)
            try:
                async with self._concurrency:
                    await self._rate_limiter.wait_for_turn()
                    started = self._clock()
                    outcome = await self.attempt(body)
                    self._concurrency.record(outcome)
            finally:
                self._budget.settle(reserved, outcome)
            if isinstance(outcome, Answer):
                self._health.record_answer()
                self._cache.record(prefix, outcome)
                queue.end_attempt(call, prefix, outcome)
                outcome = replace(outcome, decoding=self.decoding(call, omitted))
                return CallReply(call_id=call.call_id, outcome=outcome, latency_s=self._clock() - started)
            if self.adapt(outcome.failure, body):
                continue
            refused = refused_parameter(outcome.failure, self.optional_parameters)
            if refused is not None and refused not in omitted:
                self._omit(refused, outcome.failure.message)
                continue
            queue.end_attempt(call, prefix, outcome.failure)
            wait = max(outcome.wait_s or 0.0, backoff_s(call.call_id, attempt))
            if not outcome.is_transient or attempt >= self.spec.retries or wait > LONGEST_WAIT_S:
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
            log.warning("%s refuses %s, which is left out from now on: %s", self.spec.model, parameter, reason)
