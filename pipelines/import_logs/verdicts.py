"""Compare the verdicts of another harness with ours, row by row, and name what differs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

READERS: Final[Mapping[str, str]] = {
    "evalscope: acc": "takes the letter after `ANSWER:`, or the only one of yes and no",
    "evalscope: accuracy": "takes the letter after `ANSWER:`, else the last capital letter of the reply",
    "evalscope: relaxed_acc": "takes what follows `ANSWER:`, a number within 5%, a text as a whole",
    "evalscope: vqa_score": "compares the whole reply without articles and punctuation, a third for each equal answer",
    "inspect: choice": "takes the letter after `ANSWER:` alone",
    "inspect: exact": "compares the whole reply, in lower case and without punctuation and articles",
    "inspect: includes": "looks for the target anywhere in the reply",
    "inspect: match": "looks for the target at the end of the reply, or at its beginning where it is configured so",
    "inspect: pattern": "takes what a regular expression of the task finds",
    "lm-eval: acc": "takes the option with the highest log-likelihood",
    "lmms-eval: average": "takes a letter in one of ten forms, else the last of A to D anywhere in the reply",
    "lmms-eval: exact_match": "compares the whole reply without articles and punctuation",
    "lmms-eval: mme_perception_score": "takes yes or no from the first four characters",
    "lmms-eval: relaxed_overall": "takes the whole reply as a number within 5%, else as a text",
    "vlmevalkit: eval_score": "compares the whole reply, numbers within 5%",
    "vlmevalkit: hit": "takes the only letter or text of an option in the reply, else asks a judge, else guesses",
    "vlmevalkit: score": "takes yes or no where the reply holds one of them alone",
}
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
