from __future__ import annotations

from dataclasses import replace

import numpy as np

from jobs.nightly.items import ItemScores, ScoreKey, items_table, read_items


def test_rows_are_summed_by_sample_and_read_back() -> None:
    scores = ItemScores.of(np.array(["b", "a", "b"]), np.array([1.0, 0.5, 0.0]))
    assert scores.samples.tolist() == ["a", "b"]
    assert scores.totals.tolist() == [0.5, 1.0]
    assert scores.rows.tolist() == [1.0, 2.0]
    assert scores.mean == 0.5
    keys = [ScoreKey("m", "maia", "vsv", setting, "correct") for setting in ("1-frame", "")]
    items = {key: ItemScores.of(np.array(["a", "é"]), np.array([0.25, 1.0])) for key in keys}
    read = read_items(items_table(items))
    assert list(read) == keys
    for key, scores in read.items():
        assert scores.samples.tolist() == items[key].samples.tolist()
        assert scores.totals.tolist() == items[key].totals.tolist()
        assert scores.rows.tolist() == items[key].rows.tolist()
    assert read_items(items_table({})) == {}


def test_table_returns_what_nights_add_up_to_with_samples_that_tonight_lacks() -> None:
    key = ScoreKey("m", "maia", "", "", "correct")
    first = ItemScores.of(np.array(["a", "b"]), np.array([1.0, 0.0]), np.array(["clip", "clip"]))
    tonight = ItemScores.of(np.array(["b", "c"]), np.array([1.0, 1.0]), np.array(["clip", "other"]))
    added = first.begun().add(tonight.samples, tonight.totals)
    read = read_items(items_table({key: replace(tonight, accumulated=added)}))[key]
    assert read.samples.tolist() == ["b", "c"]
    assert read.clusters.tolist() == ["clip", "other"]
    assert read.accumulated.samples.tolist() == ["a", "b"]
    assert read.accumulated.clusters.tolist() == ["clip", "clip"]
    for name in ("weights", "before", "after"):
        assert getattr(read.accumulated, name).tolist() == getattr(added, name).tolist()
    for name in ("nights_before", "nights_after", "up", "down", "noise"):
        assert getattr(read.accumulated, name) == getattr(added, name)


def test_scores_of_earlier_versions_have_neither_clusters_nor_sums() -> None:
    key = ScoreKey("m", "maia", "vsv", "1-frame", "correct")
    table = items_table({key: ItemScores.of(np.array(["a", "b"]), np.array([1.0, 0.0]))})
    scores = read_items(table.select([*ScoreKey._fields, "sample_id", "total", "rows"]))[key]
    assert scores.clusters.tolist() == ["a", "b"]
    assert scores.accumulated is None
