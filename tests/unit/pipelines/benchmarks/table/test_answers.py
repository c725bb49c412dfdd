"""Answers of a table benchmark, read by its kind."""

from __future__ import annotations

import pytest

from pipelines.benchmarks.known_tables import TableDefinition
from pipelines.benchmarks.records import Row, Sample
from pipelines.benchmarks.table.answers import read_answer


@pytest.mark.parametrize(
    ("options", "reply", "letter"),
    [
        (("C", "C++", "C#"), "C++", "B"),
        (("C", "C++", "C#"), "The answer is C#.", "C"),
        (("C", "C++", "C#"), "C", "C"),  # a letter is asked for
        (("2", "3", "4", "5"), "4", "C"),
        (("5", "-5"), "-5", "B"),
        (("+", "-"), "-", "B"),
        (("red", "green", "red and green"), "Red and green", "C"),
        (("red", "red"), "red", None),
    ],
)
def test_a_reply_that_is_the_text_of_an_option_chooses_it(
    options: tuple[str, ...], reply: str, letter: str | None
) -> None:
    sample = Sample(sample_id="a", data={"options": list(options), "gold": 0, "answers": [options[0]]})
    row = Row(
        request_id="r",
        sample=sample,
        model="m",
        task="choice",
        setting="default",
        variant="",
        status="ok",
        output=reply,
    )
    reading = read_answer(TableDefinition(name="t", kind="choice"), row)
    assert reading.answer == letter
    assert reading.values["correct"] == float(letter == "A")


@pytest.mark.parametrize(
    ("raw", "score"),
    [
        ("<think>{3} or {4}</think> {4}", 1.0),
        ("<think>{4}</think> It is 3", 0.0),
        ("<think>{3}</think> 4", 1.0),
        ("{3}, no: {4}", 1.0),
        ("<think>{4}</think>", 0.0),
    ],
)
def test_braces_in_thoughts_hold_no_answer(raw: str, score: float) -> None:
    row = Row(
        request_id="r",
        sample=Sample(sample_id="a", data={"answers": ["4"]}),
        model="m",
        task="text",
        setting="default",
        variant="",
        status="ok",
        output=raw.rpartition("</think>")[2].strip(),
        raw=raw,
    )
    definition = TableDefinition(name="t", kind="text", scorers={"text": "exact-lower"}, extract="braces")
    assert read_answer(definition, row).values["official_score"] == score
