from typing import Any

import pytest

from pipelines.benchmarks.tables import TableValue
from pipelines.predict.records import TaskCount
from pipelines.report.landing.judges import Judge, Judging
from pipelines.report.landing.sentences import dollars, doubts, verdict_of
from pipelines.report.references import Chance, People
from tests.unit.pipelines.report.cases import difference, metric, standing


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "small 50.0 [40.0, 60.0] leads other by 4.1 [1.2, 7.0]"),
        ({"lead": difference(p=0.4, ci_low=-0.01)},
         "small 50.0 [40.0, 60.0] before other 45.9 by 4.1 [−1.0, 7.0], not shown"),
        (
            {"lead": difference(p=None, clusters=1),
             "ranked": (metric(ci_low=None), metric(model="other", value=0.459))},
            "small 50.0 before other 45.9 by 4.1 [1.2, 7.0]: 1 pictures, clips or scenes are too few to tell",
        ),
        (
            {"lead": difference(delta=0.0, p=1.0, ci_low=-0.03, ci_high=0.03),
             "ranked": (metric(ci_low=None), metric(model="other", value=0.459))},
            "small 50.0 before other 45.9 by 4.1; on the 120 rows that both answered, 0.0 [−3.0, 3.0], not shown",
        ),
        ({"lead": None}, "small 50.0 [40.0, 60.0] before other 45.9, which could not be tested"),
        ({"ranked": (metric(),)}, "small 50.0 [40.0, 60.0]"),
        ({"ranked": (metric(),), "chance": Chance(0.45)}, "small 50.0 [40.0, 60.0], not above chance"),
        ({"ranked": ()}, "not measured (words)"),
        ({"ranked": (), "unmeasured": ()}, "no model was run in the headline's setting"),
    ],
)  # fmt: skip
def test_claim_says_who_leads_and_whether_that_is_real(changes: dict[str, Any], expected: str) -> None:
    assert verdict_of(standing(**changes)).claim == expected


@pytest.mark.parametrize(
    ("errors", "claim"),
    [
        ((6, 0), "not measured: all 6 requests failed (first: model not found)"),
        ((6, 1), "not measured (words)"),
        ((1, 0), "not measured: the request failed (first: model not found)"),
    ],
)
def test_claim_has_the_first_error_if_all_requests_failed(errors: tuple[int, int], claim: str) -> None:
    error, answered = errors
    at = standing(ranked=())
    cell = {"benchmark": "maia", "model": "words 2", "task": "vsv"}
    number = {"requests": error + answered, "ok": answered, "error": error}
    counts = [
        TaskCount(**cell, setting="32-frames", **number, first_error="model not found"),
        TaskCount(**cell, setting="1-frame", requests=1, ok=1),
    ]
    assert verdict_of(at, counts).claim == claim


def test_facts_are_people_chance_and_cost() -> None:
    verdict = verdict_of(standing("T"))
    assert verdict.facts == ("people 94.0", "chance 25.0", "$3.10")
    assert verdict.text == (
        "T: small 50.0 [40.0, 60.0] leads other by 4.1 [1.2, 7.0]; people 94.0; chance 25.0; $3.10 "
        "(pool accuracy (all eight statement pairs), vsv, 32-frames)."
    )
    people = People(value=TableValue(value=0.94, n=3), rows="part", model=TableValue(value=0.5))
    assert verdict_of(standing(ranked=(), people=people, chance=None, dollars=None)).facts == ("people 94.0",)
    assert "chance 7.6 as random guessed" in verdict_of(standing(chance=Chance(0.076, "random"))).facts


def test_doubts_name_what_is_missing_failed_unreadable_guessed_and_few() -> None:
    judgings = (
        Judging("maia", "MAIA", ("oevqa_accuracy", "agg_acc")),
        Judging("maia", "MAIA", ("agg_acc",), (Judge(name="strong", verdicts=3),)),
    )
    numbers = [
        metric(metric="none_rate", value=0.2),
        metric(metric="none_rate", value=0.1, setting="1-frame"),
        metric(metric="none_rate", value=0.01, model="other"),
        metric(metric="count_invalid", value=60.0, unit="count", model="third"),
    ]
    fields = {"benchmark": "maia", "model": "m", "task": "t"}
    count = TaskCount(**fields, setting="s", requests=10, ok=8, error=2, first_error="no such model")
    at = standing("MAIA", ranked=(metric(n=99),), chance=Chance(0.45))
    assert doubts([at], numbers, [count], judgings) == [
        "MAIA: no judge (--judge NAME), so not measured: open answers accepted, aggregate accuracy",
        "m, requests without an answer: MAIA 2 of 10 failed (first: no such model)",
        "small, answers that cannot be read, in the worst setting: MAIA 20%",
        "third, answers that cannot be read, in the worst setting: MAIA 50%",
        "No model is above chance, so differences between models say nothing: MAIA",
        "Few rows, or few clips, pictures or scenes that rows share, so wide intervals: MAIA 99",
    ]
    assert doubts([standing()], [], []) == []


def test_a_run_that_stopped_early_says_which_interval_is_of_the_whole_set() -> None:
    early = standing("MATE", ranked=(metric(n=500, value=0.487, set_ci_low=0.475, set_ci_high=0.5), metric(n=500)))
    (doubt,) = doubts([early], [], [])
    assert doubt == (
        "MATE stopped early; all its questions together would give, with 95% at every stop: small [47.5, 50.0]. "
        "Other intervals are of questions like these"
    )


def test_amounts_have_cents_and_no_exponent() -> None:
    assert [*map(dollars, (0, 12345.6, 0.01, 0.0012345, 0.000012))] == [
        *("$0.00", "$12,345.60", "$0.01", "$0.0012", "$0.000012")
    ]


@pytest.mark.parametrize(
    ("people", "words"),
    [
        ({"rows": "same"}, "people 68.5"),
        ({"rows": "part", "model": TableValue(value=0.68)},
         "on the 33 items that people answered: small 68.0, people 68.5"),
        ({"rows": "part", "model": TableValue(value=0.68), "annotators": 3},
         "on the items of 33 answers of people: small 68.0, people 68.5"),
        ({"rows": "other"}, "people 68.5 on other items"),
    ],
)  # fmt: skip
def test_people_and_the_model_in_a_sentence_are_of_the_same_rows(people: dict[str, Any], words: str) -> None:
    at = standing(people=People(value=TableValue(value=0.685, n=33), **people))
    assert verdict_of(at).facts[0] == words
