"""People next to models: agreement and people's own values, worked out by hand."""

from __future__ import annotations

import pandas as pd
import pytest

from pipelines.benchmarks.people.comparison import agreement_table, light_kappa, parsed_answers, people_table
from pipelines.benchmarks.results import Key
from pipelines.benchmarks.tables import TableValue
from tests.support.report_results import results_of

# Two people on four items: three agree. Each says A twice and B twice, and B thrice: chance agreement is 1/2.
ANN = {"1": "A", "2": "A", "3": "B", "4": "B"}
BOB = {"1": "A", "2": "B", "3": "B", "4": "B"}


def test_agreement_of_two_people_and_of_more() -> None:
    (table,) = agreement_table("x", "X", {"Two": {"ann": ANN, "bob": BOB}, "One": {"ann": ANN}})
    (row,) = table.rows
    people, items, same, kappa, alpha = row.cells
    assert (row.label, people, items, same.value, kappa.value) == ("Two", 2, 4, 0.75, pytest.approx(0.5))
    assert same.low < 0.75 < same.high == 1.0
    assert alpha.value == pytest.approx(1 - 7 * 2 / (64 - 9 - 25))  # labels A3 B5; one pair differs
    # The third agrees with Ann throughout: kappas 0.5, 1 and 0.5.
    assert light_kappa({"ann": ANN, "bob": BOB, "cia": dict(ANN)}) == pytest.approx(2 / 3)
    assert light_kappa({"ann": {"1": "A"}, "bob": {"2": "A"}}) is None


def test_parsed_answers_are_those_of_answered_rows_of_comparable_tasks() -> None:
    frame = pd.DataFrame(
        {
            "task": ["mcq", "mcq", "mcq", "freeform"],
            "setting": "vlm",
            "sample_id": ["1", "2", "3", "1"],
            "variant": "",
            "status": ["ok", "ok", "error", "ok"],
            "answer": ["A", None, None, "free text"],
        }
    )
    assert parsed_answers(frame, {"mcq": "Choices"}) == {
        "Choices": {("mcq", "vlm", "1", ""): "A", ("mcq", "vlm", "2", ""): ""}
    }


def test_people_table_shows_each_persons_values_with_intervals() -> None:
    columns = {"Accuracy": Key("accuracy", "mcq")}
    frame = pd.DataFrame(
        {
            "model": ["m", "human:ann"],
            "task": "mcq",
            "setting": "vlm",
            "subset": "",
            "metric": "accuracy",
            "value": [0.5, 0.75],
            "n": [8, 4],
            "ci_low": [0.2, 0.5],
            "ci_high": [0.8, 1.0],
        }
    )
    (table,) = people_table("vague", "VAGUE", results_of("vague", frame), columns, ["lm", "vlm"])
    assert [(row.label, row.cells) for row in table.rows] == [
        ("ann, vlm", (TableValue(value=0.75, low=0.5, high=1.0, n=4),))
    ]
    assert people_table("vague", "VAGUE", results_of("vague", frame[:1]), columns, ["vlm"]) == []
