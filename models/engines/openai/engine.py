"""Models behind any OpenAI-compatible `/chat/completions`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pydantic import BaseModel, Field, ValidationError

from models.engines.openai.budget import Budget
from models.engines.openai.event_loop import BackgroundLoop
from models.engines.openai.failures import (
    LONGEST_WAIT_S,
    FailedAttempt,
    FailureScope,
    backoff_s,
    classify_status,
    clipped,
    is_content_filter,
)
from models.engines.openai.health import Health
from models.engines.openai.messages import data_uris, messages
from models.engines.openai.rate_limit import AdaptiveConcurrency, RateLimiter
from models.environment import secret
from models.messages import Answer, Call, CallReply, Failure, Frames, Media, decoding_name
from models.spec import ModelSpec

if TYPE_CHECKING:
    import openai

_NO_KEY = "no-key"
"""Sent where the model names no key: never None, which makes the client send OPENAI_API_KEY to whoever is asked."""

_UNSCORED = Failure(
    type="unsupported",
    message="an endpoint tells no log-probabilities of given texts; ask a model with `engine: transformers`",
)


class OpenAIEngine:
    """Answers calls over HTTP, many at a time, in a thread of its own.

    Sent are the messages, `temperature`, `seed` (but for `omit_parameters`) and the limit of tokens. The limit goes by
    the name `max_tokens`, which every compatible server knows; one that refuses it and names `max_completion_tokens`
    is told so from then on. There is no beam search at an endpoint: `num_beams` is not sent.

    A 408, 409, 429 or 5xx, a timeout, a broken connection and a reply that is no chat completion are tried again
    `retries` times, fewer at a time after each 429, with exponential back-off and never before the endpoint's
    Retry-After has passed; after that, and at once for every other status, the call is a `Failure`: `http_<status>`,
    `context_length`, `timeout`, `connection` or `bad_reply`. A prompt or answer that the endpoint's content filter
    stopped is an answer, by whatever status it is told. Calls beyond `cost_limit` are not sent and fail with
    `cost_limit`. `Health` says when the whole endpoint counts as unreachable instead.
    """

    warnings: tuple[str, ...] = ()
    has_own_timeout = True
    """Each attempt has its `timeout_s`."""

    def __init__(
        self,
        spec: ModelSpec,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Read the key and start the thread; nothing is sent yet.

        Args:
            spec: the model; `base_url` is given.
            clock: seconds, for pace and latency.
            now: Unix time, for dates in Retry-After.
            sleep: waits so many seconds.

        Raises:
            MissingSecretError: `api_key_env` names a variable that holds no key.
        """
        self._spec = spec
        self._clock, self._now, self._sleep = clock, now, sleep
        self._key = secret(spec.api_key_env, model=spec.model) if spec.api_key_env else None
        self._limit_name = "max_tokens"
        self._pacer = RateLimiter(spec.requests_per_minute, clock, sleep)
        self._window = AdaptiveConcurrency(spec.concurrency)
        self._purse = Budget(spec.price, spec.cost_limit)
        self._health = Health(self._unreachable)
        self._client = self._make_client()
        # Looked up here: the client imports this part of itself on first use, and no try shall pay for that.
        self._create = self._client.chat.completions.with_raw_response.create
        self._loop = BackgroundLoop(f"endpoint of {spec.model}")

    def generate(self, calls: Sequence[Call], media: Mapping[Media, Frames]) -> Iterator[CallReply]:
        """Yield one reply for each call as it comes; an iterator closed early cancels the rest.

        Raises:
            EngineUnreachableError: the endpoint as a whole gives no answers (see `Health`).
        """
        if not calls:
            return
        wanted = dict.fromkeys(part for call in calls for part in call.media)
        pictures = {part: data_uris(part, media[part], self._spec.limits) for part in wanted}

        async def produce(put: Callable[[CallReply], None]) -> None:
            await self._answer_all(calls, pictures, put)

        yield from self._loop.stream(produce)

    @property
    def spent(self) -> float:
        """Dollars for the answers so far, by `price`; 0 without one."""
        return self._purse.spent

    def close(self) -> None:
        """Cancel what is under way, close the connections, end the thread."""
        self._loop.close(self._client.close)

    def _make_client(self) -> openai.AsyncOpenAI:
        import openai

        # One try has `timeout_s` in all, kept in `_try`; a connection that is slow to open shall still be told apart.
        timeout = openai.Timeout(None, connect=min(10.0, self._spec.timeout_s / 2))
        client = openai.AsyncOpenAI(
            api_key=self._key.get_secret_value() if self._key else _NO_KEY,
            base_url=self._spec.base_url,
            timeout=timeout,
            max_retries=0,
        )
        # Taken from the environment by the client; what is sent shall hang on the models file alone.
        client.organization = client.project = None
        return client

    async def _answer_all(
        self, calls: Sequence[Call], pictures: Mapping[Media, Sequence[str]], put: Callable[[CallReply], None]
    ) -> None:
        waiting = iter(calls)

        async def work() -> None:
            for call in waiting:
                put(await self._answer(call, pictures))

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(self._spec.concurrency, len(calls))):
                    group.create_task(work())
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None

    async def _answer(self, call: Call, pictures: Mapping[Media, Sequence[str]]) -> CallReply:
        if call.scored:
            return CallReply(call_id=call.call_id, outcome=_UNSCORED)
        shown = messages(call, pictures, self._spec.system)
        answers_before = self._health.answers
        attempt = 0
        while True:
            lent = await self._purse.lend(shown, call.generation.max_new_tokens)
            if lent is None:
                return CallReply(call_id=call.call_id, outcome=self._purse.failure())
            outcome: Answer | FailedAttempt | None = None
            limit_name = self._limit_name
            try:
                async with self._window:
                    await self._pacer.turn()
                    started = self._clock()
                    outcome = await self._try(self._body(call, shown, limit_name))
                    self._window.told(outcome)
            finally:
                self._purse.settle(lent, outcome)
            if isinstance(outcome, Answer):
                self._health.answered()
                outcome = replace(outcome, decoding=decoding_name(call.generation, beams=False))
                return CallReply(call_id=call.call_id, outcome=outcome, latency_s=self._clock() - started)
            if limit_name == "max_tokens" and _wants_other_limit(outcome.failure):
                self._limit_name = "max_completion_tokens"
                continue
            wait = max(outcome.wait_s or 0.0, backoff_s(call.call_id, attempt))
            if not outcome.may_pass or attempt >= self._spec.retries or wait > LONGEST_WAIT_S:
                break
            if outcome.wait_s:
                self._pacer.hold(outcome.wait_s)
            await self._sleep(wait)
            attempt += 1
        self._health.missed(outcome, answers_before, attempt + 1)
        latency = self._clock() - started
        return CallReply(call_id=call.call_id, outcome=outcome.failure, latency_s=latency)

    def _body(self, call: Call, shown: Sequence[Mapping[str, Any]], limit_name: str) -> dict[str, Any]:
        drawn = {"temperature": call.generation.temperature, "seed": call.generation.seed}
        for name in self._spec.omit_parameters:
            del drawn[name]
        return {
            "model": self._spec.model,
            "messages": shown,
            limit_name: call.generation.max_new_tokens,
            **drawn,
        }

    async def _try(self, body: Mapping[str, Any]) -> Answer | FailedAttempt:
        """Ask once."""
        import openai

        try:
            async with asyncio.timeout(self._spec.timeout_s):
                reply = await self._create(**body)
        except openai.APIStatusError as error:
            return self._told_off(error)
        except (TimeoutError, openai.APITimeoutError) as error:
            if _never_connected(error):
                return _broken("connection", "no connection in time", FailureScope.NO_CONNECTION)
            return _broken("timeout", f"no reply within {self._spec.timeout_s:g} s")
        except openai.APIConnectionError as error:
            blame = FailureScope.NO_CONNECTION if _never_connected(error) else FailureScope.ENDPOINT
            cause = error.__cause__ or error
            return _broken("connection", self._safe(f"{type(cause).__name__}: {cause}"), blame)
        return self._read(reply.content)

    def _told_off(self, error: openai.APIStatusError) -> Answer | FailedAttempt:
        if is_content_filter(error.body):
            return Answer(text="", finish_reason="content_filter")
        return classify_status(
            error.status_code,
            {name.lower(): value for name, value in error.response.headers.items()},
            body=error.body,
            text=error.response.text,
            now=self._now(),
            hide=self._safe,
        )

    def _read(self, content: bytes) -> Answer | FailedAttempt:
        try:
            reply = _Completion.model_validate_json(content)
        except ValidationError as error:
            start = clipped(self._safe(content.decode("utf-8", "replace")), 200)
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(key) for key in first["loc"])
            return _broken("bad_reply", f"the reply is no chat completion ({where or 'JSON'}: {first['msg']}): {start}")
        return reply.answer()

    def _safe(self, text: str) -> str:
        """Text without the key: endpoints have been seen to quote it."""
        return text.replace(self._key.get_secret_value(), "***") if self._key else text

    def _unreachable(self, what: str) -> str:
        address = urlsplit(str(self._spec.base_url))
        base_url = f"{address.scheme}://{address.netloc}{address.path}"
        key = (
            f"that {self._spec.api_key_env} holds a valid key with quota left"
            if self._spec.api_key_env
            else "whether it wants a key (api_key_env)"
        )
        return (
            f"model {self._spec.model!r} at {base_url} cannot be had: {what}. Check that base_url is right and the "
            f"endpoint runs and can be reached from here, that it serves a model of this name, and {key}"
        )


