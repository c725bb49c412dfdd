"""`metrics.json`: a number and its source survive as text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipelines.errors import StoreError
from pipelines.report.metrics_file import (
    PATH,
    TABLES,
    MetricSource,
    load_metrics,
    metric_row,
    metrics_json,
    read_metric,
)
from pipelines.storage.store import Store
from tests.unit.pipelines.report.cases import metric


@pytest.mark.parametrize(
    ("subset", "source", "texts"),
    [
        ("", TABLES, ("", "pool_accuracy")),
        ("En-De", TABLES, ("En-De", "pool_accuracy")),
        ("", MetricSource(judge="a/b"), ("", "pool_accuracy@a/b")),
        ("", MetricSource(prompt_set="paper"), ("prompt:paper", "pool_accuracy")),
        ("En-De", MetricSource(prompt_set="paper"), ("En-De, prompt:paper", "pool_accuracy")),
        ("", MetricSource(captioner="b"), ("captioner:b", "pool_accuracy")),
        ("En-De", MetricSource(prompt_set="paper", captioner="b"),
         ("En-De, prompt:paper, captioner:b", "pool_accuracy")),
    ],
)  # fmt: skip
def test_source_is_text_in_the_file_alone(subset: str, source: MetricSource, texts: tuple[str, str]) -> None:
    number = metric(subset=subset, source=source)
    row = metric_row(number)
    assert (row["subset"], row["metric"]) == texts
    assert read_metric(row) == number


def test_numbers_survive_the_file(tmp_path: Path) -> None:
    out = Store(str(tmp_path))
    assert load_metrics(out) is None
    numbers = [metric(model="a"), metric(model="b", value=None), metric(model="c", value=3, unit="count")]
    out.put(PATH, metrics_json(reversed(numbers)))
    assert load_metrics(out) == numbers


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{}", "is no tuple"),
        ("[1]", "is no dict"),
        ("[{}]", "a metric without 'benchmark'"),
        (json.dumps([{**metric_row(metric()), "n": "9"}]), 'n: "9" is no int'),
    ],
)
def test_damaged_file_names_the_remedy(tmp_path: Path, content: str, problem: str) -> None:
    out = Store(str(tmp_path))
    out.put(PATH, content.encode())
    with pytest.raises(StoreError, match=rf"metrics\.json: damaged \(.*{problem}.*`vlmsweep report` writes it again"):
        load_metrics(out)
