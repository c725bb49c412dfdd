"""Decoded media kept for units that follow: each distinct clip and sampling is decoded once on the whole cluster.

Units are loaded by many processes side by side. Whoever needs a medium first claims it and decodes it; the others wait
and find its pixels in the object store. What is kept is bounded, and the least recently wanted is let go.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any, Protocol

from models.messages import Frames
from pipelines.errors import DecodeError

LOCAL_BYTES = 128 << 20
"""Pixels that one loading process keeps at hand: those of the units that it loads in a row."""
SHARED_BYTES = 1 << 30
SHARED_PART = 0.1
"""Of the object store, at the most; the rest is for units under way."""
CLAIM_S = 150.0
"""How long others wait for one that decodes: longer than both decoders may take. Then its process is taken for dead."""


class FrameSource(Protocol):
    """Where a loader gets decoded media."""

    def fetch(self, key: str, decode: Callable[[], Frames], *, shared: bool = True) -> Frames:
        """The frames that are kept under a key, else what `decode` makes; not `shared`: nobody else will want them.

        Raises:
            DecodeError: they cannot be decoded.
        """
        ...


class LocalFrameCache:
    """Keeps frames in this process."""

    def __init__(self, most: int = LOCAL_BYTES) -> None:
        """Keep so many bytes at the most; one medium larger than that is kept alone."""
        self._most, self._kept = most, OrderedDict[str, Frames]()

    def fetch(self, key: str, decode: Callable[[], Frames], *, shared: bool = True) -> Frames:
        """See `FrameSource`."""
        del shared
        if key not in self._kept:
            self._kept[key] = decode()
        self._kept.move_to_end(key)
        while len(self._kept) > 1 and sum(_size(kept) for kept in self._kept.values()) > self._most:
            self._kept.popitem(last=False)
        return self._kept[key]


class SharedFrameCache:
    """Keeps frames in this process, and in the object store for all others."""

    def __init__(self, keeper: Any) -> None:
        """Share through a `FrameCacheActor` actor."""
        self._keeper, self._local = keeper, LocalFrameCache()

    def fetch(self, key: str, decode: Callable[[], Frames], *, shared: bool = True) -> Frames:
        """See `FrameSource`."""
        return self._local.fetch(key, (lambda: self._shared(key, decode)) if shared else decode)

    def _shared(self, key: str, decode: Callable[[], Frames]) -> Frames:
        import ray

        try:
            state, found = ray.get(self._keeper.claim.remote(key))
            if state == "kept":
                frames: Frames = ray.get(found[0])
                return frames
        except ray.exceptions.RayError:  # the process that had decoded it, or the keeper, is gone
            state, found = "", None
        if state == "failed":
            raise DecodeError(found)
        return self._decoded(key, decode)

    def _decoded(self, key: str, decode: Callable[[], Frames]) -> Frames:
        import ray

        try:
            frames = decode()
        except DecodeError as error:
            self._keeper.fail.remote(key, str(error))
            raise
        except BaseException:
            self._keeper.release.remote(key)
            raise
        self._keeper.give.remote(key, [ray.put(frames)], _size(frames))
        return frames


class FrameCacheActor:
    """Knows who decodes what, and where the pixels are. An actor: one for a run."""

    def __init__(self, most: int) -> None:
        """Keep so many bytes of pixels at the most."""
        self._most, self._size = most, 0
        self._kept: OrderedDict[str, tuple[list[Any], int]] = OrderedDict()
        self._failed: dict[str, str] = {}
        self._claimed: dict[str, asyncio.Event] = {}
        self._counts: Counter[str] = Counter()

    async def claim(self, key: str) -> tuple[str, Any]:
        """`kept` with a list of one reference, `failed` with the reason, or `decode`: the caller shall do it."""
        while True:
            if key in self._kept:
                self._kept.move_to_end(key)
                self._counts["kept"] += 1
                return "kept", self._kept[key][0]
            if key in self._failed:
                return "failed", self._failed[key]
            if key not in self._claimed:
                self._claimed[key] = asyncio.Event()
                self._counts["decoded"] += 1
                return "decode", None
            waited = self._claimed[key]
            try:
                await asyncio.wait_for(waited.wait(), CLAIM_S)
            except TimeoutError:
                if self._claimed.get(key) is waited:
                    await self.release(key)

    async def give(self, key: str, frames: list[Any], size: int) -> None:
        """Keep a reference to frames of so many bytes."""
        await self.release(key)
        if key in self._kept:
            self._size -= self._kept.pop(key)[1]
        self._kept[key] = (frames, size)
        self._size += size
        while len(self._kept) > 1 and self._size > self._most:
            self._size -= self._kept.popitem(last=False)[1][1]

    async def fail(self, key: str, reason: str) -> None:
        """Remember that a medium cannot be decoded."""
        self._failed[key] = reason
        await self.release(key)

    async def release(self, key: str) -> None:
        """Let the next one try."""
        claimed = self._claimed.pop(key, None)
        if claimed:
            claimed.set()

    async def counts(self) -> dict[str, int]:
        """How often a medium was to be decoded, and how often it was found."""
        return dict(self._counts)


def frame_cache_bytes(object_store: float) -> int:
    """Bytes of pixels that may be kept in object stores of so many bytes."""
    return int(min(SHARED_BYTES, object_store * SHARED_PART))


def _size(frames: Frames) -> int:
    return int(frames.pixels.nbytes) + len(frames.encoded or b"")
