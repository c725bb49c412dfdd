"""Selections of scored rows."""

import numpy as np
import pandas as pd
import pytest

from pipelines.benchmarks.metrics_kernel.rows import ScoredRows, aligned, coverage_note, worst_status
from tests.support.interval_oracle import freedom, share_ends

FRAME = pd.DataFrame(
    {
        "sample_id": ["a", "b", "c", "d"],
        "cluster": ["x", "", "x", "y"],
        "status": ["ok", "ok", "error", "missing"],
        "answer": ["A", None, None, None],
        "flags": [["cut"], None, ["cut"], None],
        "correct": [1.0, 0.0, np.nan, np.nan],
    }
)


def test_selected_rows_keep_labels_and_columns() -> None:
    rows = ScoredRows.of(FRAME, task="qa").where(cluster="x").named(subset="part")
    assert rows["sample_id"].tolist() == ["a", "c"]
    assert (rows.ok.tolist(), rows.failed.tolist(), rows.missing.any()) == ([True, False], [False, True], False)
    metric = rows.count("wrong", 1)
    assert (metric.task, metric.subset, metric.n, metric.n_failed, metric.unit) == ("qa", "part", 1, 1, "count")


def test_counts_of_rows_have_n_times_the_interval_of_their_share() -> None:
    right, clusters = [1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 0.0], ["a", "a", "b", "b", "c", "c", "c"]
    rows = ScoredRows.of(pd.DataFrame({"sample_id": clusters, "cluster": clusters, "status": "ok", "right": right}))
    metric = rows.count_of("right", rows["right"] == 1, category="x")
    low, high = share_ends(right, clusters)
    assert (metric.value, metric.n, metric.unit, metric.category) == (4, 7, "count", "x")
    assert metric.ci_df == pytest.approx(freedom(clusters))
    assert (metric.ci_low, metric.ci_high) == (pytest.approx(7 * low), pytest.approx(7 * high))
    none = rows.where(rows["right"] == 2)
    assert none.count_of("right", none["right"] == 1).value is None


def test_rows_without_a_cluster_are_clusters_of_their_sample() -> None:
    assert ScoredRows.of(FRAME)["cluster"].tolist() == ["x", "b", "x", "y"]


def test_absent_columns_hold_nothing() -> None:
    rows = ScoredRows.of(FRAME)
    assert np.isnan(rows.floats("bleurt")).all()
    assert rows.texts("rule").tolist() == [None] * 4
    assert not (rows["rule"] == "echo").any()


def test_flags_count_for_answers_alone() -> None:
    rows = ScoredRows.of(FRAME)
    assert rows.flagged("cut").tolist() == [True, False, False, False]
    assert rows.read.tolist() == [True, False, False, False]


def test_further_columns_are_over_the_selected_rows() -> None:
    rows = ScoredRows.of(FRAME).where(cluster="x").with_columns(correct=np.array([0.5, 0.25]))
    assert rows.where(sample_id="c").floats("correct").tolist() == [0.25]


def test_requests_never_run_are_noted() -> None:
    rows = ScoredRows.of(FRAME)
    assert coverage_note(rows) == "1 request was never run"
    assert coverage_note(rows.where(rows.ok)) == ""


def test_the_worst_status_of_several_rows_counts() -> None:
    columns = [np.array(["ok", "ok", "missing", "excluded"]), np.array(["ok", "excluded", "error", "missing"])]
    assert worst_status(*columns).tolist() == ["ok", "excluded", "error", "missing"]


def test_rows_are_aligned_by_their_keys() -> None:
    rows = ScoredRows.of(FRAME)
    first, second = aligned(rows.where(rows.ok), ScoredRows.of(FRAME[::-1]), "sample_id", "status")
    assert first["sample_id"].tolist() == second["sample_id"].tolist() == ["a", "b"]
