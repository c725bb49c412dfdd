"""V-FLUTE's metrics: the protocol's worked numbers, answers of known quality, and what is said where there is none."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.benchmarks.records import Metric
from pipelines.benchmarks.vflute.aggregate import all_entailment_f1, chance_f1, koehn_p
from pipelines.benchmarks.vflute.facts import SETTINGS, SUBSETS
from pipelines.benchmarks.vflute.metrics import ONE_CLASS, reduce_scores
from pipelines.metrics.stats import bootstrap_ci, paired_bootstrap_p
from tests.support.f1_oracle import f1_at_k, macro_f1, macro_f1_statistic
from tests.support.published_frames import published
from tests.support.vflute_rows import CATEGORY, Scored, frame, samples, whole_split

WORKED = [
    Scored(gold=1, label=1, es=0.71), Scored(gold=1, label=1, es=0.60), Scored(gold=1, label=0, es=0.66),
    Scored(gold=1, label=1, es=0.53), Scored(gold=0, label=0, es=0.58), Scored(gold=0, label=None, es=0.64),
]  # fmt: skip


def reduced(rows: Sequence[Scored]) -> list[Metric]:
    return reduce_scores(frame(rows), samples(rows))


def the(
    made: Sequence[Metric], metric: str, subset: str = "", category: str | None = None, setting: str = "zero-shot"
) -> Metric:
    category = CATEGORY.get(subset, "") if category is None else category
    [one] = [
        one
        for one in made
        if (one.metric, one.subset, one.category, one.setting) == (metric, subset, category, setting)
    ]
    return one


def value(made: Sequence[Metric], metric: str, subset: str = "", setting: str = "zero-shot") -> float:
    found = the(made, metric, subset, setting=setting).value
    assert found is not None
    return found


# ---------------------------------------------------------------------------------------------------- worked examples


def test_metrics_equal_the_worked_rows() -> None:
    made = reduced(WORKED)
    assert round(value(made, "f1_at_0"), 4) == 0.6250
    assert round(value(made, "f1_at_53"), 4) == 0.4857
    assert round(value(made, "f1_at_60"), 4) == 0.1429
    assert round(100 * value(made, "percent_drop"), 2) == 77.14
    assert value(made, "accuracy") == pytest.approx(4 / 6)
    assert value(made, "accuracy_at_60") == pytest.approx(1 / 6)
    assert value(made, "none_rate") == pytest.approx(1 / 6)
    assert the(made, "f1_at_0").n == 6


def test_f1_of_one_class_equals_the_worked_rows_and_is_noted() -> None:
    made = reduced([Scored(subset="NYCartoons", es=es) for es in (0.70, 0.50, 0.66, 0.62)])
    assert value(made, "f1_at_0", "NYCartoons") == 1.0
    for k in (53, 60):
        assert round(value(made, f"f1_at_{k}", "NYCartoons"), 4) == 0.4286
        assert value(made, f"accuracy_at_{k}", "NYCartoons") == 0.75
    assert the(made, "f1_at_53", "NYCartoons").note == ONE_CLASS
    assert the(made, "accuracy", "NYCartoons").note == ""


@pytest.mark.parametrize(("right", "expected"), [(99, 0.4975), (90, 0.4737), (50, 0.3333), (0, 0.0), (100, 1.0)])
def test_f1_of_one_class_halves_at_the_first_error(right: int, expected: float) -> None:
    made = reduced([Scored(subset="NYCartoons", label=int(n < right)) for n in range(100)])
    assert round(value(made, "f1_at_0", "NYCartoons"), 4) == expected


def test_baselines_of_the_test_split() -> None:
    made = reduced(whole_split())
    assert round(value(made, "all_entailment_f1_at_0"), 4) == 0.3590
    assert value(made, "all_entailment_f1_at_0", "NYCartoons") == 1.0
    assert value(made, "chance_f1_at_0") == pytest.approx(0.4985, abs=0.001)
    assert value(made, "chance_f1_at_0", "NYCartoons") == pytest.approx(0.335, abs=0.003)
    assert value(made, "gold_entailment") == 405
    assert round(all_entailment_f1(318, 405), 4) == 0.3055  # always contradiction


def test_chance_f1_equals_the_mean_of_simulated_coins() -> None:
    generator = np.random.default_rng(1)
    gold = [1] * 40 + [0] * 25
    flips = [macro_f1(gold, generator.integers(0, 2, 65).tolist()) for _ in range(4000)]
    assert chance_f1(40, 25) == pytest.approx(np.mean(flips), abs=0.004)


# ------------------------------------------------------------------------------------------------------ known quality


def test_perfect_model_has_full_scores() -> None:
    made = reduced(whole_split(label=lambda gold, _: gold))
    for k in (0, 53, 60):
        assert value(made, f"f1_at_{k}") == value(made, f"f1_at_{k}_robust") == 1.0
    assert (value(made, "accuracy"), value(made, "percent_drop"), value(made, "none_rate")) == (1.0, 0.0, 0.0)


def test_model_that_always_answers_entailment_has_the_baseline_f1() -> None:
    made = reduced(whole_split(label=1))
    assert round(value(made, "f1_at_0"), 4) == 0.3590
    assert value(made, "accuracy") == pytest.approx(405 / 723)
    assert value(made, "f1_at_0", "NYCartoons") == 1.0


def test_random_labels_are_near_chance() -> None:
    flips = np.random.default_rng(7).integers(0, 2, 723)
    made = reduced(whole_split(label=lambda _, place: int(flips[place])))
    assert value(made, "f1_at_0") == pytest.approx(0.498, abs=3 * 0.018)


def test_poor_explanations_lower_f1_at_thresholds_only() -> None:
    made = reduced(whole_split(label=lambda gold, _: gold, es=0.53))
    assert (value(made, "f1_at_0"), value(made, "f1_at_53"), value(made, "label_f1")) == (1.0, 0.0, 1.0)
    assert value(made, "percent_drop") == 1.0


def test_explanation_with_score_zero_counts_at_no_threshold() -> None:
    made = reduced([Scored(es=0.0), Scored(es=-0.1), Scored(gold=0, label=0, es=1e-9), Scored(gold=0, label=0)])
    assert value(made, "f1_at_0") == pytest.approx(f1_at_k([1, 1, 0, 0], [1, 1, 0, 0], [0, -0.1, 1e-9, 0.9], 0))
    assert value(made, "accuracy") == 1.0
    assert value(made, "label_f1") == 1.0


def test_metrics_cover_each_subset_and_phenomenon() -> None:
    made = reduced(whole_split(label=lambda gold, place: gold if place % 3 else None))
    counts = {(one.subset, one.category): one.n for one in made if one.metric == "f1_at_0"}
    assert counts == {
        ("", ""): 723, ("HAIVMET", "Metaphor/Simile"): 101, ("IRFL (metaphor/simile)", "Metaphor/Simile"): 120,
        ("IRFL (idiom)", "Idiom"): 100, ("MuSE", "Sarcasm"): 106, ("MemeCap", "Humor"): 196,
        ("NYCartoons", "Humor"): 100, ("", "Metaphor/Simile"): 221, ("", "Idiom"): 100, ("", "Sarcasm"): 106,
        ("", "Humor"): 296,
    }  # fmt: skip


def test_metrics_are_unique_and_join_with_the_published_rows() -> None:
    rows = [replace(one, setting=name) for name in SETTINGS for one in whole_split(label=lambda gold, _: gold)]
    made = reduced(rows)
    ours = {(one.task, one.setting, one.subset, one.category, one.metric) for one in made}
    theirs = published("vflute")
    theirs = theirs[theirs["setting"].ne("") & ~theirs["metric"].isin(["adequacy", "preference"])]
    keys = theirs[["task", "setting", "subset", "category", "metric"]].itertuples(index=False, name=None)
    assert {tuple(key) for key in keys} <= ours
    names = [(one.task, one.setting, one.subset, one.category, one.metric) for one in made]
    assert len(names) == len(set(names))


# ------------------------------------------------------------------------------------- failed, excluded, never run


def test_failed_row_is_wrong_and_not_an_answer() -> None:
    rows = [Scored(), Scored(gold=0, label=0), Scored(status="error")]
    made = reduced(rows)
    one = the(made, "f1_at_0")
    assert one.value == pytest.approx(macro_f1([1, 0, 1], [1, 0, 0]))
    assert (one.n, one.n_failed) == (3, 1)
    assert (the(made, "none_rate").n, the(made, "none_rate").n_failed) == (2, 1)
    assert value(made, "none_rate") == value(made, "parser_disagreement") == 0.0
    assert value(made, "errors") == 1


@pytest.mark.parametrize("status", ["excluded", "missing"])
def test_excluded_and_missing_rows_are_in_no_denominator(status: str) -> None:
    made = reduced([Scored(), Scored(gold=0, label=0), Scored(status=status)])
    one = the(made, "f1_at_0")
    assert (one.value, one.n, one.n_failed) == (1.0, 2, 0)
    assert ("never run, and not counted: 1" in one.note) == (status == "missing")


def test_excluded_setting_has_no_value() -> None:
    made = reduced([Scored(setting="5-shot", status="excluded")] * 3)
    one = the(made, "f1_at_0", setting="5-shot")
    assert (one.value, one.n, one.note) == (None, 0, "no row to measure")
    assert the(made, "none_rate", setting="5-shot").value is None


# ---------------------------------------------------------------------------------------------- unscored explanations


def test_metrics_without_scorers_measure_labels_only() -> None:
    made = reduced(whole_split(label=lambda gold, _: gold, es=None))
    for k in (0, 53, 60):
        one = the(made, f"f1_at_{k}")
        assert one.value is None
        assert one.note == "explanations without BERTScore and BLEURT"
        assert the(made, f"f1_at_{k}_robust").value is None
    assert the(made, "percent_drop").value is None
    assert (value(made, "label_f1"), value(made, "accuracy")) == (1.0, 1.0)
    assert not [one for one in made if one.metric == "f1_at_61"]


def test_one_unscored_row_leaves_f1_undefined_and_is_counted() -> None:
    made = reduced([Scored(), Scored(es=None), Scored(gold=0, label=0)])
    assert the(made, "f1_at_53").value is None
    assert the(made, "f1_at_53").note == "explanations without BERTScore and BLEURT: 1 of 3 with the right label"


def test_wrong_label_needs_no_score() -> None:
    rows = [Scored(), Scored(gold=0, label=1, es=None), Scored(gold=0, label=None, es=None), Scored(gold=0, label=0)]
    made = reduced(rows)
    assert value(made, "f1_at_53") == pytest.approx(f1_at_k([1, 0, 0, 0], [1, 1, None, 0], [0.9] * 4, 53))


def test_reduce_accepts_a_frame_without_scored_columns() -> None:
    bare = frame([Scored(status="error"), Scored(gold=0, status="error")])
    bare = bare.drop(columns=["label", "label_robust", "es", "es_robust", "empty"])
    made = reduce_scores(bare, samples([Scored(), Scored(gold=0)]))
    assert value(made, "f1_at_0") == 0.0


def test_label_only_reports_one_threshold() -> None:
    made = reduced([replace(one, es=None, setting="label-only") for one in WORKED])
    assert round(value(made, "f1_at_0", setting="label-only"), 4) == 0.6250
    names = {one.metric for one in made if one.setting == "label-only"}
    assert {name for name in names if name.startswith("f1_at_")} == {"f1_at_0", "f1_at_0_robust"}
    assert not {"percent_drop", "empty_explanation_rate", "accuracy_at_53"} & names


def test_robust_metrics_use_their_own_labels_and_scores() -> None:
    rows = [
        Scored(robust=0), Scored(gold=0, label=None, robust=0, es=0.7), Scored(es=0.7, es_robust=0.55),
        Scored(gold=0, label=None, robust=None),
    ]  # fmt: skip
    made = reduced(rows)
    gold, second, scores = [1, 0, 1, 0], [0, 0, 1, None], [0.9, 0.7, 0.55, 0.9]
    for k in (0, 53, 60):
        assert value(made, f"f1_at_{k}_robust") == pytest.approx(f1_at_k(gold, second, scores, k))
    assert value(made, "parser_disagreement") == 0.5
    assert value(made, "f1_at_60") == pytest.approx(f1_at_k(gold, [1, None, 1, None], [0.9, 0.7, 0.7, 0.9], 60))


def test_shares_and_counts_of_answers() -> None:
    rows = [Scored(empty=True, es=0.1), Scored(flags=("truncated",)), Scored(claim="Label: entailment\r\nIt is so.")]
    made = reduced(rows)
    assert value(made, "empty_explanation_rate") == pytest.approx(1 / 3)
    assert value(made, "truncated_count") == 1
    leak = the(made, "leaking_captions")
    assert (leak.value, "row 2" in leak.note) == (1, True)


# --------------------------------------------------------------------------------------------------- curves, intervals


def test_curve_has_a_row_for_each_change() -> None:
    rows = whole_split(label=lambda gold, _: gold, es=lambda _, place: 0.3 + place / 1500)
    made = {one.metric: one.value for one in reduced(rows) if not one.subset and not one.category}
    gold = [one.gold for one in rows]
    current = made["f1_at_0"]
    for k in range(101):
        current = made.get(f"f1_at_{k}", current)
        assert current == pytest.approx(f1_at_k(gold, gold, [float(one.es or 0) for one in rows], k))
    assert "f1_at_10" not in made


_ROW = st.tuples(
    st.integers(0, 1), st.sampled_from([0, 1, None]), st.integers(0, 100).map(lambda k: k / 100),
    st.sampled_from([one.name for one in SUBSETS]),
)  # fmt: skip


@settings(max_examples=15, deadline=None)
@given(st.lists(_ROW, min_size=1, max_size=20))
def test_f1_at_k_equals_its_definition_for_any_rows(drawn: list[tuple[int, int | None, float, str]]) -> None:
    made = reduced([Scored(gold=y, label=p, es=es, subset=subset) for y, p, es, subset in drawn])
    for k in (0, 53, 60):
        gold, labels, scores, _ = (list(column) for column in zip(*drawn, strict=True))
        assert value(made, f"f1_at_{k}") == pytest.approx(f1_at_k(gold, labels, scores, k))
    for one in made:
        assert one.value is None or one.unit == "count" or 0.0 <= one.value <= 1.0


def test_intervals_resample_pictures() -> None:
    generator = np.random.default_rng(3)
    rows = [
        Scored(gold=int(generator.integers(0, 2)), label=int(generator.integers(0, 2)), cluster=f"picture {n // 2:03d}")
        for n in range(80)
    ]
    made = reduced(rows)
    gold, labels = [one.gold for one in rows], [float(one.label or 0) for one in rows]
    pictures = [one.cluster for one in rows]
    expected = bootstrap_ci(labels, pictures, statistic=macro_f1_statistic(gold))
    one = the(made, "f1_at_0")
    assert expected is not None
    assert (one.ci_low, one.ci_high) == pytest.approx((expected.low, expected.high))
    right = [float(p == y) for p, y in zip(labels, gold, strict=True)]
    expected = bootstrap_ci(right, pictures)
    one = the(made, "accuracy")
    assert expected is not None
    assert (one.ci_low, one.ci_high) == pytest.approx((expected.low, expected.high))


def test_one_cluster_has_no_interval() -> None:
    one = the(reduced([Scored(cluster="a"), Scored(gold=0, cluster="a")]), "f1_at_0")
    assert (one.ci_low, one.ci_high) == (None, None)


def test_metrics_do_not_depend_on_the_order_of_rows() -> None:
    rows = [replace(one, name=f"r{n}") for n, one in enumerate(whole_split(label=lambda _, place: place % 2))]
    assert {repr(one) for one in reduced(rows)} == {repr(one) for one in reduced(rows[::-1])}


# ------------------------------------------------------------------------------------------------------- paired test


def test_koehn_p_equals_paired_bootstrap_p() -> None:
    generator = np.random.default_rng(5)
    gold = generator.integers(0, 2, 60)
    a, b = np.where(generator.random(60) < 0.8, gold, 1 - gold), np.where(generator.random(60) < 0.6, gold, 1 - gold)
    expected = paired_bootstrap_p(a, b, statistic=macro_f1_statistic(gold.tolist()))
    assert koehn_p(gold == 1, a == gold, b == gold) == pytest.approx(expected)
    assert koehn_p(gold == 1, a == gold, a == gold) == 1.0


def test_settings_are_tested_in_pairs() -> None:
    good, coin = whole_split(label=lambda gold, _: gold), whole_split(label=lambda _, place: place % 2)
    rows = good + [replace(one, setting="no-image") for one in coin] + [replace(one, setting="5-shot") for one in coin]
    made = reduced(rows)
    assert value(made, "p_better_than_no-image") == pytest.approx(1 / 10001)
    assert value(made, "p_better_than_zero-shot", setting="5-shot") == 1.0
    assert the(made, "p_better_than_no-image").n == 723


def test_setting_tests_use_common_rows_only() -> None:
    a = [replace(one, name=f"r{n}") for n, one in enumerate(WORKED)]
    b = [replace(one, setting="no-image", status="excluded" if n < 2 else "ok") for n, one in enumerate(a)]
    assert the(reduced(a + b), "p_better_than_no-image").n == 4
    none = [replace(one, status="excluded") for one in b]
    assert the(reduced(a + none), "p_better_than_no-image").note == "no row in common"


# ------------------------------------------------------------------------------------------------------------- lengths


def test_length_metrics_count_texts_by_subset() -> None:
    rows = [Scored(claim="x" * n) for n in (0, 19, 20, 239, 500)]
    made = [one for one in reduced(rows) if one.metric.startswith("caption_chars")]
    assert {one.metric: one.value for one in made} == {
        "caption_chars_from_0": 2, "caption_chars_from_20": 1, "caption_chars_from_220": 2,
    }  # fmt: skip
    assert {(one.setting, one.subset, one.n) for one in made} == {("", "MuSE", 5)}
