from __future__ import annotations

import asyncio
import threading
from email.utils import formatdate

import pytest

from models.engines.endpoints.failures import LONGEST_WAIT_S
from models.errors import EngineUnreachableError
from models.messages import Answer, Failure
from tests.support.endpoint_script import Drop, EndpointRequest, Hang, Say, always
from tests.support.fake_time import FakeTime
from tests.unit.models.engines.endpoints.rig import kinds, many, rig


class TestRetries:
    @pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 529])
    def test_transient_status_is_retried(self, status: int) -> None:
        with rig([{"status": status, "times": 2}, {"say": "A"}]) as at:
            assert isinstance(at.ask_one("Hi"), Answer)
            assert len(at.endpoint.requests) == 3
            assert len({str(request.body) for request in at.endpoint.requests}) == 1
            first, second = at.time.slept
            assert 0.375 <= first <= 0.625
            assert 0.75 <= second <= 1.25

    @pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 413, 422])
    def test_permanent_status_fails_at_once(self, status: int) -> None:
        with rig([{"status": status, "message": "not like this"}]) as at:
            assert at.ask_one("Hi") == Failure(type=f"http_{status}", message="not like this")
            assert len(at.endpoint.requests) == 1
            assert at.time.slept == []

    def test_exhausted_quota_fails_at_once(self) -> None:
        with rig([{"status": 429, "code": "insufficient_quota"}]) as at:
            assert isinstance(at.ask_one("Hi"), Failure)
            assert len(at.endpoint.requests) == 1

    def test_prompt_too_long_is_a_context_length_failure(self) -> None:
        with rig([{"status": 400, "code": "context_length_exceeded"}]) as at:
            outcome = at.ask_one("Hi")
            assert isinstance(outcome, Failure)
            assert outcome.type == "context_length"

    @pytest.mark.parametrize("retries", [0, 1, 4])
    def test_retries_are_limited_by_the_spec(self, retries: int) -> None:
        with rig([{"status": 500, "message": "out of order"}], retries=retries) as at:
            assert at.ask_one("Hi") == Failure(type="http_500", message="out of order")
            assert len(at.endpoint.requests) == retries + 1
            assert len(at.time.slept) == retries

    @pytest.mark.parametrize(
        ("retry_after", "waited"), [("7", 7.0), ("2.5", 2.5), ("DATE", 20.0), ("0", 0.5), ("soon", 0.5)]
    )
    @pytest.mark.parametrize("status", [429, 503])
    def test_retry_after_is_respected(self, status: int, retry_after: str, waited: float) -> None:
        date = formatdate(FakeTime().time + 20.0, usegmt=True)
        rule = {"status": status, "retry_after": date if retry_after == "DATE" else retry_after, "times": 1}
        with rig([rule, {"say": "A"}]) as at:
            assert isinstance(at.ask_one("Hi"), Answer)
            assert sum(at.time.slept) == pytest.approx(waited, rel=0.25 if waited == 0.5 else 1e-6)

    @pytest.mark.parametrize(
        ("retry_after", "refused", "delayed"), [("9", 1, False), ("9", 8, False), ("11", 1, True), ("9", 45, True)]
    )
    def test_pause_is_for_all_where_it_is_long_or_most_are_refused(
        self, retry_after: str, refused: int, delayed: bool
    ) -> None:
        asked_for: list[float] = []
        with rig([{"status": 429, "times": refused, "retry_after": retry_after}, {"say": "A"}], retries=50) as at:
            hold = at.engine._rate_limiter.pause

            def record_pause(seconds: float) -> bool:
                asked_for.append(seconds)
                return hold(seconds)

            at.engine._rate_limiter.pause = record_pause  # type: ignore[method-assign]
            assert kinds(at.ask(*many(12))) == ["answer"] * 12
            assert float(retry_after) in at.time.slept  # the refused request waits in any case
        assert {*asked_for} == ({float(retry_after)} if delayed else set())

    @pytest.mark.parametrize(
        ("seconds", "pause"), [(LONGEST_WAIT_S + 1, "11 min"), (86_400, "1,440 min"), (1e300, "more than a year")]
    )
    def test_retry_after_beyond_the_maximum_fails_and_says_how_long(self, seconds: float, pause: str) -> None:
        with rig([{"status": 429, "retry_after": str(seconds), "message": "come back tomorrow"}]) as at:
            text = f"come back tomorrow; it asks for a pause of {pause}, and a run waits 10 min at most"
            assert at.ask_one("Hi") == Failure(type="http_429", message=text)
            assert len(at.endpoint.requests) == 1
            assert at.time.slept == []

    @pytest.mark.parametrize(("seconds", "lines"), [(9, 0), (300, 2)])
    def test_long_pauses_are_logged_once_each(self, seconds: int, lines: int, caplog: pytest.LogCaptureFixture) -> None:
        rule = {"status": 429, "retry_after": str(seconds), "message": "too many requests", "times": 2}
        with rig([rule, {"say": "A"}], concurrency=1) as at:
            assert kinds(at.ask(*many(3))) == ["answer"] * 3
        text = "scripted: the endpoint asks for a pause of 300 s: too many requests"
        assert [record.getMessage() for record in caplog.records] == [text] * lines

    def test_empty_reply_is_called_so(self) -> None:
        with rig([{"raw": ""}], retries=0) as at:
            outcome = at.ask_one("Hi")
            assert isinstance(outcome, Failure)
            assert outcome.message.endswith("(JSON: Expecting value): it is empty")

    def test_broken_connection_is_retried(self) -> None:
        with rig([{"drop": True, "times": 2}, {"say": "A"}]) as at:
            assert isinstance(at.ask_one("Hi"), Answer)
            assert len(at.time.slept) == 2

    def test_connection_that_always_breaks_fails(self) -> None:
        with rig(lambda _: Drop(), retries=1) as at:
            outcome = at.ask_one("Hi")
            assert isinstance(outcome, Failure)
            assert outcome.type == "connection"
            assert len(at.endpoint.requests) == 2

    def test_missing_reply_is_a_timeout(self) -> None:
        with rig(lambda _: Hang(), retries=1, timeout_s=1.5) as at:
            assert at.ask_one("Hi") == Failure(type="timeout", message="no reply within 1.5 s")
            assert len(at.endpoint.requests) == 2

    def test_timeout_is_retried(self) -> None:
        with rig([{"hang_s": 60, "times": 1}, {"say": "A"}], timeout_s=1.5) as at:
            assert isinstance(at.ask_one("Hi"), Answer)

    def test_failed_call_spares_the_others(self) -> None:
        with rig([{"when": "question 3", "status": 400}, {"say": "A"}]) as at:
            replies = at.ask(*many(8))
            assert kinds(replies) == ["answer"] * 7 + ["http_400"]
            assert {reply.call_id for reply in replies if isinstance(reply.outcome, Failure)} == {"3/0"}


