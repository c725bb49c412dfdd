from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.engines.endpoints.failures import (
    FailedAttempt,
    FailureScope,
    backoff_s,
    classify_status,
    clip,
    error_fields,
    retry_after_s,
)
from models.engines.endpoints.health import STREAK_LIMIT, Health
from models.engines.endpoints.rate_limit import RateLimiter
from models.errors import EngineUnreachableError
from models.messages import Failure
from tests.support.fake_time import FakeTime

API_ADDRESS = "base_url must be the API's address, mostly one ending in /v1"
NOW = 1_800_000_000.0  # Fri, 15 Jan 2027 08:00:00 GMT


@pytest.mark.parametrize("wrap", [lambda e: e, lambda e: {"error": e}, lambda e: [{"error": {"error": e}}]])
def test_error_object_is_found_however_it_is_wrapped(wrap: Callable[[object], object]) -> None:
    assert error_fields(wrap({"code": "insufficient_quota", "error": "text"})) == {
        "code": "insufficient_quota",
        "error": "text",
    }
    assert error_fields("overloaded") == error_fields([]) == {}


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": " 1.5 "}, 1.5),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after-ms": "250", "retry-after": "7"}, 0.25),
        ({"retry-after-ms": "soon", "retry-after": "7"}, 7.0),
        ({"retry-after": "Fri, 15 Jan 2027 08:01:30 GMT"}, 90.0),
        ({"retry-after": "Fri, 15 Jan 2027 08:01:30 -0000"}, 90.0),
        ({"retry-after": "Fri, 15 Jan 2027 09:01:30 +0100"}, 90.0),
        ({"retry-after": "Fri, 15 Jan 2027 07:00:00 GMT"}, 0.0),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "tomorrow"}, None),
        ({"retry-after": ""}, None),
    ],
)
def test_retry_after_is_read_as_seconds_or_date(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_s(headers, NOW) == seconds


@settings(deadline=None)
@given(st.text())
def test_any_retry_after_is_none_or_finite_seconds(value: str) -> None:
    seconds = retry_after_s({"retry-after": value}, NOW)
    assert seconds is None or seconds >= 0


def classify(status: int, body: object = None, text: str = "", headers: dict[str, str] | None = None) -> FailedAttempt:
    return classify_status(status, headers or {}, body=body, text=text, now=NOW)


@pytest.mark.parametrize(
    ("status", "body", "kind", "scope", "is_transient"),
    [
        (400, {"message": "no"}, "http_400", FailureScope.PROMPT, False),
        (400, {"code": "context_length_exceeded"}, "context_length", FailureScope.PROMPT, False),
        (
            400,
            {"message": "This model's maximum context length is 8 tokens"},
            "context_length",
            FailureScope.PROMPT,
            False,
        ),
        (401, {}, "http_401", FailureScope.ENDPOINT, False),
        (402, {}, "http_402", FailureScope.ENDPOINT, False),
        (403, {}, "http_403", FailureScope.ENTRY, False),
        (404, {}, "http_404", FailureScope.ENTRY, False),
        (408, {}, "http_408", FailureScope.ENDPOINT, True),
        (409, {}, "http_409", FailureScope.ENDPOINT, True),
        (413, {}, "http_413", FailureScope.PROMPT, False),
        (422, {}, "http_422", FailureScope.PROMPT, False),
        (429, {}, "http_429", FailureScope.ENDPOINT, True),
        (429, {"code": "insufficient_quota"}, "http_429", FailureScope.ENDPOINT, False),
        (429, {"type": "insufficient_quota"}, "http_429", FailureScope.ENDPOINT, False),
        (500, {}, "http_500", FailureScope.ENDPOINT, True),
        (503, {}, "http_503", FailureScope.ENDPOINT, True),
        (529, {}, "http_529", FailureScope.ENDPOINT, True),
    ],
)
def test_status_is_classified(status: int, body: object, *, kind: str, scope: FailureScope, is_transient: bool) -> None:
    result = classify(status, body)
    assert (result.failure.type, result.scope, result.is_transient) == (kind, scope, is_transient)


@pytest.mark.parametrize(
    ("body", "text", "message"),
    [
        ({"message": "too\n long"}, "ignored", "too long"),
        ({"detail": "not allowed"}, "ignored", "not allowed"),
        ("plain", "Bad gateway", "Bad gateway"),
        (
            "plain",
            '\n<!DOCTYPE HTML>\n<html lang="en"><head><title>502 Bad\nGateway &amp; more</title></head><body></html>',
            f"the server answered with a web page titled '502 Bad Gateway & more'; {API_ADDRESS}",
        ),
        (
            "plain",
            "<html><h1>Welcome",
            f"the server answered with a web page; {API_ADDRESS}",
        ),
        (None, "", "HTTP 500"),
        ({"message": None}, "", "HTTP 500"),
        ([1], "[1]", "[1]"),
    ],
)
def test_error_message_is_found_in_any_field(body: object, text: str, message: str) -> None:
    assert classify(500, body, text).failure.message == message


def test_retry_after_is_read_for_transient_statuses_only() -> None:
    headers = {"retry-after": "9"}
    assert classify(429, {}, headers=headers).wait_s == 9.0
    assert classify(503, {}, headers=headers).wait_s == 9.0
    assert classify(400, {}, headers=headers).wait_s is None


def test_secrets_are_redacted_before_the_message_is_cut() -> None:
    key = "sk-" + "k" * 60
    result = classify_status(
        400,
        {},
        body={"message": "x" * 480 + key},
        text="",
        now=NOW,
        redact=lambda text: text.replace(key, "***"),
    )
    assert "sk-" not in result.failure.message


def test_clip_shortens_to_one_line() -> None:
    assert clip(" a\n\tb ") == "a b"
    assert clip("x" * 600) == "x" * 496 + " ..."


def test_backoff_doubles_up_to_a_limit() -> None:
    for attempt, middle in enumerate([0.5, 1, 2, 4, 8, 16, 30, 30, 30]):
        waits = [backoff_s(f"{index}/0", attempt) for index in range(200)]
        assert all(0.75 * middle <= wait <= 1.25 * middle for wait in waits)
        assert max(waits) - min(waits) > 0.4 * middle


def test_backoff_depends_on_its_arguments_only() -> None:
    assert backoff_s("a/0", 2) == backoff_s("a/0", 2)
    assert backoff_s("a/0", 2) != backoff_s("b/0", 2)
    assert backoff_s("a/0", 100_000) < 40


class TestRateLimiter:
    def turns(self, per_minute: float | None, count: int, hold: tuple[int, float] | None = None) -> list[float]:
        """Return the times at which `count` attempts pass; a pause is requested before the n-th."""
        time = FakeTime(0.0)

        async def run() -> list[float]:
            pacer = RateLimiter(per_minute, time.now, time.sleep)
            passed = []
            for index in range(count):
                if hold is not None and index == hold[0]:
                    pacer.pause(hold[1])
                await pacer.wait_for_turn()
                passed.append(time.now())
            return passed

        return asyncio.run(run())

    def test_a_long_pause_is_logged_once_though_a_short_one_runs(self) -> None:
        pacer = RateLimiter(None, FakeTime(0.0).now)
        assert [pacer.pause(seconds) for seconds in (9.0, 300.0, 300.0, 9.0, 301.0, 600.0)] == [
            False,
            True,
            False,
            False,
            False,
            True,
        ]

    def test_no_limit_means_no_wait(self) -> None:
        assert self.turns(None, 5) == [0.0] * 5

    def test_attempts_are_evenly_spaced(self) -> None:
        assert self.turns(120, 4) == [0.0, 0.5, 1.0, 1.5]

    def test_limit_below_one_per_minute(self) -> None:
        assert self.turns(0.5, 3) == [0.0, 120.0, 240.0]

    def test_pause_delays_all_attempts_and_keeps_the_spacing(self) -> None:
        assert self.turns(60, 4, hold=(2, 10.0)) == [0.0, 1.0, 11.0, 12.0]
        assert self.turns(None, 3, hold=(1, 10.0)) == [0.0, 10.0, 10.0]

    def test_waiting_attempts_queue_again_behind_a_pause(self) -> None:
        time = FakeTime(0.0)
        passed: list[float] = []

        async def run() -> None:
            pacer = RateLimiter(60, time.now, time.sleep)

            async def attempt() -> None:
                await pacer.wait_for_turn()
                passed.append(time.now())
                if len(passed) == 1:
                    await asyncio.sleep(0)  # the others take their turns and wait
                    pacer.pause(30.0)

            await asyncio.gather(*(attempt() for _ in range(4)))

        asyncio.run(run())
        assert passed[0] == 0.0
        assert len(passed) == 4
        assert all(at >= 30.0 for at in passed[1:])


def health() -> Health:
    return Health(lambda what: f"gone: {what}")


def bad(scope: FailureScope, kind: str = "http_500") -> FailedAttempt:
    return FailedAttempt(failure=Failure(type=kind, message="refused"), scope=scope, is_transient=True)


class TestHealth:
    def test_no_connection_makes_the_endpoint_unreachable(self) -> None:
        with pytest.raises(EngineUnreachableError, match=r"gone: no connection in 3 attempts \(connection: refused\)"):
            health().record_failure(bad(FailureScope.NO_CONNECTION, "connection"), answers_before=0, attempts=3)

    def test_answer_meanwhile_keeps_the_endpoint_reachable(self) -> None:
        state = health()
        state.record_answer()
        state.record_failure(bad(FailureScope.NO_CONNECTION), answers_before=0, attempts=3)
        with pytest.raises(EngineUnreachableError):
            state.record_failure(bad(FailureScope.NO_CONNECTION), answers_before=1, attempts=3)

    @pytest.mark.parametrize("scope", [FailureScope.ENDPOINT, FailureScope.ENTRY])
    def test_long_streak_makes_the_endpoint_unreachable(self, scope: FailureScope) -> None:
        state = health()
        for _ in range(STREAK_LIMIT - 1):
            state.record_failure(bad(scope), answers_before=0, attempts=1)
        with pytest.raises(EngineUnreachableError, match=f"no answer to {STREAK_LIMIT} consecutive calls"):
            state.record_failure(bad(scope), answers_before=0, attempts=1)

    def test_answer_resets_the_streak(self) -> None:
        state = health()
        for index in range(5 * STREAK_LIMIT):
            if index % (STREAK_LIMIT - 1) == 0:
                state.record_answer()
            state.record_failure(bad(FailureScope.ENDPOINT), answers_before=state.answers, attempts=1)

    @pytest.mark.parametrize(
        ("scope", "answers"), [(FailureScope.PROMPT, 0), (FailureScope.PROMPT, 1), (FailureScope.ENTRY, 1)]
    )
    def test_failures_of_prompts_never_count(self, scope: FailureScope, answers: int) -> None:
        state = health()
        for _ in range(answers):
            state.record_answer()
        for _ in range(3 * STREAK_LIMIT):
            state.record_failure(bad(scope), answers_before=answers, attempts=1)


@pytest.mark.parametrize(
    ("delay", "seconds"), [("34.07s", 34.07), ("2s", 2.0), ("soon", None), (None, None), ("-1s", None)]
)
def test_pause_that_google_asks_for_is_read_from_the_details(delay: object, seconds: float | None) -> None:
    details = [{"@type": "type.googleapis.com/google.rpc.Help"}, {"@type": "google.rpc.RetryInfo", "retryDelay": delay}]
    body = {"error": {"code": 429, "message": "quota", "details": details}}
    failed = classify_status(429, {}, body=body, text="", now=0.0)
    assert failed.wait_s == seconds