def _wants_other_limit(failure: Failure) -> bool:
    return failure.type == "http_400" and "max_completion_tokens" in failure.message


def _never_connected(error: BaseException) -> bool:
    # By name: the client runs on httpx or on httpx2, by its version.
    return type(error.__cause__).__name__ in ("ConnectError", "ConnectTimeout")


def _broken(kind: str, message: str, blame: FailureScope = FailureScope.ENDPOINT) -> FailedAttempt:
    return FailedAttempt(failure=Failure(type=kind, message=message), blame=blame, may_pass=True)


class _TextPart(BaseModel):
    text: str = ""


class _Message(BaseModel):
    content: str | list[_TextPart] | None = None
    refusal: str | None = None


class _Choice(BaseModel):
    message: _Message
    finish_reason: str | None = None


class _Details(BaseModel):
    cached_tokens: int | None = None


class _Usage(BaseModel):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None


class _Completion(BaseModel):
    """What is read of a chat completion; all else is let pass, for servers add and leave out as they like."""

    choices: list[_Choice] = Field(min_length=1)
    usage: _Usage | None = None

    def answer(self) -> Answer:
        """The first choice. Null content is an empty answer, and a refusal in words is an answer."""
        choice, usage = self.choices[0], self.usage or _Usage()
        content = choice.message.content
        if isinstance(content, list):
            content = "".join(part.text for part in content)
        details = usage.prompt_tokens_details or _Details()
        return Answer(
            text=content or choice.message.refusal or "",
            finish_reason=choice.finish_reason or "stop",
            input_tokens=usage.prompt_tokens or 0,
            output_tokens=usage.completion_tokens or 0,
            cached_tokens=details.cached_tokens or 0,
        )
