"""Numbers of random inputs, in proportion to Hypothesis's profile."""

from __future__ import annotations

from hypothesis import settings


def examples(count: int) -> int:
    """Return `count`, in proportion to the examples of Hypothesis's profile."""
    return count * settings.default.max_examples // 100
