from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator

import pytest

from models.engines.endpoints.event_loop import BackgroundLoop
from models.errors import EngineUnreachableError


@pytest.fixture
def loop() -> Iterator[BackgroundLoop]:
    loop = BackgroundLoop("under test")
    yield loop
    loop.close()


async def double(number: int) -> int:
    await asyncio.sleep(0)
    if number < 0:
        raise ValueError("negative")
    return 2 * number


def one_then_waiting(events: list[str]) -> Callable[[Callable[[int], None]], Coroutine[None, None, None]]:
    """Return a coroutine that puts one item and waits until it is cancelled, which it notes."""

    async def produce(put: Callable[[int], None]) -> None:
        put(1)
        try:
            await asyncio.sleep(60)
        finally:
            events.append("cancelled")

    return produce


def test_run_returns_the_result_or_raises(loop: BackgroundLoop) -> None:
    assert loop.run(double(4)) == 8
    with pytest.raises(ValueError, match="negative"):
        loop.run(double(-1))


def test_coroutines_run_in_one_background_thread(loop: BackgroundLoop) -> None:
    async def where() -> str:
        return threading.current_thread().name

    assert loop.run(where()) == loop.run(where()) == "under test"


def test_stream_yields_items_then_raises_the_error(loop: BackgroundLoop) -> None:
    async def produce(put: Callable[[int], None]) -> None:
        put(1)
        await asyncio.sleep(0)
        put(2)
        raise ValueError("no more")

    items = loop.stream(produce)
    assert [next(items), next(items)] == [1, 2]
    with pytest.raises(ValueError, match="no more"):
        next(items)


def test_stream_closed_early_cancels_its_coroutine(loop: BackgroundLoop) -> None:
    events: list[str] = []
    items = loop.stream(one_then_waiting(events))
    next(items)
    items.close()  # type: ignore[attr-defined]
    assert events == ["cancelled"]


def test_error_of_a_closed_stream_is_not_logged(loop: BackgroundLoop, caplog: pytest.LogCaptureFixture) -> None:
    async def produce(put: Callable[[int], None]) -> None:
        put(1)
        raise ValueError("unseen")

    items = loop.stream(produce)
    next(items)
    items.close()  # type: ignore[attr-defined]
    del items
    loop.close()
    assert caplog.text == ""


def test_close_cancels_then_runs_the_last_coroutine_once(loop: BackgroundLoop) -> None:
    events: list[str] = []

    async def last() -> None:
        events.append("last")

    items = loop.stream(one_then_waiting(events))
    next(items)
    loop.close(last)
    loop.close(last)
    assert events == ["cancelled", "last"]
    assert loop.closed
    with pytest.raises(EngineUnreachableError, match="closed while answers were still running"):
        next(items)