class TestPace:
    @pytest.mark.parametrize("concurrency", [1, 4])
    def test_concurrency_is_limited(self, concurrency: int) -> None:
        together = threading.Barrier(concurrency, timeout=60)

        def script(request: EndpointRequest) -> Say:
            if 0 < request.number <= concurrency:
                together.wait()  # all that may be in flight are, however slow this machine is
            return Say(text="A", delay_s=0.02)

        with rig(script, concurrency=concurrency) as at:
            at.ask_one("Hi")  # the first call is sent alone
            assert len(at.ask(*many(12))) == 12
            assert at.endpoint.most_at_once == concurrency

    def test_requests_per_minute_over_groups_and_retries(self) -> None:
        with rig([{"status": 500, "times": 1}, {"say": "A"}], requests_per_minute=30, concurrency=1) as at:
            at.ask(*many(3))
            at.ask(*many(2))
            # Six tries, 2 s apart; the back-off of 0.5 s falls within.
            assert at.time.time - FakeTime().time == pytest.approx(10.0)
            assert len(at.endpoint.requests) == 6

    def test_replies_are_yielded_as_they_arrive(self) -> None:
        gate = threading.Event()

        def script(request: EndpointRequest) -> str:
            if "question 0" in request.text:
                assert gate.wait(60)
            return "A"

        with rig(script, concurrency=2) as at:
            at.ask_one("Hi")  # the first call is sent alone
            replies = at.engine.generate(many(5), {})
            early = [next(replies).call_id for _ in range(4)]
            gate.set()
            assert "0/0" not in early
            assert [reply.call_id for reply in replies] == ["0/0"]

    def test_iterator_closed_early_sends_no_more(self) -> None:
        with rig([{"when": "question 0", "say": "A"}, {"hang_s": 60}], concurrency=2) as at:
            replies = at.engine.generate(many(50), {})
            assert next(replies).call_id == "0/0"
            replies.close()  # type: ignore[attr-defined]
            at.endpoint.script = always("A")
            assert kinds(at.ask(*many(4))) == ["answer"] * 4
            # At most the first answer and two calls under way when the iterator was closed, then the second group.
            assert len(at.endpoint.requests) <= 3 + 4

    def test_close_cancels_running_calls(self) -> None:
        with rig([{"when": "question 0", "say": "A"}, {"hang_s": 60}], concurrency=2) as at:
            replies = at.engine.generate(many(50), {})
            next(replies)
            at.engine.close()
            with pytest.raises(EngineUnreachableError, match="closed while answers were still running"):
                list(replies)

    def test_close_ends_the_thread(self) -> None:
        before = set(threading.enumerate())
        with rig(always("A")) as at:
            at.ask_one("Hi")
            at.engine.close()
            left = {thread.name for thread in set(threading.enumerate()) - before}
        assert not [name for name in left if name.startswith("endpoint of")]

    def test_engine_works_inside_a_running_loop(self) -> None:
        with rig(always("A")) as at:

            async def inside() -> Answer | Failure:
                return at.ask_one("Hi")

            assert isinstance(asyncio.run(inside()), Answer)
