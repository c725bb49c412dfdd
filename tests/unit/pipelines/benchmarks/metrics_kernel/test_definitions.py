"""What follows from the definition of a metric: numbers, groups, means, differences and tests."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from pipelines.benchmarks.metrics_kernel.definitions import (
    Grouping,
    Measure,
    MetricDef,
    compared,
    estimates,
    mean_of,
    with_intervals,
)
from pipelines.benchmarks.metrics_kernel.rows import ScoredRows
from pipelines.benchmarks.records import Metric, Sample
from pipelines.metrics.f1 import macro_f1

ACCURACY = MetricDef(name="accuracy", value="correct", form="both")
BY_KIND = Grouping(names=("cat", "dog"), mean_category="All")


def frame(correct: list[float], categories: list[str], status: str = "") -> pd.DataFrame:
    names = [f"s{index}" for index in range(len(correct))]
    states = [{"o": "ok", "e": "error", "m": "missing"}[letter] for letter in status or "o" * len(correct)]
    identity = {"sample_id": names, "cluster": names, "status": states, "category": categories}
    return pd.DataFrame({**identity, "correct": correct})


def measured(measures: list[Measure]) -> dict[tuple[str, str], Metric]:
    return {(m.metric, m.category): m for m in with_intervals(estimates(measures))}


ROWS = ScoredRows.of(frame([1, 0, 1, 1, 0], ["cat", "cat", "dog", "dog", "dog"]))


def test_groups_and_their_mean() -> None:
    metrics = measured(BY_KIND.measures(ACCURACY, ROWS))
    values = {category: (metric.value, metric.n) for (_, category), metric in metrics.items()}
    assert values == {"": (0.6, 5), "cat": (0.5, 2), "dog": (2 / 3, 3), "All": (pytest.approx(7 / 12), 5)}
    assert all(metric.ci_low is not None for metric in metrics.values())


def test_the_mean_of_groups_needs_all_of_them() -> None:
    cats = ROWS.where(category="cat")
    assert [measure.parts[0].category for measure in BY_KIND.measures(ACCURACY, cats)] == ["", "cat"]
    lacking = mean_of([ACCURACY.estimate(cats), ACCURACY.estimate(ROWS.where(category="bird"))])
    assert (lacking.metric.value, lacking.metric.note) == (None, "no row to measure")


def test_macro_means_are_given_where_groups_differ_in_size() -> None:
    by_kind = replace(BY_KIND, mean_category="", mean_suffix="_macro")
    assert measured(by_kind.measures(ACCURACY, ROWS))["accuracy_macro", ""].value == pytest.approx(7 / 12)
    same = ROWS.at(np.arange(4))
    assert ("accuracy_macro", "") not in measured(by_kind.measures(ACCURACY, same))


def test_failed_rows_count_where_a_definition_scores_them() -> None:
    rows = ScoredRows.of(frame([1, np.nan, np.nan], ["cat"] * 3, "oem"))
    plain, strict = (definition.estimate(rows).metric for definition in (ACCURACY, replace(ACCURACY, failed_as=0.0)))
    assert (plain.value, plain.n, plain.n_failed) == (1.0, 1, 1)
    assert (strict.value, strict.n, strict.n_failed) == (0.5, 2, 1)


def test_a_row_without_a_score_leaves_the_metric_without_a_value() -> None:
    rows = ScoredRows.of(frame([1, np.nan], ["cat", "dog"]))
    definition = replace(ACCURACY, missing=lambda unscored: f"no score: {', '.join(unscored['category'])}")
    metric = definition.estimate(rows).metric
    assert (metric.value, metric.n, metric.note) == (None, 2, "no score: dog")
    assert ACCURACY.estimate(rows.named(blocked="not complete")).metric.note == "not complete"


def test_known_numbers_have_no_interval() -> None:
    rows = ScoredRows.of(frame([0.25, 0.5, np.nan], ["cat"] * 3, "ooe"))
    (metric,) = with_intervals([replace(ACCURACY, is_exact=True).estimate(rows)])
    assert (metric.value, metric.ci_low, metric.n_failed) == (0.375, None, 0)


def test_share_of_rows_that_a_column_selects() -> None:
    """A share of wrong answers, as columns whose sums are divided."""
    definition = MetricDef(
        name="cat_share",
        value=lambda rows: np.stack([(rows["category"] == "cat") & (rows["correct"] == 0), rows["correct"] == 0], 1),
    )
    metric = definition.estimate(ROWS).metric
    assert (metric.value, metric.n) == (0.5, 2)
    assert definition.estimate(ROWS.where(correct=1)).metric.note == "no row to measure"


def test_difference_of_two_estimates() -> None:
    cats, dogs = (ACCURACY.estimate(ROWS.where(category=name)) for name in ("cat", "dog"))
    (metric,) = with_intervals([dogs.minus(cats, metric="gap", unit="")])
    assert (metric.metric, metric.value) == ("gap", pytest.approx(1 / 6))
    assert metric.ci_low < metric.value < metric.ci_high


def test_statistics_of_sums_are_metrics_too() -> None:
    gold = np.array([1, 1, 0, 0, 0], dtype=np.bool_)

    def columns(rows: ScoredRows) -> np.ndarray:
        right = rows.floats("correct") == 1
        return np.stack([right & gold, right & ~gold, np.ones(len(rows))], axis=1)

    definition = MetricDef(name="f1", value=columns, statistic=macro_f1)
    # right: 1 of 2 and 2 of 3; both classes have F1 2TP / (2TP + 2 errors)
    assert definition.estimate(ROWS).metric.value == pytest.approx((2 / 4 + 4 / 6) / 2)


def test_one_definition_gives_the_test_of_two_models() -> None:
    def measures(scores: pd.DataFrame, _samples: Mapping[str, Sample]) -> Iterator[Measure]:
        yield from BY_KIND.measures(ACCURACY, ScoredRows.of(scores, task="qa", setting="vlm"))
        yield Measure(definition=replace(ACCURACY, name="alone", form="single"), parts=(ScoredRows.of(scores),))

    a = frame([1, 0, 1, 1, 0, 1], ["cat", "cat", "dog", "dog", "dog", "dog"])
    b = frame([1, 1, 1, 0, 0, np.nan], ["cat", "cat", "dog", "dog", "dog", "dog"])
    (pair,) = compared(measures, a, b, {})
    test = pair.test()
    assert test is not None
    assert (pair.task, pair.setting, test.value, test.category) == ("qa", "vlm", "accuracy", "All")
    # the last row has no score in B: cats 1/2 and 2/2, dogs 2/3 and 1/3
    assert (test.mean_a, test.mean_b, test.n) == (pytest.approx(7 / 12), pytest.approx(2 / 3), 5)


def test_statistics_need_every_row_of_both_models() -> None:
    definition = MetricDef(
        name="f1",
        value=lambda rows: np.stack([rows.floats("correct")] * 3, axis=1),
        statistic=macro_f1,
        form="both",
    )
    sides = [
        Measure(definition=definition, parts=(ScoredRows.of(frame(list(scores), ["cat"] * 2)),))
        for scores in ((1.0, 0.0), (1.0, np.nan))
    ]
    assert sides[0].paired(sides[1]) is None
    assert sides[0].paired(sides[0]) is not None
