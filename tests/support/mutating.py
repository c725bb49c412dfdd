"""Rows with one defect each: a field dropped, renamed, of another type, too large, nested or null."""

from __future__ import annotations

import copy
import random
from typing import Any, Final

__all__ = ["mutated"]

_ODD: Final[tuple[Any, ...]] = (
    *(None, True, False, 0, -1, 1.5, float("nan"), float("inf"), 10**400, "", " ", "\n", "\x00", "\ud800", "null"),
    *([], {}, [None], [[[]]], {"a": {"b": [1]}}, ["A", "A", "B", "C"], "../../etc/passwd", "x", "A", "1", "[", "{"),
    *("http://127.0.0.1:9/a.png", "http://169.254.169.254/latest/meta-data/", "file:///etc/passwd"),
)
_HUGE: Final = 100_000


def mutated(row: dict[str, Any], number: int) -> dict[str, Any]:
    """Return a copy with one to three random changes; every tenth copy is unchanged."""
    rng = random.Random(number)
    created = copy.deepcopy(row)
    for _ in range(0 if number % 10 == 0 else rng.choice((1, 1, 2, 3))):
        _change(rng, created)
    return created


def _change(rng: random.Random, row: dict[str, Any]) -> None:
    holder, key = _place(rng, row)
    if key is None:
        return
    way = rng.randrange(8)
    if way == 0:
        del holder[key]
    elif way == 1 and isinstance(holder, dict):
        holder[f"{key}_"] = holder.pop(key)
    elif way == 2:
        holder[key] = {"value": holder[key]}
    elif way == 3:
        holder[key] = [holder[key]]
    elif way == 4:
        holder[key] = str(holder[key])
    elif way == 5 and rng.random() < 0.2:
        holder[key] = "word " * (_HUGE // 5)
    else:
        holder[key] = copy.deepcopy(rng.choice(_ODD))


def _place(rng: random.Random, row: dict[str, Any]) -> tuple[Any, Any]:
    """Return a field of the row or of something inside it; the location is None where there is none."""
    holder: Any = row
    while True:
        keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
        if not keys:
            return holder, None
        key = rng.choice(keys)
        if not isinstance(holder[key], dict | list) or rng.random() < 0.3:
            return holder, key
        holder = holder[key]
