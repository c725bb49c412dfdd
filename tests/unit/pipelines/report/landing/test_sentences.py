from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipelines.benchmarks import benchmark
from pipelines.benchmarks.tables import Table, TableValue
from pipelines.plan.options import SweepOptions
from pipelines.plan.run_manifest import ModelSpending, RunManifest, Spending
from pipelines.predict.records import TaskCount
from pipelines.rendering.figures.svg import to_svg_bytes
from pipelines.report.landing.sentences import Judge, Judging, dollars, doubts, judgings_of, verdict_of
from pipelines.report.landing.standing import standing_of, with_leads
from pipelines.report.landing.tables import cost_of, cost_table, matrix_table, standing_figure
from pipelines.report.metrics_file import Measured
from pipelines.report.references import Chance, People
from pipelines.report.tables.token_efficiency import Efficiency
from pipelines.schemas import PREDICTIONS
from pipelines.storage.parts import part_folder, to_parquet
from pipelines.storage.store import Store
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


MATE = benchmark("mate")


def number(model: str, value: float | None, **changes: object) -> Measured:
    fields = {"benchmark": "mate", "task": "crossmodal", "setting": "2-shot", "metric": "exact_match", "n": 50}
    return metric(**{**fields, "model": model, "value": value, **changes})


def test_models_are_ranked_apart_from_people_and_guesses_beside_their_references() -> None:
    numbers = [
        *(number("low", 0.3), number("high", 0.6), number("none", None)),
        *(number("guess", 0.9), number("human:ann", 0.95), number("high", 0.99, setting="0-shot")),
    ]
    at = standing_of(MATE, numbers, {"guess"})
    assert (at.metric, at.task, at.setting) == ("exact_match", "crossmodal", "2-shot")
    assert [row.model for row in at.ranked] == ["high", "low"]
    assert [row.model for row in (*at.unmeasured, *at.baselines)] == ["none", "guess"]
    assert at.people.value.value == 0.95  # the only person of this run
    at = standing_of(MATE, [number("m", 0.3), number("m", 0.22, metric="chance")], ())
    assert (at.people.value.value, at.people.rows, at.chance) == (0.979, "other", Chance(0.22))
    assert (at.published.model, at.published.value) == ("Claude 3.5", 0.833)


def test_chance_and_setting_are_others_where_the_first_are_not_there() -> None:
    rows = [
        metric(benchmark="maia", task="aggregate", metric="agg_acc", model=model, value=value)
        for model, value in (("m", 0.4), ("guess", 0.1))
    ]
    assert standing_of(benchmark("maia"), rows, {"guess"}).chance == Chance(0.1, "guess")
    assert MATE.headline_group([("img2txt", "2-shot"), ("crossmodal", "0-shot")]) == ("crossmodal", "0-shot")
    assert MATE.headline_group([("txt2txt", "0-shot"), ("img2txt", "1-shot")]) == ("img2txt", "1-shot")
    assert MATE.headline_group([]) is None


def test_headline_of_vflute_needs_no_scorer_and_is_compared_with_print() -> None:
    rows = [
        metric(benchmark="vflute", task="entailment", setting="zero-shot", metric=name, value=value)
        for name, value in (("label_f1", 0.5), ("f1_at_0", None))
    ]
    at = standing_of(benchmark("vflute"), rows, ())
    assert [row.value for row in at.ranked] == [0.5]
    assert at.people is not None
    assert at.published.metric == "f1_at_0"


def test_the_lead_is_the_test_of_the_first_two_whichever_was_first() -> None:
    two = standing(lead=None)
    test = difference(p=0.01)  # of `small`, which is first, minus `other`
    key = ("maia", frozenset(("small", "other")))
    for stored in (test, test.flipped()):
        at, alone = with_leads([two, replace(two, ranked=two.ranked[:1])], {key: stored})
        assert (at.lead, alone.lead) == (test, None)
        assert at.is_led
        assert at.leader == ("vsv", "32-frames", "small")
    (untested,) = with_leads([replace(two, setting="1-frame")], {key: test})
    assert untested.lead is None


@pytest.mark.parametrize(("chance", "expected"), [(0.25, True), (0.4, False), (None, None)])
def test_interval_decides_whether_the_best_is_above_chance(chance: float | None, expected: bool | None) -> None:
    assert standing(chance=None if chance is None else Chance(chance)).beats_chance is expected


