"""V-FLUTE's metrics: the protocol's worked numbers, answers of known quality, and notes on gaps."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.benchmarks.records import Metric
from pipelines.benchmarks.vflute.facts import SUBSETS
from pipelines.benchmarks.vflute.metrics import ONE_CLASS, reduce_scores
from pipelines.metrics.f1 import all_entailment_f1, chance_f1, koehn_p
from tests.support.f1_oracle import drawn_macro_f1, f1_at_k, macro_f1
from tests.support.interval_oracle import jackknife_ends, share_ends
from tests.support.sweeps import metric_named
from tests.support.vflute_rows import CATEGORY, Scored, frame, samples, whole_split

WORKED = [
    Scored(gold=1, label=1, es=0.71), Scored(gold=1, label=1, es=0.60), Scored(gold=1, label=0, es=0.66),
    Scored(gold=1, label=1, es=0.53), Scored(gold=0, label=0, es=0.58), Scored(gold=0, label=None, es=0.64),
]  # fmt: skip


def reduced(rows: Sequence[Scored]) -> list[Metric]:
    return reduce_scores(frame(rows), samples(rows))


def metric_of(
    metrics: Sequence[Metric], metric: str, subset: str = "", category: str | None = None, setting: str = "zero-shot"
) -> Metric:
    category = CATEGORY.get(subset, "") if category is None else category
    return metric_named(metrics, metric, subset=subset, category=category, setting=setting)


def value(metrics: Sequence[Metric], metric: str, subset: str = "", setting: str = "zero-shot") -> float:
    result = metric_of(metrics, metric, subset, setting=setting).value
    assert result is not None
    return result


# ---------------------------------------------------------------------------------------------------- worked examples


def test_metrics_equal_the_worked_rows() -> None:
    metrics = reduced(WORKED)
    assert round(value(metrics, "f1_at_0"), 4) == 0.6250
    assert round(value(metrics, "f1_at_53"), 4) == 0.4857
    assert round(value(metrics, "f1_at_60"), 4) == 0.1429
    assert round(100 * value(metrics, "percent_drop"), 2) == 77.14
    assert value(metrics, "accuracy") == pytest.approx(4 / 6)
    assert value(metrics, "accuracy_at_60") == pytest.approx(1 / 6)
    assert value(metrics, "none_rate") == pytest.approx(1 / 6)
    assert metric_of(metrics, "f1_at_0").n == 6


def test_f1_of_one_class_equals_the_worked_rows_and_is_noted() -> None:
    metrics = reduced([Scored(subset="NYCartoons", es=es) for es in (0.70, 0.50, 0.66, 0.62)])
    assert value(metrics, "f1_at_0", "NYCartoons") == 1.0
    for k in (53, 60):
        assert round(value(metrics, f"f1_at_{k}", "NYCartoons"), 4) == 0.4286
        assert value(metrics, f"accuracy_at_{k}", "NYCartoons") == 0.75
    assert metric_of(metrics, "f1_at_53", "NYCartoons").note == ONE_CLASS
    assert metric_of(metrics, "accuracy", "NYCartoons").note == ""


@pytest.mark.parametrize(("right", "expected"), [(99, 0.4975), (90, 0.4737), (50, 0.3333), (0, 0.0), (100, 1.0)])
def test_f1_of_one_class_halves_at_the_first_error(right: int, expected: float) -> None:
    metrics = reduced([Scored(subset="NYCartoons", label=int(n < right)) for n in range(100)])
    assert round(value(metrics, "f1_at_0", "NYCartoons"), 4) == expected


def test_baselines_of_the_test_split() -> None:
    metrics = reduced(whole_split())
    assert round(value(metrics, "all_entailment_f1_at_0"), 4) == 0.3590
    assert value(metrics, "all_entailment_f1_at_0", "NYCartoons") == 1.0
    assert value(metrics, "chance_f1_at_0") == pytest.approx(0.4985, abs=0.001)
    assert value(metrics, "chance_f1_at_0", "NYCartoons") == pytest.approx(0.335, abs=0.003)
    assert value(metrics, "gold_entailment") == 405
    assert round(all_entailment_f1(318, 405), 4) == 0.3055  # always contradiction


def test_chance_f1_equals_the_mean_of_simulated_coins() -> None:
    generator = np.random.default_rng(1)
    gold = [1] * 40 + [0] * 25
    flips = [macro_f1(gold, generator.integers(0, 2, 65).tolist()) for _ in range(4000)]
    assert chance_f1(40, 25) == pytest.approx(np.mean(flips), abs=0.004)


# ------------------------------------------------------------------------------------------------------ known quality


def test_poor_explanations_lower_f1_at_thresholds_only() -> None:
    metrics = reduced(whole_split(label=lambda gold, _: gold, es=0.53))
    assert (value(metrics, "f1_at_0"), value(metrics, "f1_at_53"), value(metrics, "label_f1")) == (1.0, 0.0, 1.0)
    assert value(metrics, "percent_drop") == 1.0


def test_explanation_with_score_zero_counts_at_no_threshold() -> None:
    metrics = reduced([Scored(es=0.0), Scored(es=-0.1), Scored(gold=0, label=0, es=1e-9), Scored(gold=0, label=0)])
    assert value(metrics, "f1_at_0") == pytest.approx(f1_at_k([1, 1, 0, 0], [1, 1, 0, 0], [0, -0.1, 1e-9, 0.9], 0))
    assert value(metrics, "accuracy") == 1.0
    assert value(metrics, "label_f1") == 1.0


def test_metrics_cover_each_subset_and_phenomenon() -> None:
    metrics = reduced(whole_split(label=lambda gold, index: gold if index % 3 else None))
    counts = {(metric.subset, metric.category): metric.n for metric in metrics if metric.metric == "f1_at_0"}
    assert counts == {
        ("", ""): 723, ("HAIVMET", "Metaphor/Simile"): 101, ("IRFL (metaphor/simile)", "Metaphor/Simile"): 120,
        ("IRFL (idiom)", "Idiom"): 100, ("MuSE", "Sarcasm"): 106, ("MemeCap", "Humor"): 196,
        ("NYCartoons", "Humor"): 100, ("", "Metaphor/Simile"): 221, ("", "Idiom"): 100, ("", "Sarcasm"): 106,
        ("", "Humor"): 296,
    }  # fmt: skip


# ------------------------------------------------------------------------------------- failed, excluded, never run


def test_failed_row_is_wrong_and_not_an_answer() -> None:
    rows = [Scored(), Scored(gold=0, label=0), Scored(status="error")]
    metrics = reduced(rows)
    metric = metric_of(metrics, "f1_at_0")
    assert metric.value == pytest.approx(macro_f1([1, 0, 1], [1, 0, 0]))
    assert (metric.n, metric.n_failed) == (3, 1)
    assert (metric_of(metrics, "none_rate").n, metric_of(metrics, "none_rate").n_failed) == (2, 1)
    assert value(metrics, "none_rate") == value(metrics, "parser_disagreement") == 0.0
    assert value(metrics, "errors") == 1


@pytest.mark.parametrize("status", ["excluded", "missing"])
def test_excluded_and_missing_rows_are_in_no_denominator(status: str) -> None:
    metrics = reduced([Scored(), Scored(gold=0, label=0), Scored(status=status)])
    metric = metric_of(metrics, "f1_at_0")
    assert (metric.value, metric.n, metric.n_failed) == (1.0, 2, 0)
    assert ("1 request was never run" in metric.note) == (status == "missing")


def test_excluded_setting_has_no_value() -> None:
    metrics = reduced([Scored(setting="5-shot", status="excluded")] * 3)
    metric = metric_of(metrics, "f1_at_0", setting="5-shot")
    assert (metric.value, metric.n, metric.note) == (None, 0, "no row to measure")
    assert metric_of(metrics, "none_rate", setting="5-shot").value is None


# ---------------------------------------------------------------------------------------------- unscored explanations


def test_metrics_without_scorers_measure_labels_only() -> None:
    metrics = reduced(whole_split(label=lambda gold, _: gold, es=None))
    for k in (0, 53, 60):
        metric = metric_of(metrics, f"f1_at_{k}")
        assert metric.value is None
        assert metric.note == "explanations without BERTScore and BLEURT"
        assert metric_of(metrics, f"f1_at_{k}_robust").value is None
    assert metric_of(metrics, "percent_drop").value is None
    assert (value(metrics, "label_f1"), value(metrics, "accuracy")) == (1.0, 1.0)
    assert not [metric for metric in metrics if metric.metric == "f1_at_61"]


def test_one_unscored_row_leaves_f1_undefined_and_is_counted() -> None:
    metrics = reduced([Scored(), Scored(es=None), Scored(gold=0, label=0)])
    assert metric_of(metrics, "f1_at_53").value is None
    assert (
        metric_of(metrics, "f1_at_53").note == "explanations without BERTScore and BLEURT: 1 of 3 with the right label"
    )


def test_wrong_label_needs_no_score() -> None:
    rows = [Scored(), Scored(gold=0, label=1, es=None), Scored(gold=0, label=None, es=None), Scored(gold=0, label=0)]
    metrics = reduced(rows)
    assert value(metrics, "f1_at_53") == pytest.approx(f1_at_k([1, 0, 0, 0], [1, 1, None, 0], [0.9] * 4, 53))


def test_reduce_accepts_a_frame_without_scored_columns() -> None:
    bare = frame([Scored(status="error"), Scored(gold=0, status="error")])
    bare = bare.drop(columns=["label", "label_robust", "es", "es_robust", "empty"])
    metrics = reduce_scores(bare, samples([Scored(), Scored(gold=0)]))
    assert value(metrics, "f1_at_0") == 0.0


def test_label_only_reports_one_threshold() -> None:
    metrics = reduced([replace(row, es=None, setting="label-only") for row in WORKED])
    assert round(value(metrics, "f1_at_0", setting="label-only"), 4) == 0.6250
    names = {metric.metric for metric in metrics if metric.setting == "label-only"}
    assert {name for name in names if name.startswith("f1_at_")} == {"f1_at_0", "f1_at_0_robust"}
    assert not {"percent_drop", "empty_explanation_rate", "accuracy_at_53"} & names


def test_robust_metrics_use_their_own_labels_and_scores() -> None:
    rows = [
        Scored(robust=0), Scored(gold=0, label=None, robust=0, es=0.7), Scored(es=0.7, es_robust=0.55),
        Scored(gold=0, label=None, robust=None),
    ]  # fmt: skip
    metrics = reduced(rows)
    gold, second, scores = [1, 0, 1, 0], [0, 0, 1, None], [0.9, 0.7, 0.55, 0.9]
    for k in (0, 53, 60):
        assert value(metrics, f"f1_at_{k}_robust") == pytest.approx(f1_at_k(gold, second, scores, k))
    assert value(metrics, "parser_disagreement") == 0.5
    assert value(metrics, "f1_at_60") == pytest.approx(f1_at_k(gold, [1, None, 1, None], [0.9, 0.7, 0.7, 0.9], 60))


def test_shares_and_counts_of_answers() -> None:
    rows = [Scored(empty=True, es=0.1), Scored(flags=("truncated",)), Scored(claim="Label: entailment\r\nIt is so.")]
    metrics = reduced(rows)
    assert value(metrics, "empty_explanation_rate") == pytest.approx(1 / 3)
    assert value(metrics, "truncated_count") == 1
    leak = metric_of(metrics, "leaking_captions")
    assert (leak.value, "row 2" in leak.note) == (1, True)


# --------------------------------------------------------------------------------------------------- curves, intervals


def test_curve_has_a_row_for_each_change() -> None:
    rows = whole_split(label=lambda gold, _: gold, es=lambda _, index: 0.3 + index / 1500)
    metrics = {metric.metric: metric.value for metric in reduced(rows) if not metric.subset and not metric.category}
    gold = [row.gold for row in rows]
    current = metrics["f1_at_0"]
    for k in range(101):
        current = metrics.get(f"f1_at_{k}", current)
        assert current == pytest.approx(f1_at_k(gold, gold, [float(row.es or 0) for row in rows], k))
    assert "f1_at_10" not in metrics


_ROW = st.tuples(
    st.integers(0, 1), st.sampled_from([0, 1, None]), st.integers(0, 100).map(lambda k: k / 100),
    st.sampled_from([subset.name for subset in SUBSETS]),
)  # fmt: skip


@settings(max_examples=15, deadline=None)
@given(st.lists(_ROW, min_size=1, max_size=20))
def test_f1_at_k_equals_its_definition_for_any_rows(drawn: list[tuple[int, int | None, float, str]]) -> None:
    metrics = reduced([Scored(gold=y, label=p, es=es, subset=subset) for y, p, es, subset in drawn])
    for k in (0, 53, 60):
        gold, labels, scores, _ = (list(column) for column in zip(*drawn, strict=True))
        assert value(metrics, f"f1_at_{k}") == pytest.approx(f1_at_k(gold, labels, scores, k))
    for metric in metrics:
        assert metric.value is None or metric.unit == "count" or 0.0 <= metric.value <= 1.0


def test_intervals_are_over_pictures() -> None:
    generator = np.random.default_rng(3)
    rows = [
        Scored(gold=int(generator.integers(0, 2)), label=int(generator.integers(0, 2)), cluster=f"picture {n // 2:03d}")
        for n in range(80)
    ]
    metrics = reduced(rows)
    gold, labels = [row.gold for row in rows], [float(row.label or 0) for row in rows]
    pictures = [row.cluster for row in rows]

    def f1_of(chosen: Sequence[int]) -> float:
        return macro_f1([gold[row] for row in chosen], [int(labels[row]) for row in chosen])

    metric = metric_of(metrics, "f1_at_0")
    assert (metric.ci_low, metric.ci_high) == pytest.approx(jackknife_ends(f1_of, pictures, logit=True))
    right = [float(p == y) for p, y in zip(labels, gold, strict=True)]
    metric = metric_of(metrics, "accuracy")
    assert (metric.ci_low, metric.ci_high) == pytest.approx(share_ends(right, pictures))


def test_one_cluster_has_no_interval() -> None:
    metric = metric_of(reduced([Scored(cluster="a"), Scored(gold=0, cluster="a")]), "f1_at_0")
    assert (metric.ci_low, metric.ci_high) == (None, None)


def test_metrics_do_not_depend_on_the_order_of_rows() -> None:
    rows = [replace(row, name=f"r{n}") for n, row in enumerate(whole_split(label=lambda _, index: index % 2))]
    assert {repr(metric) for metric in reduced(rows)} == {repr(metric) for metric in reduced(rows[::-1])}


# ------------------------------------------------------------------------------------------------------- paired test


def test_koehn_p_counts_draws_without_a_gain() -> None:
    generator = np.random.default_rng(5)
    gold = generator.integers(0, 2, 60)
    a, b = np.where(generator.random(60) < 0.8, gold, 1 - gold), np.where(generator.random(60) < 0.6, gold, 1 - gold)
    gains = drawn_macro_f1(gold.tolist(), a.tolist()) - drawn_macro_f1(gold.tolist(), b.tolist())
    expected = (1 + np.count_nonzero(gains <= 0)) / (len(gains) + 1)
    assert koehn_p(gold == 1, a == gold, b == gold) == pytest.approx(expected)
    assert koehn_p(gold == 1, a == gold, a == gold) == 1.0


def test_settings_are_tested_in_pairs() -> None:
    good, coin = whole_split(label=lambda gold, _: gold), whole_split(label=lambda _, index: index % 2)
    rows = good + [replace(row, setting="no-image") for row in coin] + [replace(row, setting="5-shot") for row in coin]
    metrics = reduced(rows)
    assert value(metrics, "p_better_than_no-image") == pytest.approx(1 / 10001)
    assert value(metrics, "p_better_than_zero-shot", setting="5-shot") == 1.0
    assert metric_of(metrics, "p_better_than_no-image").n == 723


def test_setting_tests_use_common_rows_only() -> None:
    a = [replace(row, name=f"r{n}") for n, row in enumerate(WORKED)]
    b = [replace(row, setting="no-image", status="excluded" if n < 2 else "ok") for n, row in enumerate(a)]
    assert metric_of(reduced(a + b), "p_better_than_no-image").n == 4
    none = [replace(row, status="excluded") for row in b]
    assert metric_of(reduced(a + none), "p_better_than_no-image").note == "no row in common"


# ------------------------------------------------------------------------------------------------------------- lengths


def test_length_metrics_count_texts_by_subset() -> None:
    rows = [Scored(claim="x" * n) for n in (0, 19, 20, 239, 500)]
    metrics = [metric for metric in reduced(rows) if metric.metric.startswith("caption_chars")]
    assert {metric.metric: metric.value for metric in metrics} == {
        "caption_chars_from_0": 2, "caption_chars_from_20": 1, "caption_chars_from_220": 2,
    }  # fmt: skip
    assert {(metric.setting, metric.subset, metric.n) for metric in metrics} == {("", "MuSE", 5)}
