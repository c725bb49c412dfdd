"""429 storms, broken and slow replies, refusals, cost: every call ends once, within the rate limit."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import threading
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from pydantic import ValidationError

from models.engines.endpoints.failures import FailedAttempt, FailureScope
from models.engines.endpoints.pictures import data_uris
from models.engines.endpoints.rate_limit import Window
from models.entry_fields import Limits
from models.messages import Answer, Failure, Frames, Media
from models.spec import ModelSpec
from tests.support.endpoint_script import EndpointRequest, Half, Raw, Say, Status
from tests.support.fake_time import FakeTime
from tests.support.storm import figures
from tests.unit.models.engines.endpoints.rig import kinds, many, rig

PRICE = {"input_per_million": 1_000_000.0, "output_per_million": 1_000_000.0}
"""A dollar a token."""
TOO_MANY = FailedAttempt(failure=Failure(type="http_429", message=""), scope=FailureScope.ENDPOINT, is_transient=True)


@pytest.mark.full
def test_storm_of_429s_loses_no_call() -> None:
    storms = (range(40, 50), range(150, 160))
    result = figures(300, 2400, storms=storms)
    assert result["rows"] == result["distinct"] == 300
    assert result["kinds"] == {"ok": 299, "http_400": 1}
    assert result["filtered"] == 2
    assert result["wrong"] == 0
    # 302 answers at the most: an answered call is repeated only if its answer came too late
    assert result["billed"] <= 300 + 2
    assert result["tries"] >= 300 + 20
    # Short refusals hold back their own calls alone. A machine that had much else to do meanwhile is tried again.
    shares = [result["share_between_storms"]]
    while not 0.9 <= shares[-1] <= 1.05 and len(shares) < 6:
        shares.append(figures(300, 2400, storms=storms)["share_between_storms"])
    assert 0.9 <= shares[-1] <= 1.05, shares


class Drive:
    """A window driven in rounds: all calls that it lets pass are answered together."""

    def __init__(self, start: int, most: int, answers: Callable[[int], tuple[int, float]]) -> None:
        """`answers` says for a number in flight how many of these are answered, and after how many seconds."""
        self.time, self.answers = FakeTime(), answers
        self.window = Window(start, most, self.time.now)

    def widths(self, rounds: int) -> list[int]:
        return asyncio.run(self._widths(rounds))

    async def _widths(self, rounds: int) -> list[int]:
        widths, more = [], [asyncio.create_task(self.window.enter()) for _ in range(20_000)]
        await asyncio.sleep(0)
        for _ in range(rounds):
            flying = [task.result() for task in more if task.done()]
            more = [task for task in more if not task.done()]
            widths.append(len(flying))
            count, seconds = self.answers(len(flying))
            self.time.time += seconds
            for place, number in enumerate(flying):
                self.window.record(number, Answer(text="") if place < count else TOO_MANY, seconds)
                self.window.leave()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        for task in more:
            task.cancel()
        return widths


def test_window_grows_where_a_server_answers_all_as_fast() -> None:
    widths = Drive(16, 256, lambda flying: (flying, 5.0)).widths(12)
    assert widths == sorted(widths)
    assert widths[0] == 16
    assert widths[6] >= 64
    assert widths[-1] == 256


def test_window_stays_where_a_server_is_busy() -> None:
    """One that answers 32 a second takes longer for more, which are no faster."""
    widths = Drive(16, 256, lambda flying: (flying, max(1.0, flying / 32))).widths(40)
    assert 32 <= max(widths) <= 80


def test_window_that_was_given_does_not_grow() -> None:
    assert {*Drive(8, 8, lambda flying: (flying, 1.0)).widths(50)} == {8}


def test_window_halves_once_per_burst_and_recovers() -> None:
    drive = Drive(64, 64, lambda flying: (min(flying, 20), 0.1))
    widths = drive.widths(60)
    assert widths[:3] == [64, 32, 16]
    assert 10 <= min(widths[3:]) < max(widths[3:]) <= 28
    assert sum(max(0, width - 20) for width in widths) < 0.2 * sum(widths)


def test_single_refusals_do_not_narrow_the_window() -> None:
    drive, rounds = Drive(64, 64, lambda flying: (flying - 3, 0.1)), 50
    assert min(drive.widths(rounds)) == 64


@given(st.lists(st.booleans(), max_size=60), st.integers(1, 8))
def test_concurrency_limit_holds_and_no_attempt_starves(storm: list[bool], most: int) -> None:
    async def scene() -> int:
        window, out, highest = Window(most, most, FakeTime().now), 0, 0

        async def attempt(*, bad: bool) -> None:
            nonlocal out, highest
            number = await window.enter()
            out += 1
            highest = max(highest, out)
            await asyncio.sleep(0)
            window.record(number, TOO_MANY if bad else Answer(text=""))
            out -= 1
            window.leave()

        await asyncio.wait_for(asyncio.gather(*(attempt(bad=bad) for bad in storm)), 10)
        return highest

    assert asyncio.run(scene()) <= most


def test_cancelled_wait_passes_its_slot_on() -> None:
    async def scene() -> None:
        window = Window(1, 1, FakeTime().now)
        await window.enter()
        first, second = (asyncio.create_task(window.enter()) for _ in range(2))
        await asyncio.sleep(0)
        window.leave()
        first.cancel()
        await asyncio.wait_for(second, 5)

    asyncio.run(scene())


def test_earlier_units_are_sent_first() -> None:
    async def scene() -> list[int]:
        window, order = Window(1, 1, FakeTime().now), list[int]()

        async def attempt(unit: int) -> None:
            await window.enter(unit)
            order.append(unit)
            window.leave()

        await window.enter()
        tasks = [asyncio.create_task(attempt(unit)) for unit in (3, 1, 2, 1)]
        await asyncio.sleep(0)
        window.leave()
        await asyncio.gather(*tasks)
        return order

    assert asyncio.run(scene()) == [1, 1, 2, 3]


@pytest.mark.parametrize("concurrency", [{}, {"concurrency": 1}])
def test_server_that_takes_one_call_at_a_time_gets_all_of_them(concurrency: dict[str, int]) -> None:
    busy = threading.Lock()

    def script(request: EndpointRequest) -> Say | Status:
        if not busy.acquire(blocking=False):
            return Status(status=429)
        try:
            threading.Event().wait(0.01)
            return Say(text="A")
        finally:
            busy.release()

    with rig(script, retries=50, **concurrency) as at:
        replies = at.ask(*many(40))
        assert kinds(replies) == ["answer"] * 40
        assert len({reply.call_id for reply in replies}) == 40
        assert at.engine._window.limit <= 4


def test_truncated_reply_is_retried() -> None:
    with rig(lambda request: Half() if request.number == 0 else Say(text="A")) as at:
        answer = at.ask_one("x")
        assert isinstance(answer, Answer)
        assert len(at.endpoint.requests) == 2


@pytest.mark.parametrize("code", ["content_filter", "content_policy_violation"])
def test_filtered_prompt_is_an_answer(code: str) -> None:
    with rig(lambda _: Status(status=400, code=code)) as at:
        assert at.ask_one("x") == Answer(text="", finish_reason="content_filter", decoding="greedy")


def test_no_call_is_sent_beyond_the_cost_limit() -> None:
    with rig(lambda _: Say(text="a b c"), price=PRICE, cost_limit=60.0, concurrency=1) as at:
        replies = at.ask(*many(40))
        outcomes = kinds(replies)
        spent = at.engine.spent
    assert outcomes.count("cost_limit") + outcomes.count("answer") == 40
    assert len(at.endpoint.requests) == outcomes.count("answer") == 12  # five tokens each: two read, three written
    assert spent == 60.0


def test_cost_in_flight_counts_against_the_limit() -> None:
    together = threading.Barrier(3, timeout=60)

    def script(request: EndpointRequest) -> Say:
        if 0 < request.number <= 3:  # the first call is sent alone
            together.wait()
        return Say(text="a", delay_s=0.1)

    with rig(script, price=PRICE, cost_limit=100.0, concurrency=32) as at:
        kinds(at.ask(*many(64)))
        # one call more at the most: three tokens
        assert 100.0 <= at.engine.spent <= 103.0
        assert at.endpoint.most_at_once > 2


def test_cost_limit_requires_a_price() -> None:
    with pytest.raises(ValidationError, match="needs `price`"):
        ModelSpec(engine="openai", model="m", base_url="http://x", cost_limit=1.0)


@pytest.mark.parametrize("most", [3_000, 20_000, 200_000])
def test_picture_above_the_byte_limit_is_shrunk_with_its_aspect(most: int) -> None:
    rng = np.random.default_rng(1)
    pixels = rng.integers(0, 255, (1, 300, 600, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels[0]).save(file, "PNG")
    media = Media("image", "x")
    frames = Frames(pixels=pixels, encoded=file.getvalue())
    (shown,) = data_uris(media, frames, Limits(max_image_bytes=most))
    data = base64.b64decode(shown.partition(",")[2])
    assert len(data) <= most
    width, height = Image.open(io.BytesIO(data)).size
    assert width / height == pytest.approx(2, rel=0.06)
    (untouched,) = data_uris(media, frames, Limits(max_image_bytes=len(file.getvalue())))
    assert base64.b64decode(untouched.partition(",")[2]) == file.getvalue()


@pytest.mark.parametrize(
    "usage",
    [
        {},
        {"usage": None},
        {"usage": {"prompt_tokens": -10, "completion_tokens": -2}},
        {"usage": {"prompt_tokens": float("nan"), "completion_tokens": 2}},
        {"usage": {"prompt_tokens": 10**30, "completion_tokens": 10**30}},
        {"usage": "many"},
    ],
    ids=str,
)
def test_cost_limit_counts_what_was_reserved_for_replies_without_token_counts(usage: dict[str, object]) -> None:
    choice = {"index": 0, "message": {"role": "assistant", "content": "A"}, "finish_reason": "stop"}
    reply = Raw(json.dumps({"model": "scripted", "choices": [choice], **usage}).encode())
    with rig(lambda _: reply, price=PRICE, cost_limit=30.0, concurrency=1) as at:
        replies = at.ask(*many(8))
        answers = [reply.outcome for reply in replies if isinstance(reply.outcome, Answer)]
        sent, spent, warnings = len(at.endpoint.requests), at.engine.spent, at.engine.warnings
    assert kinds(replies).count("cost_limit") == 8 - sent
    assert 0 < sent < 8
    assert all(not answer.is_counted and answer.input_tokens == 0 for answer in answers)
    assert spent == pytest.approx(sum(answer.reserved_dollars or 0.0 for answer in answers))
    assert spent >= 30.0
    assert warnings == ("scripted: replies have no readable counts of tokens; with a price, their cost is estimated",)
