"""The frames that a loading process keeps in memory; what processes share is in a `ClipFolder`."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

from models.messages import Frames

RECENT_BYTES = 128 << 20


class FrameSource(Protocol):
    """Provides decoded media to a loader."""

    def fetch(self, key: str, decode: Callable[[], Frames]) -> Frames:
        """Return the frames of a key, or decode them (DecodeError)."""


class RecentFrames:
    """Frames that this process has decoded last: units that it loads in a row share pictures and clips."""

    def __init__(self, max_bytes: int = RECENT_BYTES) -> None:
        """Limit the cache to this many bytes; a larger medium is cached alone."""
        self._max_bytes, self._bytes, self._frames = max_bytes, 0, OrderedDict[str, Frames]()

    def fetch(self, key: str, decode: Callable[[], Frames]) -> Frames:
        """Return the frames of a key, as `FrameSource.fetch`."""
        if key not in self._frames:
            self._frames[key] = decode()
            self._bytes += _size(self._frames[key])
        self._frames.move_to_end(key)
        while len(self._frames) > 1 and self._bytes > self._max_bytes:
            self._bytes -= _size(self._frames.popitem(last=False)[1])
        return self._frames[key]


def _size(frames: Frames) -> int:
    return int(frames.pixels.nbytes) + len(frames.encoded or b"")
