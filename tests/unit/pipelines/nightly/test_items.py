"""Scores by sample."""

from __future__ import annotations

import numpy as np

from pipelines.nightly.items import CellKey, ItemScores, items_table, read_items


def test_rows_are_summed_by_sample() -> None:
    scores = ItemScores.of(np.array(["b", "a", "b"]), np.array([1.0, 0.5, 0.0]))
    assert scores.samples.tolist() == ["a", "b"]
    assert scores.totals.tolist() == [0.5, 1.0]
    assert scores.rows.tolist() == [1.0, 2.0]
    assert scores.mean == 0.5


def test_table_returns_what_was_written() -> None:
    keys = [CellKey("m", "maia", "vsv", setting, "correct") for setting in ("1-frame", "")]
    items = {key: ItemScores.of(np.array(["a", "é"]), np.array([0.25, 1.0])) for key in keys}
    read = read_items(items_table(items))
    assert list(read) == keys
    for key, scores in read.items():
        assert scores.samples.tolist() == items[key].samples.tolist()
        assert scores.totals.tolist() == items[key].totals.tolist()
        assert scores.rows.tolist() == items[key].rows.tolist()
    assert read_items(items_table({})) == {}
