"""A guard against parsers whose time grows with the square of their input."""

from __future__ import annotations

import time
from collections.abc import Callable

LONG_TEXT = 200_000
"""Characters of a hostile text."""
_PARTS = 4
# A linear parser takes 4 times as long for 4 times the text, a quadratic one 16 times.
_CLEARLY_LINEAR = 1.5 * _PARTS
_MOST_GROWTH = 2.5 * _PARTS
_NEGLIGIBLE_S = 0.2
_TRIES = 4


def assert_not_quadratic(parse: Callable[[str], object], text: str) -> None:
    """Fail where a parser's processor time for `text` is out of proportion to that for its first quarter.

    Both are measured in turn, several times, and the fastest count: noise slows single runs alone. A parser that is
    fast for the whole text passes at once, and one that is clearly in proportion twice.
    """
    whole = quarter = float("inf")
    for attempt in range(_TRIES):
        whole = min(whole, _processor_seconds(parse, text))
        if whole < _NEGLIGIBLE_S:
            return
        quarter = min(quarter, _processor_seconds(parse, text[: len(text) // _PARTS]))
        if attempt and whole < _CLEARLY_LINEAR * quarter:
            return
    assert whole < _MOST_GROWTH * quarter, f"{whole:.2f} s for {len(text)} characters, {quarter:.2f} s for a quarter"


def _processor_seconds(parse: Callable[[str], object], text: str) -> float:
    started = time.process_time()
    parse(text)
    return time.process_time() - started
