"""Each scorer gives the scores of the benchmarks' definitions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from pipelines.benchmarks.scorers import SCORER_NAMES, SCORERS, Gold, official
from pipelines.benchmarks.scorers.letters import read_scale
from tests.support.processor_time import LONG_TEXT, assert_not_quadratic

VECTORS = yaml.safe_load((Path(__file__).parent / "vectors.yaml").read_text("utf-8"))


def cases(*names: str) -> list[Any]:
    return [pytest.param(name, *row, id=f"{name}-{row[0]}") for name in names for row in VECTORS[name]]


@pytest.mark.parametrize(("scorer", "reply", "answer", "expected", "facts"), [
    pytest.param(*case.values, *([{}] if len(case.values) == 4 else []), id=case.id)
    for case in cases(*(name for name in VECTORS if name != "judge"))
])  # fmt: skip
def test_reply_has_the_score_of_the_definition(
    scorer: str, reply: str, answer: Any, expected: float, facts: dict[str, Any]
) -> None:
    references = answer if isinstance(answer, list) else [answer]
    if scorer == "letter":
        facts = {"letters": "ABCD", "letter": answer}
    gold = Gold(**{"references": references, **facts})
    assert official(scorer, reply, gold).score == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(("_name", "reply", "scale", "expected"), cases("judge"))
def test_verdict_is_read_on_its_scale(_name: str, reply: str, scale: Any, expected: float | None) -> None:
    read = read_scale(reply, tuple(scale) if isinstance(scale, list) else scale)
    assert (read and read[0]) == expected


def test_every_scorer_has_vectors() -> None:
    assert set(VECTORS) == set(SCORER_NAMES)


def test_overlap_has_further_thresholds() -> None:
    gold = Gold(box=(10, 10, 50, 50), size=(100, 100))
    values = official("iou", "[0.1, 0.1, 0.4, 0.5]", gold).values
    assert values == {"iou": pytest.approx(0.75), "iou_at_0.3": 1, "iou_at_0.7": 1, "iou_at_0.9": 0}


@pytest.mark.parametrize(
    "piece",
    ["\\boxed{", "the answer is A ", "x: 1 ", "<bbox>1 ", "[1, ", "1,000,", "(3", "A. ", "- a's", "\\text{a ", "^ {"],
)
def test_time_is_linear_in_the_reply(piece: str) -> None:
    gold = Gold(references=["cat", "1.5"], letters="ABCD", letter="A", box=(0, 0, 1, 1))
    for scorer in SCORERS:
        assert_not_quadratic(
            lambda text, name=scorer: official(name, text, gold), (piece * LONG_TEXT)[: LONG_TEXT // 4]
        )  # type: ignore[misc]


def test_box_is_the_last_one_that_is_closed() -> None:
    for reply, answer in ((r"\boxed{1} \boxed{2", "1"), (r"\boxed{a{b}c}", "a{b}c"), (r"\boxed{\boxed{1}2}", "1")):
        assert official("latex", reply, Gold(references=[answer])).score == 1, reply