def test_lower_values_are_better_where_the_headline_is_such_a_metric() -> None:
    lower = replace(MATE, lower_is_better=("exact_match",))
    numbers = [
        number("guess", 0.7),
        *(number(model, value, ci_low=value - 0.1, ci_high=value + 0.1) for model, value in (("b", 0.5), ("a", 0.3))),
    ]
    at, usual = (replace(standing_of(which, numbers, {"guess"}), chance=Chance(0.45)) for which in (lower, MATE))
    assert ([row.model for row in at.ranked], at.beats_chance) == (["a", "b"], True)
    assert ([row.model for row in usual.ranked], usual.beats_chance) == (["b", "a"], False)
    assert at.published.value < usual.published.value


def test_baselines_are_the_models_of_the_random_engine() -> None:
    models = {"chance": {"engine": "random"}, "m": {"engine": "vllm"}, "n": {}}
    assert RunManifest(models=models).baselines == {"chance"}


@pytest.mark.parametrize(("models", "freedom", "expected"), [(1, 0, True), (20, 0, False), (1, 3, True), (3, 3, False)])
def test_best_of_many_models_must_lie_further_above_chance(models: int, freedom: int, expected: bool) -> None:
    best = number("m", 0.5, ci_low=0.4, ci_high=0.6, ci_df=freedom)
    ranked = (best, *(number(f"m{place}", 0.4) for place in range(models - 1)))
    # 0.11 above chance, where the interval reaches 0.1: normal p 0.031, of 20 models 0.0025 is needed.
    assert standing(ranked=ranked, chance=Chance(0.39)).beats_chance is expected


NO_JUDGE = "no judge: give one with --judge"
MODELS = {
    "strong": {"engine": "openai", "model": "gpt-4o", "revision": "2024-08-06"},
    "local": {"engine": "transformers", "model": "/home/somebody/weights"},
    "coin": {"engine": "random"},
}


@pytest.fixture
def out(tmp_path: Path) -> Store:
    """An output with two verdicts of each judge, and a question that failed."""
    out = Store(str(tmp_path))
    rows = [{"status": status} for status in ("ok", "ok", "error")]
    for name in MODELS:
        out.put(f"{part_folder('judgements', 'maia', name)}/{'a' * 24}.parquet", to_parquet(rows, PREDICTIONS))
    return out


@pytest.mark.parametrize(
    ("judge", "sentence"),
    [
        ("strong", "MAIA: judged by strong (gpt-4o 2024-08-06, 2 verdicts): open answers accepted"),
        ("coin",
         "MAIA: judged by coin (tosses a coin, 2 verdicts), so these numbers mean nothing: open answers accepted"),
        ("local,coin",
         "MAIA: judged by local (…/weights, 2 verdicts), coin (tosses a coin, 2 verdicts): open answers accepted"),
    ],
)  # fmt: skip
def test_judges_have_version_and_verdicts_and_a_coin_is_named(out: Store, judge: str, sentence: str) -> None:
    run = RunManifest(models=MODELS, sweep=SweepOptions(judge=judge))
    numbers = [metric(), metric(metric="oevqa_accuracy"), metric(metric="oevqa_accuracy", category="Causal")]
    (judging,) = judgings_of(out, run, numbers)
    assert (str(judging), judging.is_doubtful) == (sentence, judge == "coin")


def test_judges_of_earlier_runs_are_those_with_verdicts(out: Store) -> None:
    (judging,) = judgings_of(out, RunManifest(models={**MODELS, "model": {}}), [metric(metric="agg_acc")])
    assert [judge.name for judge in judging.judges] == [*MODELS]


def test_metrics_without_a_judge_are_named_and_people_need_none(tmp_path: Path) -> None:
    out, run = Store(str(tmp_path)), RunManifest(models=MODELS)
    missing = [metric(metric=name, value=None, note=NO_JUDGE) for name in ("oevqa_accuracy", "agg_acc")]
    (judging,) = judgings_of(out, run, missing)
    text = "MAIA: no judge (--judge NAME), so not measured: open answers accepted, aggregate accuracy"
    assert (str(judging), judging.is_doubtful) == (text, True)
    assert judgings_of(out, run, [metric(metric="human_leave_one_out")]) == ()
    assert judgings_of(out, run, [metric(metric="agg_acc", value=None, note="all requests failed")]) == ()


