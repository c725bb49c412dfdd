"""A guard against parsers whose time grows with the square of their input."""

from __future__ import annotations

import time
from collections.abc import Callable

LONG_TEXT = 200_000
"""Characters of a hostile text."""
_QUADRATIC_S = 10.0
"""A quadratic regular expression takes at least 20 s of processor time for so much text, a linear parser less than one:
the limit measures no speed, and noise does not reach it."""


def assert_not_quadratic(parse: Callable[[], object]) -> None:
    """Run a parser on `LONG_TEXT` characters, and fail where it takes the processor time of a quadratic one."""
    started = time.process_time()
    parse()
    assert time.process_time() - started < _QUADRATIC_S
