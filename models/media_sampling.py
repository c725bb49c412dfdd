"""Which frames of a clip and how many pixels of a picture a model is shown; the standard library alone."""

import math


def uniform_indices(total: int, count: int | None, shift: int = 0) -> list[int]:
    """Return indices of at most `count` of `total` frames: floor(j (total-1) / (count-1)), first to last.

    One frame is the first; a clip that is no longer than `count`, or no `count`, gives all frames. `shift` moves each
    frame but the last on by so many percent of the distance to the next, one alone by those of the clip. A negative
    `total` or a `count` less than 1 is a `ValueError`.
    """
    if total < 0 or (count is not None and count < 1):
        raise ValueError(f"cannot take {count} of {total} frames; request at least 1 of 0 or more")
    if count is None or total <= count:
        return list(range(total))
    return [min((100 * j + shift) * (total - 1) // (100 * max(count - 1, 1)), total - 1) for j in range(count)]


def shrunk_size(width: int, height: int, max_pixels: int | None) -> tuple[int, int]:
    """Return the largest (width, height) of the same aspect with at most `max_pixels` pixels, never an enlarged one."""
    if not max_pixels or width * height <= max_pixels:
        return width, height
    scale = math.sqrt(max_pixels / (width * height))
    small_width = min(max(1, int(width * scale)), max_pixels)
    # Only a strip thinner than one pixel after scaling is still too large.
    small_height = max(1, min(int(height * scale), max_pixels // small_width))
    return min(small_width, max_pixels // small_height), small_height