PRICED = {"api": {"price": {"input_per_million": 2.0, "output_per_million": 10.0}}}
BATCHED = {"api": {**PRICED["api"], "batch": True}}


def usage(model: str = "api", **changes: object) -> Efficiency:
    fields = {"answers": 10, "prompt_tokens": 1_000_000, "computed_tokens": 1_000_000, "output_tokens": 100_000}
    return Efficiency(**{"benchmark": "maia", "model": model, "latency_s": 5.0, **fields, **changes})  # type: ignore[arg-type]


def present(table: Table | None) -> Table:
    assert table is not None
    return table


def test_matrix_marks_a_significant_lead_alone_and_sets_references_and_guesses_apart() -> None:
    led, tied = standing("A"), standing("B", benchmark="mate", lead=difference(p=0.5), people=None)
    table = present(matrix_table([led, tied], cost_table([usage("small")], {}, [])))
    assert table.groups == (("A", 1), ("B", 1), ("All", 2))
    assert [row.label for row in table.rows[:2]] == ["small", "other"]
    first, second, *further = table.rows[0].cells
    assert (first.best, second.best, further) == (True, False, ["0.50", None])
    heading = [row.label for row in table.rows].index("To compare with")
    below = {row.label: row for row in table.rows[heading + 1 :]}
    assert list(below) == ["People", "Chance", "Best published"]
    assert all(row.baseline for row in below.values())
    assert below["Chance"].cells == (0.25, 0.25, "", "")
    assert matrix_table([]) is None
    guess, unmeasured = metric(model="guess", value=0.9), metric(model="none", value=None)
    labels = [row.label for row in present(matrix_table([standing(baselines=(guess,), unmeasured=(unmeasured,))])).rows]
    assert labels[:4] == ["small", "other", "words", "none"]
    assert "guess" not in labels


@pytest.mark.parametrize(("models", "dollars"), [(PRICED, 3.0), (BATCHED, 1.5), ({}, None)])
def test_cost_is_of_tokens_by_the_billed_price(models: dict[str, dict[str, object]], dollars: float | None) -> None:
    assert cost_of([usage()], models) == dollars


def test_cost_table_has_models_and_their_judges() -> None:
    spending = Spending(
        at="", limit=None, dollars=0.5, models={"judge": ModelSpending(input_tokens=9, output_tokens=1, dollars=0.5)}
    )
    table = present(cost_table([usage()], PRICED, [spending]))
    assert [(row.label, row.cells) for row in table.rows] == [
        ("api", (10, 1_000_000, 100_000, "0.50", "$3.00")),
        ("judge (judge or captioner)", (None, 9, 1, None, "$0.50")),
    ]
    assert [row.baseline for row in table.rows] == [False, True]
    assert [row.baseline for row in present(cost_table([usage()], {"api": {"engine": "random"}}, [])).rows] == [True]
    assert cost_table([], {}, []) is None
    (failed,) = present(cost_table([], {}, [spending], {"judge"})).rows
    assert (failed.label, failed.baseline) == ("judge", False)  # a model without an answer is no judge


def test_figure_draws_intervals_and_lines_for_people_and_chance() -> None:
    figure = standing_figure([standing("A"), standing("B", people=None, published=None)])
    assert figure.categories == ("A", "B")
    assert [(series.label, series.baseline) for series in figure.series[-3:]] == [
        ("Chance", True),
        ("People", True),
        ("Best published", False),
    ]
    assert figure.series[0].low == (0.4, 0.4)
    assert figure.title == "Every model with its 95% interval, beside people, chance and the best published model"
    drawing = to_svg_bytes(figure)
    assert b"small" in drawing
    assert b"People" in drawing
    assert standing_figure([standing(ranked=())]) is None


@pytest.mark.parametrize(
    ("absent", "end"), [(("people", "chance", "published"), ""), (("people", "published"), ", beside chance")]
)
def test_titles_name_what_there_is_to_compare_with(absent: tuple[str, ...], end: str) -> None:
    at = standing(**dict.fromkeys(absent))
    assert present(matrix_table([at])).caption == f"The headline of each benchmark by model{end}."
    figure = standing_figure([at])
    assert figure.title == f"Every model with its 95% interval{end}"
