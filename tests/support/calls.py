"""Calls and pixels for tests of engines."""

from __future__ import annotations

import numpy as np

from models.messages import Call, Frames, Generation, Media, Part, user

__all__ = ["CLIP", "MEDIA", "OTHER_PICTURE", "PICTURE", "call", "noise"]

PICTURE = Media("image", "1" * 64)
OTHER_PICTURE = Media("image", "2" * 64)
CLIP = Media("video", "3" * 64, 4)


def noise(seed: int, frames: int = 1, height: int = 56, width: int = 84) -> Frames:
    """Return random pixels, equal for equal arguments."""
    pixels = np.random.default_rng(seed).integers(0, 256, (frames, height, width, 3), dtype=np.uint8)
    if frames == 1:
        return Frames(pixels=pixels)
    return Frames(pixels=pixels, seconds=tuple(index / 2 for index in range(frames)), fps=2.0, total_frames=frames)


MEDIA = {PICTURE: noise(1), OTHER_PICTURE: noise(2), CLIP: noise(3, frames=4)}


def call(
    call_id: str, *parts: Part | str, choices: tuple[str, ...] = (), max_new_tokens: int = 8, seed: int = 42
) -> Call:
    """Build a call of one user turn."""
    generation = Generation(max_new_tokens=max_new_tokens, seed=seed)
    return Call(call_id=call_id, turns=(user(*parts),), generation=generation, choices=choices)
