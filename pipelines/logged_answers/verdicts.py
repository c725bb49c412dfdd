"""Compare the verdicts of another harness with ours, row by row, and name what differs."""

import csv
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

_FILE: Final = files("pipelines.logged_answers") / "readers.csv"
READERS: Final = {row["rule"]: row["reader"] for row in csv.DictReader(_FILE.read_text("utf-8").splitlines())}
"""How a reader takes an answer, by tool and name. What is not here is the user's own task."""
_FAMILIES: Final = (
    ("lm-eval:", "compares what the task's filter takes from the reply"),
    ("", "the task's own reader"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadVerdict:
    """What a reader took from an output, and its verdict."""

    correct: float | None
    answer: str | None = None
    rule: str = ""


def difference(ours: ReadVerdict, logged: ReadVerdict) -> str | None:
    """Return how another tool's verdict differs from ours, as a rule; None where they agree, or one has none."""
    if ours.correct is None or logged.correct is None or ours.correct == logged.correct:
        return None
    if 0.0 < logged.correct < 1.0:
        return "its verdict is partial"
    if logged.correct > ours.correct:
        if ours.answer is None:
            return f"it takes an answer where we read none ({ours.rule})"
        return "it reads another answer" if _differs(ours, logged) else "it accepts what we count as another answer"
    if not logged.answer:
        return f"it reads no answer where we do ({ours.rule})"
    return "it reads another answer" if _differs(ours, logged) else "it refuses what we count as the same answer"


def _differs(ours: ReadVerdict, logged: ReadVerdict) -> bool:
    """Return whether two readings differ, regardless of case."""
    return (ours.answer or "").casefold().strip() != (logged.answer or "").casefold().strip()


def reader(rule: str) -> str:
    """Return how the reader of a rule takes an answer."""
    if rule in READERS:
        return READERS[rule]
    return next(text for prefix, text in _FAMILIES if rule.startswith(prefix))
