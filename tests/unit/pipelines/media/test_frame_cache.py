"""A medium is decoded once, whoever asks, however many at a time."""

import asyncio
from collections.abc import Callable

import numpy as np
import pytest

from models.messages import Frames
from pipelines.media.frame_cache import FrameCacheActor, LocalFrameCache, frame_cache_bytes


def frames(size: int = 10) -> Frames:
    return Frames(pixels=np.zeros((1, 1, size, 3), np.uint8))


def counting(made: list[str], key: str, size: int = 10) -> Callable[[], Frames]:
    def decode() -> Frames:
        made.append(key)
        return frames(size)

    return decode


def test_a_process_decodes_once_and_lets_go_of_the_oldest() -> None:
    made: list[str] = []
    kept = LocalFrameCache(most=3 * 30)
    for key in ("a", "b", "a", "c", "a", "d", "a", "b"):
        kept.fetch(key, counting(made, key))
    assert made == ["a", "b", "c", "d", "b"]


def test_one_that_is_too_large_is_kept_alone() -> None:
    made: list[str] = []
    kept = LocalFrameCache(most=10)
    for key in ("a", "a", "b", "b"):
        kept.fetch(key, counting(made, key))
    assert made == ["a", "b"]


def test_of_many_that_ask_one_decodes_and_the_others_wait() -> None:
    async def story() -> list[str]:
        keeper = FrameCacheActor(most=100)
        assert await keeper.claim("a") == ("decode", None)
        waiting = [asyncio.create_task(keeper.claim("a")) for _ in range(5)]
        await asyncio.sleep(0.01)
        assert not any(task.done() for task in waiting)
        await keeper.give("a", ["pixels"], 30)
        found = [await task for task in waiting]
        assert all(one == ("kept", ["pixels"]) for one in found)
        assert await keeper.counts() == {"decoded": 1, "kept": 5}
        return [state for state, _ in found]

    assert asyncio.run(story()) == ["kept"] * 5


def test_a_failure_is_told_to_all_and_a_release_lets_the_next_one_try() -> None:
    async def story() -> None:
        keeper = FrameCacheActor(most=100)
        assert (await keeper.claim("bad"))[0] == "decode"
        await keeper.fail("bad", "truncated")
        assert await keeper.claim("bad") == ("failed", "truncated")
        assert (await keeper.claim("b"))[0] == "decode"
        await keeper.release("b")
        assert (await keeper.claim("b"))[0] == "decode"

    asyncio.run(story())


def test_one_whose_decoder_died_is_taken_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipelines.media.frame_cache.CLAIM_S", 0.02)

    async def story() -> list[str]:
        keeper = FrameCacheActor(most=100)
        await keeper.claim("a")
        second, _ = await asyncio.wait_for(keeper.claim("a"), 60)
        await keeper.give("a", ["pixels"], 1)  # the first one, late
        third, _ = await keeper.claim("a")
        return [second, third]

    assert asyncio.run(story()) == ["decode", "kept"]


def test_what_is_kept_is_bounded() -> None:
    async def story() -> list[str]:
        keeper = FrameCacheActor(most=100)
        for key in "abcd":
            await keeper.claim(key)
            await keeper.give(key, [key], 40)
        return [(await keeper.claim(key))[0] for key in "cdab"]

    assert asyncio.run(story()) == ["kept", "kept", "decode", "decode"]
    assert frame_cache_bytes(1e9) == 100_000_000
    assert frame_cache_bytes(1e12) == 1 << 30
