"""What a stress test says of planted models: one takes the first option, one does not look where options stand."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from jobs.analysis.stress.changes import Estimate, StressResult, stress_json, stress_results, with_holm
from jobs.analysis.stress.section import section_of

ROWS = 120
PLACES = {"": 0, "order-1": 2, "letters-1": 0}
"""Where the option stands that was first; every third right option is not the first."""


def rows(answer: Callable[[int, str], tuple[bool, str]]) -> pd.DataFrame:
    lines = [
        ("mcq", "vlm", f"q{n}", "", f"c{n}", condition, *answer(n, condition))
        for condition in PLACES
        for n in range(ROWS)
    ]
    columns = ["task", "setting", "sample_id", "variant", "cluster", "condition", "right", "chosen"]
    return pd.DataFrame(lines, columns=columns).astype({"right": np.float64})


def first(n: int, condition: str) -> tuple[bool, str]:
    """Take what stands first: right in nine of ten, wrong as soon as the options move."""
    moved = condition == "order-1"
    return (n % 10 > 0) != moved, "other" if moved else "first"


def looks(n: int, condition: str) -> tuple[bool, str]:
    """Answer by the text: right in three of four, wherever it stands."""
    return n % 4 > 0, f"text {n % 4 > 0}"


def half(n: int, condition: str) -> tuple[bool, str]:
    return n % 2 > 0, "text"


P03 = Estimate(value=0.1, p=0.03)


@pytest.fixture(scope="module")
def results() -> dict[str, StressResult]:
    frames = {name: rows(answer) for name, answer in (("first", first), ("looks", looks), ("guess", half))}
    return {result.condition: result for result in stress_results("vague", frames, frozenset({"guess"}))}


def test_taking_the_first_option_flips_under_order_and_the_ranking_with_it(results: dict[str, StressResult]) -> None:
    order = results["order-1"]
    changes = {row.model: row for row in order.models}
    assert (changes["first"].before, changes["first"].after) == (0.9, pytest.approx(0.1))
    assert (changes["first"].to_wrong, changes["first"].to_right) == (108, 12)
    assert (changes["first"].moved.value, changes["first"].n) == (1.0, 120)
    assert changes["first"].change.value == pytest.approx(-0.8)
    assert changes["first"].change.p is not None
    assert changes["first"].change.p < 1e-3
    (pair,) = order.pairs
    assert (pair.model_b, pair.model_a) == ("first", "looks")
    assert (pair.before.value, pair.after.value) == (pytest.approx(0.15), pytest.approx(-0.65))
    assert pair.shift.value == pytest.approx(-0.8)
    assert (pair.is_swapped, pair.is_beyond_chance, pair.outcome) == (True, True, "reversed")
    assert order.conclusion == "of 1: 1 swapped (1 beyond chance), 1 reversed"


def test_looking_flips_nothing_and_means_leave_out_those_that_guess(results: dict[str, StressResult]) -> None:
    (looking,) = (row for row in results["order-1"].models if row.model == "looks")
    assert (looking.change.value, looking.to_wrong, looking.to_right, looking.change.p) == (0, 0, 0, 1)
    assert looking.change.ci_low is not None
    assert -0.1 < looking.change.ci_low < 0
    letters = results["letters-1"]
    assert (letters.change.value, letters.swapped, letters.pairs[0].outcome) == (0, 0, "kept")
    assert letters.conclusion == "of 1: nothing flips"
    assert {row.model for row in results["order-1"].models} == {"first", "looks", "guess"}
    assert results["order-1"].change.value == pytest.approx(-0.4)
    moved = results["order-1"].moved
    assert moved.value == 0.5
    assert moved.ci_low is not None
    assert moved.ci_high is not None
    assert moved.ci_low < 0.5 < moved.ci_high


def test_answers_to_one_side_alone_and_free_ones_are_not_compared() -> None:
    frame = rows(looks)
    frame = frame[(frame["condition"] == "") | (frame["sample_id"] < "q5")]
    (order, _) = stress_results("vague", {"looks": frame}, frozenset())
    assert order.models[0].n == len({f"q{n}" for n in range(ROWS) if f"q{n}" < "q5"})
    assert (order.pairs, order.conclusion) == ((), "one model: no pair to compare")
    frame = rows(looks).assign(chosen=None)
    assert stress_results("vague", {"looks": frame}, frozenset())[0].moved is None


def test_the_page_has_conclusions_models_and_pairs(results: dict[str, StressResult]) -> None:
    section = section_of([*results.values()])
    assert [table.id for table in (*section.summary, *section.tables)] == ["stress", "stress_models", "stress_pairs"]
    assert section.summary[0].rows[0].cells[:4] == ("order-1", results["order-1"].conclusion, "mcq", "vlm")
    assert json.loads(section.files["report/stress.json"])["cells"]


def test_p_values_are_corrected_over_all_that_is_listed(results: dict[str, StressResult]) -> None:
    order = results["order-1"]
    raw = replace(order, change=replace(order.change, p=0.03), models=(replace(order.models[0], change=P03),))
    raw = replace(raw, pairs=(replace(order.pairs[0], before=P03, after=P03, shift=P03),))
    (alone,) = with_holm([raw])
    assert (alone.change.p, alone.models[0].change.p, alone.pairs[0].shift.p) == (0.03, 0.03, 0.03)
    assert (alone.pairs[0].outcome, alone.pairs[0].is_beyond_chance) == ("kept", True)
    for result in with_holm([raw, raw]):
        assert (result.change.p, result.models[0].change.p) == (0.06, 0.06)
        assert {estimate.p for pair in result.pairs for estimate in (pair.before, pair.after, pair.shift)} == {0.06}
        assert (result.pairs[0].outcome, result.pairs[0].is_beyond_chance) == ("none", False)
        assert json.loads(stress_json([result]))["cells"][0]["pairs"][0]["outcome"] == "none"
    assert with_holm([]) == []
