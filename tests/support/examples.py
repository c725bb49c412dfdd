"""Numbers of random inputs: fewer under the profile `few` of `make test-hostile`, which repeats the tests."""

from __future__ import annotations

from hypothesis import settings


def examples(count: int) -> int:
    """Return `count`, in proportion to the examples of Hypothesis's profile."""
    return count * settings.default.max_examples // 100
