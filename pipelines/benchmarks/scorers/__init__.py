"""Scorers by name, as the scoring scripts of benchmarks define them: own code, after their definitions.

A scorer takes a reply and the right answer of its row, and returns a score from 0 to 1. `judge` is not here: its score
is a judge's reply on a scale (`letters.read_scale`).
"""

from collections.abc import Mapping
from typing import Final

from pipelines.benchmarks.scorers import boxes, letters, numbers, texts
from pipelines.benchmarks.scorers.records import Gold, Scored, Scorer

JUDGE: Final = "judge"
SCORERS: Final[Mapping[str, Scorer]] = {
    "letter": letters.letter,
    "exact": texts.exact,
    "exact-lower": texts.exact_lower,
    "contains": texts.contains,
    "anls": texts.anls,
    "vqa": texts.vqa,
    "relaxed": numbers.relaxed,
    "latex": numbers.latex,
    "last-number": numbers.last_number,
    "yes-no-first": letters.yes_no_first,
    "iou": boxes.iou,
    "point": boxes.point,
}
SCORER_NAMES: Final = (*SCORERS, JUDGE)


def answer_part(reply: str) -> str:
    """Return a reply without what precedes the last `</think>`, and without blanks at its ends."""
    return reply.rpartition("</think>")[2].strip()


def official(scorer: str, reply: str, gold: Gold) -> Scored:
    """Score a reply by name; what precedes the last `</think>` is no part of it, and an empty one scores 0."""
    text = answer_part(reply)
    scored = SCORERS[scorer](text, gold)
    return scored if text else Scored(0.0, None, dict.fromkeys(scored.values, 0.0))
