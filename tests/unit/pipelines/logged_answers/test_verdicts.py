from __future__ import annotations

import pytest

from pipelines.logged_answers.matching import ReadVerdict, difference, reader
from pipelines.logged_answers.readers import verdict


@pytest.mark.parametrize(
    ("ours", "logged", "kind"),
    [
        ((1.0, "B"), (1.0, "B"), None),
        ((1.0, "B"), (None, None), None),
        ((None, "B"), (1.0, "B"), None),
        ((1.0, "B"), (0.6, "B"), "its verdict is partial"),
        ((0.0, None), (1.0, "B"), "it takes an answer where we read none (letter)"),
        ((0.0, "A"), (1.0, "B"), "it reads another answer"),
        ((0.0, "red"), (1.0, "Red"), "it accepts what we count as another answer"),
        ((1.0, "B"), (0.0, None), "it reads no answer where we do (letter)"),
        ((1.0, "B"), (0.0, "A"), "it reads another answer"),
        ((1.0, "7"), (0.0, "7"), "it refuses what we count as the same answer"),
    ],
)
def test_difference_is_named(ours: tuple, logged: tuple, kind: str | None) -> None:
    reading = ReadVerdict(correct=ours[0], answer=ours[1], rule="letter")
    assert difference(reading, ReadVerdict(correct=logged[0], answer=logged[1], rule="x")) == kind


@pytest.mark.parametrize(
    ("value", "expected"),
    [*((text, 1.0) for text in ("C", "True", True, 1, "1", "1.0", "correct")),
     *((text, 0.0) for text in ("I", "N", "false", False, 0, "0.0")),
     *((text, None) for text in (None, "", "yes", 2, -0.1, float("nan"), "nan", 10**400, [1], {"score": 1}, "A")),
     ("P", 0.5), (0.25, 0.25)],
)  # fmt: skip
def test_values_that_are_verdicts(value: object, expected: float | None) -> None:
    assert verdict(value) == expected


def test_readers_are_described() -> None:
    assert reader("inspect: choice") == "takes the letter after `ANSWER:` alone"
    assert reader("lm-eval: strict, exact_match") == "compares what the task's filter takes from the reply"
    assert reader("inspect: mine") == "the task's own reader"
