from dataclasses import replace

import pytest

from pipelines.benchmarks import benchmark
from pipelines.plan.run_manifest import RunManifest
from pipelines.report.landing.standing import standing_of, with_leads
from pipelines.report.metrics_file import Measured
from pipelines.report.references import Chance
from tests.unit.pipelines.report.cases import difference, metric, standing

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
