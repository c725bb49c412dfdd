from __future__ import annotations

from math import sqrt
from typing import Any

import pytest

from pipelines.benchmarks.tables import TableValue
from pipelines.report.entry_results import EntryResults
from pipelines.report.metrics_file import Measured, MetricSource
from pipelines.report.tables.prompt_sets import captioner_table, prompt_set_table
from tests.support.measured import measured


def row(value: float | None, prompt_set: str = "", metric: str = "exact_match", **fields: Any) -> Measured:
    values = {
        "benchmark": "unpie", "model": "m", "task": "grounding", "setting": "lm", "metric": metric, "value": value,
        "n": 8, "source": MetricSource(prompt_set=prompt_set), **fields,
    }  # fmt: skip
    return measured(**values)


def results(metrics: list[Measured], by_set: list[Measured], *sets: str) -> EntryResults:
    return EntryResults(metrics=metrics, counts=[], answers=[], judge_failed=0, prompt_sets=sets, by_prompt_set=by_set)


def cells(reduced: EntryResults) -> list[list[object]]:
    table = prompt_set_table("unpie", [reduced])
    return [[cell.value if isinstance(cell, TableValue) else cell for cell in line.cells] for line in table.rows]


def test_mean_and_spread_are_over_the_sets_that_have_a_number() -> None:
    metrics = [row(4 / 8), row(1 / 8, metric="other"), row(1 / 8, category="Homo"), row(1 / 8, subset="En-De")]
    by_set = [row(2 / 8, "a"), row(7 / 8, "a", category="Homo"), row(6 / 8, "b")]
    (line,) = cells(results(metrics, by_set, "default", "a", "b"))
    # mean of 0.5, 0.25 and 0.75; squares of the differences: 0, 1/16 and 1/16, over 3 - 1
    expected = [0.5, 0.25, 0.75, 0.5, pytest.approx(sqrt(1 / 16)), 0.25, 0.75]
    assert line == ["grounding", "lm", "exact_match", *expected]
    assert cells(results([row(0.5)], [row(None, "a")], "default", "a")) == [
        ["grounding", "lm", "exact_match", 0.5, None, None, None, None, None]
    ]
    assert prompt_set_table("unpie", [results([row(0.5)], [])]) is None


def test_models_in_different_sets_share_the_columns() -> None:
    first = results([row(0.5)], [row(0.25, "a")], "default", "a")
    second = results([row(1.0, model="n")], [row(0.0, "default", model="n")], "b", "default")
    table = prompt_set_table("unpie", [first, second])
    assert table.columns[3:6] == ("default", "a", "b")
    values = [[getattr(cell, "value", None) for cell in line.cells[3:6]] for line in table.rows]
    assert values == [[0.5, 0.25, None], [0.0, None, 1.0]]


def test_captioners_have_a_column_each_with_counts() -> None:
    metrics = [row(4 / 8, setting="sm", ci_low=0.25, ci_high=0.75), row(1 / 8)]
    by_set = [row(2 / 8, source=MetricSource(captioner="b"), setting="sm", n=4, n_failed=1)]
    reduced = EntryResults(
        metrics=metrics, counts=[], answers=[], judge_failed=0, captioners=("a", "b"), by_prompt_set=by_set
    )
    table = captioner_table("unpie", [reduced])
    assert table.columns == ("Task", "Setting", "Metric", "a", "b")
    (line,) = table.rows  # of the setting whose prompts hold captions
    assert line.cells[:3] == ("grounding", "sm", "exact_match")
    first, other = line.cells[3:]
    assert first == TableValue(value=0.5, low=0.25, high=0.75, n=8, n_failed=0)
    assert other == TableValue(value=0.25, n=4, n_failed=1)
    assert prompt_set_table("unpie", [reduced]) is None
