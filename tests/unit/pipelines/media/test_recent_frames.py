"""A loading process decodes each recent medium once."""

from collections.abc import Callable

import numpy as np

from models.messages import Frames
from pipelines.media.recent_frames import RecentFrames


def frames(size: int = 10) -> Frames:
    return Frames(pixels=np.zeros((1, 1, size, 3), np.uint8))


def recording_decoder(decoded: list[str], key: str, size: int = 10) -> Callable[[], Frames]:
    def decode() -> Frames:
        decoded.append(key)
        return frames(size)

    return decode


def test_cache_evicts_the_least_recently_used_medium_and_holds_an_oversized_one_alone() -> None:
    decoded: list[str] = []
    cache = RecentFrames(max_bytes=3 * 30)
    for key in ("a", "b", "a", "c", "a", "d", "a", "b"):
        cache.fetch(key, recording_decoder(decoded, key))
    assert decoded == ["a", "b", "c", "d", "b"]
    decoded: list[str] = []
    cache = RecentFrames(max_bytes=10)
    for key in ("a", "a", "b", "b"):
        cache.fetch(key, recording_decoder(decoded, key))
    assert decoded == ["a", "b"]
