"""What a log of another harness says about one question."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from pipelines.benchmarks.records import Rejection

_VERDICTS: Final[Mapping[str, float]] = {
    **dict.fromkeys(("C", "CORRECT", "TRUE"), 1.0),
    "P": 0.5,
    **dict.fromkeys(("I", "N", "INCORRECT", "FALSE"), 0.0),
}
"""Words that stand for a verdict: those of Inspect, and what spreadsheets make of a truth value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedAnswer:
    """One answer in a log. What the log does not hold is empty."""

    file: str
    line: str  # where in the file, such as `line 7` or a sample's name
    model: str
    output: str | None  # as the model gave it; None where the request failed
    ids: tuple[str, ...] = ()  # names of the question, the most telling first
    position: str = ""  # its number in the tool's own data set, which is a name only where the question agrees
    question: str = ""  # as in the tool's data set
    prompt: str = ""  # what the model read, in which the question stands
    options: tuple[str, ...] = ()
    target: str = ""  # the tool's right answer
    group: Mapping[str, str] | None = None  # task, setting and variant, in logs that are exports of ours
    excluded: str = ""  # why the question was never sent, in logs that are exports of ours
    their_correct: float | None = None  # the tool's verdict; between 0 and 1 for a partial one
    their_answer: str | None = None  # what its reader took from the output
    their_rule: str = ""  # tool and name of the reader, such as `inspect: choice`


Logged: TypeAlias = LoggedAnswer | Rejection


def verdict(value: Any) -> float | None:
    """Return a value of a log as a verdict; None where it is none, such as a score on another scale."""
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, str):
        return _VERDICTS.get(value.strip().upper(), _number(value))
    return _number(value)


def _number(value: Any) -> float | None:
    try:
        number = float(value) if isinstance(value, int | float | str) else math.nan
    except (ValueError, OverflowError):
        return None
    return number if 0.0 <= number <= 1.0 else None
