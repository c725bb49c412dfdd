"""The frame cache decodes each medium once, for any number of concurrent readers."""

import asyncio
from collections.abc import Callable

import numpy as np
import pytest

from models.messages import Frames
from pipelines.media.frame_cache import LocalFrameCache, SharedFrames, frame_cache_bytes


def frames(size: int = 10) -> Frames:
    return Frames(pixels=np.zeros((1, 1, size, 3), np.uint8))


def recording_decoder(decoded: list[str], key: str, size: int = 10) -> Callable[[], Frames]:
    def decode() -> Frames:
        decoded.append(key)
        return frames(size)

    return decode


def test_local_cache_evicts_the_least_recently_used_medium() -> None:
    decoded: list[str] = []
    cache = LocalFrameCache(max_bytes=3 * 30)
    for key in ("a", "b", "a", "c", "a", "d", "a", "b"):
        cache.fetch(key, recording_decoder(decoded, key))
    assert decoded == ["a", "b", "c", "d", "b"]


def test_local_cache_holds_an_oversized_medium_alone() -> None:
    decoded: list[str] = []
    cache = LocalFrameCache(max_bytes=10)
    for key in ("a", "a", "b", "b"):
        cache.fetch(key, recording_decoder(decoded, key))
    assert decoded == ["a", "b"]


def test_one_of_concurrent_readers_decodes_and_the_others_wait() -> None:
    async def scenario() -> list[str]:
        cache = SharedFrames(max_bytes=100)
        assert await cache.claim("a") == ("decode", None)
        waiting = [asyncio.create_task(cache.claim("a")) for _ in range(5)]
        await asyncio.sleep(0.01)
        assert not any(task.done() for task in waiting)
        await cache.put("a", ["pixels"], 30)
        claims = [await task for task in waiting]
        assert all(claim == ("cached", ["pixels"]) for claim in claims)
        assert await cache.counts() == {"decoded": 1, "cached": 5}
        return [state for state, _ in claims]

    assert asyncio.run(scenario()) == ["cached"] * 5


def test_failure_is_cached_and_a_released_claim_can_be_taken() -> None:
    async def scenario() -> None:
        cache = SharedFrames(max_bytes=100)
        assert (await cache.claim("bad"))[0] == "decode"
        await cache.fail("bad", "truncated")
        assert await cache.claim("bad") == ("failed", "truncated")
        assert (await cache.claim("b"))[0] == "decode"
        await cache.release("b")
        assert (await cache.claim("b"))[0] == "decode"

    asyncio.run(scenario())


def test_claim_of_a_dead_process_is_taken_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipelines.media.frame_cache.CLAIM_S", 0.02)

    async def scenario() -> list[str]:
        cache = SharedFrames(max_bytes=100)
        await cache.claim("a")
        second, _ = await asyncio.wait_for(cache.claim("a"), 60)
        await cache.put("a", ["pixels"], 1)  # the first process, late
        third, _ = await cache.claim("a")
        return [second, third]

    assert asyncio.run(scenario()) == ["decode", "cached"]


def test_shared_cache_is_bounded() -> None:
    async def scenario() -> list[str]:
        cache = SharedFrames(max_bytes=100)
        for key in "abcd":
            await cache.claim(key)
            await cache.put(key, [key], 40)
        return [(await cache.claim(key))[0] for key in "cdab"]

    assert asyncio.run(scenario()) == ["cached", "cached", "decode", "decode"]
    assert frame_cache_bytes(1e9) == 100_000_000
    assert frame_cache_bytes(1e12) == 1 << 30
