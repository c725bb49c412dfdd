"""A cache of decoded media: each distinct clip and sampling is decoded once in the whole cluster.

A process claims a medium before it decodes it; the others wait and read its pixels from the object store. The least
recently used media are evicted.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any, Protocol

from models.messages import Frames
from pipelines.errors import DecodeError

LOCAL_BYTES = 128 << 20  # pixels cached in one loading process: the units that it loads in a row
SHARED_BYTES = 1 << 30
SHARED_PART = 0.1  # largest share of the object store; the rest is for units in progress
CLAIM_S = 150.0  # longer than both decoders may take; then the claiming process counts as dead


class FrameSource(Protocol):
    """Provides decoded media to a loader."""

    def fetch(self, key: str, decode: Callable[[], Frames], *, shared: bool = True) -> Frames:
        """Return the frames of a key, cached (if `shared`, for all processes), or decode them (DecodeError)."""
        ...


class LocalFrameCache:
    """Caches frames in this process."""

    def __init__(self, max_bytes: int = LOCAL_BYTES) -> None:
        """Limit the cache to this many bytes; a larger medium is cached alone."""
        self._max_bytes, self._bytes, self._frames = max_bytes, 0, OrderedDict[str, Frames]()

    def fetch(self, key: str, decode: Callable[[], Frames], *, shared: bool = True) -> Frames:
        """Return the frames of a key, as `FrameSource.fetch`."""
        del shared
        if key not in self._frames:
            self._frames[key] = decode()
            self._bytes += _size(self._frames[key])
        self._frames.move_to_end(key)
        while len(self._frames) > 1 and self._bytes > self._max_bytes:
            self._bytes -= _size(self._frames.popitem(last=False)[1])
        return self._frames[key]


class SharedFrameCache:
    """Caches frames in this process, and in Ray's object store for all processes."""

    def __init__(self, shared: Any) -> None:
        """Use the job's `SharedFrames`, called through its actor."""
        self._shared, self._local = shared, LocalFrameCache()

    def fetch(self, key: str, decode: Callable[[], Frames], *, shared: bool = True) -> Frames:
        """Return the frames of a key, as `FrameSource.fetch`."""
        return self._local.fetch(key, (lambda: self._fetch_shared(key, decode)) if shared else decode)

    def _fetch_shared(self, key: str, decode: Callable[[], Frames]) -> Frames:
        import ray

        try:
            state, value = self._shared.claim(key)
            if state == "cached":
                frames: Frames = ray.get(value[0])
                return frames
        except ray.exceptions.RayError:  # the process that owned the frames, or the actor, has died
            state, value = "", None
        if state == "failed":
            raise DecodeError(value)
        return self._decode_claimed(key, decode)

    def _decode_claimed(self, key: str, decode: Callable[[], Frames]) -> Frames:
        import ray

        try:
            frames = decode()
        except DecodeError as error:
            self._shared.send(SharedFrames.fail, key, str(error))
            raise
        except BaseException:
            self._shared.send(SharedFrames.release, key)
            raise
        self._shared.send(SharedFrames.put, key, [ray.put(frames)], _size(frames))
        return frames


class SharedFrames:
    """Tracks which process decodes which medium, and references to the frames. One per job, in its actor."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes, self._size = max_bytes, 0
        self._cached: OrderedDict[str, tuple[list[Any], int]] = OrderedDict()
        self._failed: dict[str, str] = {}
        self._claimed: dict[str, asyncio.Event] = {}
        self._counts: Counter[str] = Counter()

    async def claim(self, key: str) -> tuple[str, Any]:
        """Return `cached` with a list of one reference, `failed` with the reason, or `decode` if the caller shall."""
        while True:
            if key in self._cached:
                self._cached.move_to_end(key)
                self._counts["cached"] += 1
                return "cached", self._cached[key][0]
            if key in self._failed:
                return "failed", self._failed[key]
            if key not in self._claimed:
                self._claimed[key] = asyncio.Event()
                self._counts["decoded"] += 1
                return "decode", None
            released = self._claimed[key]
            try:
                await asyncio.wait_for(released.wait(), CLAIM_S)
            except TimeoutError:
                if self._claimed.get(key) is released:
                    await self.release(key)

    async def put(self, key: str, frames: list[Any], size: int) -> None:
        """Cache a reference to frames of this many bytes."""
        await self.release(key)
        if key in self._cached:
            self._size -= self._cached.pop(key)[1]
        self._cached[key] = (frames, size)
        self._size += size
        while len(self._cached) > 1 and self._size > self._max_bytes:
            self._size -= self._cached.popitem(last=False)[1][1]

    async def fail(self, key: str, reason: str) -> None:
        """Record that a medium cannot be decoded."""
        self._failed[key] = reason
        await self.release(key)

    async def release(self, key: str) -> None:
        """Release a claim, so that the next process may decode."""
        released = self._claimed.pop(key, None)
        if released:
            released.set()

    async def counts(self) -> dict[str, int]:
        """Return the numbers of decodings and of cache hits."""
        return dict(self._counts)


def frame_cache_bytes(object_store: float) -> int:
    """Return the size of the shared cache for object stores of this many bytes in total."""
    return int(min(SHARED_BYTES, object_store * SHARED_PART))


def _size(frames: Frames) -> int:
    return int(frames.pixels.nbytes) + len(frames.encoded or b"")
