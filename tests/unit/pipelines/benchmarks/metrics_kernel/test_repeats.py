"""Metrics over repeats of requests, against numbers by hand and simulated answers."""

from __future__ import annotations

from itertools import combinations, product
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pipelines.benchmarks.default_reporter import reduce_scores
from pipelines.benchmarks.metrics_kernel.repeats import reduce_repeats
from pipelines.benchmarks.records import Metric, repeated_variant, split_variant


def rows(right: Any, answers: Any = None, status: str = "ok") -> pd.DataFrame:
    """Return scored rows of (questions, repeats) right answers, every question a cluster."""
    right = np.asarray(right, dtype=float)
    return pd.DataFrame(
        [
            {
                "sample_id": f"s{item}",
                "task": "sum",
                "setting": "words",
                "variant": repeated_variant("", repeat),
                "subset": "",
                "category": "",
                "cluster": f"s{item}",
                "status": status,
                "answer": str(answers[item][repeat]) if answers is not None else str(value),
                "flags": (),
                "correct": value,
            }
            for item, tries in enumerate(right)
            for repeat, value in enumerate(tries)
        ]
    )


def reduced(frame: pd.DataFrame) -> dict[str, Metric]:
    metrics = reduce_repeats(reduce_scores, frame, {})
    return {metric.metric: metric for metric in metrics if not metric.category}


def test_a_variant_keeps_its_name_and_its_repeat() -> None:
    assert [repeated_variant("de/0", repeat) for repeat in (0, 2)] == ["de/0", "de/0#2"]
    assert [split_variant(variant) for variant in ("", "#1", "7#12")] == [("", 0), ("", 1), ("7", 12)]


def test_a_metric_is_the_mean_over_repeats_with_an_interval_over_clusters() -> None:
    right = np.random.default_rng(3).random((40, 3)) < 0.6
    accuracy = reduced(rows(right))["accuracy"]
    assert accuracy.value == pytest.approx(right.mean())
    assert accuracy.n == 120
    copies = reduced(rows(np.repeat(right[:, :1], 3, axis=1)))["accuracy"]
    once = reduced(rows(right[:, :1]))["accuracy"]
    # Repeats that all say the same are no further evidence; different ones are.
    assert copies.ci_low == pytest.approx(once.ci_low, abs=5e-3)
    assert copies.ci_high == pytest.approx(once.ci_high, abs=5e-3)
    assert accuracy.ci_low is not None
    assert accuracy.ci_high is not None
    assert once.ci_high - once.ci_low > accuracy.ci_high - accuracy.ci_low


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_repeats_without_any_difference_do_not_narrow_the_interval(value: float) -> None:
    once, often = (reduced(rows(np.full((12, repeats), value)))["accuracy"] for repeats in (1, 5))
    assert (often.ci_low, often.ci_high) == pytest.approx((once.ci_low, once.ci_high))


def test_several_tries_are_the_shares_over_all_choices_of_k() -> None:
    right = [[1, 0, 0, 1], [0, 0, 0, 0], [1, 1, 1, 1], [0, 1, 0, 0]]
    metrics = reduced(rows(right))
    for k in (1, 2, 3, 4):
        chosen = [[[tries[i] for i in pick] for pick in combinations(range(4), k)] for tries in right]
        some = np.mean([np.mean([any(pick) for pick in picks]) for picks in chosen])
        every = np.mean([np.mean([all(pick) for pick in picks]) for picks in chosen])
        assert metrics[f"pass_at_{k}"].value == pytest.approx(some)
        assert metrics[f"pass_hat_{k}"].value == pytest.approx(every)
    assert metrics["pass_at_1"].value == pytest.approx(metrics["accuracy"].value)
    assert metrics["spread"].value == pytest.approx(np.std(np.mean(right, axis=0), ddof=1))


def test_majority_is_of_answers_and_shares_ties() -> None:
    answers = [["A", "B", "B"], ["A", "A", "B"], ["A", "B", "C"]]
    right = [[answer == "B" for answer in tries] for tries in answers]
    assert reduced(rows(right, answers))["majority"].value == pytest.approx((1 + 0 + 1 / 3) / 3)


def test_failed_tries_do_not_count() -> None:
    frame = rows([[1, 1], [0, 1]])
    frame.loc[3, ["status", "correct"]] = "error", np.nan
    metrics = reduced(frame)
    assert metrics["pass_at_2"].n == 1
    assert metrics["pass_at_1"].n == 2
    assert metrics["pass_at_1"].n_failed == 1


def test_intervals_of_means_over_repeats_cover() -> None:
    """Items of different difficulty: the interval is about the mean over items, not over rows."""
    generator, hits, runs = np.random.default_rng(11), 0, 60
    for _ in range(runs):
        chances = generator.beta(1.5, 1.0, 40)
        accuracy = reduced(rows(generator.random((40, 4)) < chances[:, None]))["accuracy"]
        assert accuracy.ci_low is not None
        assert accuracy.ci_high is not None
        hits += accuracy.ci_low <= 0.6 <= accuracy.ci_high
    assert 0.88 <= hits / runs <= 1.0


def test_rows_without_repeats_are_reduced_as_before() -> None:
    frame = rows([[1], [0], [1]])
    assert reduce_repeats(reduce_scores, frame, {}) == reduce_scores(frame, {})


def test_the_order_of_rows_does_not_matter() -> None:
    frame = rows(np.array([*product([0, 1], repeat=3)]))
    shuffled = frame.sample(frac=1, random_state=1).reset_index(drop=True)
    assert {name: metric.value for name, metric in reduced(frame).items()} == pytest.approx(
        {name: metric.value for name, metric in reduced(shuffled).items()}
    )


def test_a_count_is_of_the_answers_of_one_repeat() -> None:
    def count(scores: pd.DataFrame, _: Any) -> list[Metric]:
        return [Metric(task="t", setting="s", metric="unread", value=2.0, unit="count", n=len(scores))]

    metrics = reduce_repeats(count, rows(np.ones((8, 4))), {})
    assert (metrics[0].value, metrics[0].n) == (2.0, 8)
