"""`metrics.json`: a number and its source survive as text."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from pipelines.errors import StoreError
from pipelines.report.entry_frame import EntryScores
from pipelines.report.metrics_file import (
    PATH,
    TABLES,
    MetricSource,
    load_metrics,
    metric_row,
    metrics_json,
    number_or_none,
    read_metric,
)
from pipelines.report.portable import portable, portable_text
from pipelines.schemas import SCORES
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


@pytest.mark.parametrize(
    ("value", "number"),
    [(1, 1.0), (np.float32(0.5), 0.5), (None, None), (math.nan, None), (-math.inf, None), (True, None), ("0.5", None)],
)
def test_number_or_none(value: object, number: float | None) -> None:
    assert number_or_none(value) == number


OUT = "/home/ann/work/results"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/home/ann/work/results/report/x.csv", "report/x.csv"),
        ("data at /home/ann/work/data, read", "data at ../data, read"),
        ("model '/mnt/models/qwen' is missing", "model '…/qwen' is missing"),
        ("--out=/home/ann/work/results", "--out=."),
        ("--out /home/ann/work", "--out .."),
        ("Qwen/Qwen2.5-VL and https://host/a/b and s3://bucket/a/b",
         "Qwen/Qwen2.5-VL and https://host/a/b and s3://bucket/a/b"),
        ("file:///mnt/models/qwen and /mnt/a:/mnt/b", "…/qwen and …/a:…/b"),
        ("weights of /home/bob are missing", "weights of … are missing"),
        ("and/or 3/4 /single", "and/or 3/4 /single"),
    ],
)  # fmt: skip
def test_local_paths_become_relative_to_the_output(text: str, expected: str) -> None:
    assert portable_text(text, OUT) == expected


def test_values_of_all_depths_are_cleaned_and_a_folder_with_a_space_is_one_name() -> None:
    value = {"a": ["/home/ann/work/data", 3], "b": {"c": "/home/ann/x"}}
    assert portable(value, OUT) == {"a": ["../data", 3], "b": {"c": "…/x"}}
    value = ["--data=/mnt/of bob/my data", "--out", "/home/ann/work/my results/x", "/home/bob bob", "two /mnt/a/b"]
    assert portable(value, OUT) == ["--data=…/my data", "--out", "../my results/x", "…", "two …/b"]


def test_absent_texts_are_none_and_requests_without_scores_are_missing() -> None:
    row = dict.fromkeys(SCORES.names) | {"request_id": "a", "status": "ok", "answer": None, "flags": [], "values": []}
    frame = EntryScores(pa.Table.from_pylist([row], SCORES), (), (), {}).join({"request_id": ["a", "b"]})
    assert frame["answer"].tolist() == [None, None]
    assert frame["status"].tolist() == ["ok", "missing"]
    assert frame["verdict_state"].tolist() == ["absent", "absent"]


def test_equal_values_of_rows_are_one_object() -> None:
    row = dict.fromkeys(SCORES.names) | {"status": "ok", "answer": "A", "flags": ["late"], "values": []}
    table = pa.Table.from_pylist([row | {"request_id": name} for name in "ab"], SCORES)
    frame = EntryScores(table, (), (), {}).join({"request_id": ["a", "b"]})
    for column in ("answer", "flags"):
        assert frame[column][0] is frame[column][1]
    assert frame["flags"].tolist() == [["late"], ["late"]]
