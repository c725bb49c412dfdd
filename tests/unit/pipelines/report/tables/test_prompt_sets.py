"""The table of metrics by set of prompts, with numbers worked out by hand."""

from __future__ import annotations

from math import sqrt
from typing import Any

import pytest

from pipelines.benchmarks.tables import TableValue
from pipelines.report.entry_results import EntryResults
from pipelines.report.reduce import prompt_set_subset
from pipelines.report.tables.prompt_sets import captioner_table, prompt_set_table


def row(value: float | None, subset: str = "", metric: str = "exact_match", **fields: Any) -> dict[str, Any]:
    return {
        "benchmark": "unpie", "model": "m", "task": "grounding", "setting": "lm", "subset": subset, "category": "",
        "metric": metric, "value": value, "unit": "fraction", "plain": False, "n": 8, "n_failed": 0, "ci_low": None,
        "ci_high": None, **fields,
    }  # fmt: skip


def results(metrics: list[dict[str, Any]], by_set: list[dict[str, Any]], *sets: str) -> EntryResults:
    return EntryResults(metrics=metrics, counts=[], answers=[], judge_failed=0, prompt_sets=sets, by_prompt_set=by_set)


def cells(reduced: EntryResults) -> list[list[object]]:
    table = prompt_set_table("unpie", [reduced])
    assert table is not None
    return [[cell.value if isinstance(cell, TableValue) else cell for cell in line.cells] for line in table.rows]


def test_mean_and_spread_are_over_the_sets() -> None:
    metrics = [row(4 / 8), row(1 / 8, metric="other"), row(1 / 8, category="Homo"), row(1 / 8, subset="En-De")]
    by_set = [row(2 / 8, "prompt:a"), row(7 / 8, "prompt:a", category="Homo"), row(6 / 8, "prompt:b")]
    (line,) = cells(results(metrics, by_set, "default", "a", "b"))
    # mean of 0.5, 0.25 and 0.75; squares of the differences: 0, 1/16 and 1/16, over 3 - 1
    expected = [0.5, 0.25, 0.75, 0.5, pytest.approx(sqrt(1 / 16)), 0.25, 0.75]
    assert line == ["grounding", "lm", "exact_match", *expected]


def test_a_set_without_a_number_leaves_no_spread_of_one() -> None:
    assert cells(results([row(0.5)], [row(None, "prompt:a")], "default", "a")) == [
        ["grounding", "lm", "exact_match", 0.5, None, None, None, None, None]
    ]


def test_models_in_different_sets_share_the_columns() -> None:
    first = results([row(0.5)], [row(0.25, "prompt:a")], "default", "a")
    second = results([row(1.0, model="n")], [row(0.0, "prompt:default", model="n")], "b", "default")
    table = prompt_set_table("unpie", [first, second])
    assert table is not None
    assert table.columns[3:6] == ("default", "a", "b")
    values = [[getattr(cell, "value", None) for cell in line.cells[3:6]] for line in table.rows]
    assert values == [[0.5, 0.25, None], [0.0, None, 1.0]]


def test_one_set_makes_no_table() -> None:
    assert prompt_set_table("unpie", [results([row(0.5)], [])]) is None


def test_subset_of_another_set_names_it_last() -> None:
    assert (prompt_set_subset("paper"), prompt_set_subset("paper", "En-De")) == ("prompt:paper", "En-De, prompt:paper")


def test_captioners_have_a_column_each_with_counts() -> None:
    metrics = [row(4 / 8, setting="sm", ci_low=0.25, ci_high=0.75), row(1 / 8)]
    by_set = [row(2 / 8, "captioner:b", setting="sm", n=4, n_failed=1)]
    reduced = EntryResults(
        metrics=metrics, counts=[], answers=[], judge_failed=0, captioners=("a", "b"), by_prompt_set=by_set
    )
    table = captioner_table("unpie", [reduced])
    assert table is not None
    assert table.columns == ("Task", "Setting", "Metric", "a", "b")
    (line,) = table.rows  # of the setting whose prompts hold captions
    assert line.cells[:3] == ("grounding", "sm", "exact_match")
    first, other = line.cells[3:]
    assert first == TableValue(value=0.5, low=0.25, high=0.75, n=8, n_failed=0)
    assert other == TableValue(value=0.25, n=4, n_failed=1)
    assert prompt_set_table("unpie", [reduced]) is None


def test_subset_of_another_captioner_names_it_last() -> None:
    assert prompt_set_subset("", captioner="b") == "captioner:b"
    assert prompt_set_subset("paper", "En-De", captioner="b") == "En-De, prompt:paper, captioner:b"
