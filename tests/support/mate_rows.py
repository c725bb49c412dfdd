"""Scored rows of MATE from answers of known quality, and their metrics."""

from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd

from pipelines.benchmarks.mate.answers import gold_json
from pipelines.benchmarks.mate.benchmark import BENCHMARK
from pipelines.benchmarks.mate.rows import read_row
from pipelines.benchmarks.records import Metric, Sample
from tests.support.sweeps import answered_row, metric_named, scored_row

Answer = Callable[[Sample, dict[str, Any]], str | None]


def frame(samples: Sequence[Sample], answer: Answer) -> pd.DataFrame:
    """Return the frame for `reduce` when every row gets this answer; None fails, `missing` was never run."""
    rows = []
    for sample in samples:
        for cell_row in sample.data["rows"]:
            output = answer(sample, cell_row)
            row = answered_row(sample, cell_row["task"], cell_row["setting"], output)
            rows.append(scored_row(row, "mate", "missing" if output == "missing" else ""))
    return pd.DataFrame(rows)


def reduced(samples: Sequence[Sample], answer: Answer) -> list[Metric]:
    return BENCHMARK.metrics(frame(samples, answer), {sample.sample_id: sample for sample in samples})


def find(
    metrics: Sequence[Metric], task: str, metric: str = "exact_match", category: str = "", setting: str = ""
) -> Metric:
    where = {"setting": setting} if setting else {}
    return metric_named(metrics, metric, task=task, category=category, **where)


def gold(_: Sample, cell_row: dict[str, Any]) -> str:
    return gold_json(cell_row["gold"])


def sample_of(name: str, *rows: dict[str, Any], setting: str = "2-shot", scene: Any = None) -> Sample:
    question_samples = [
        read_row({**item, "example_id": name, "scene": scene or item["scene"]}, setting=setting) for item in rows
    ]
    objects = {"camera_location": [], "objects": [item.as_json() for item in question_samples[0].scene.objects]}
    data = {"scene": objects, "rows": [item.as_data() for item in question_samples]}
    return Sample(sample_id=name, category=f"{len(objects['objects'])} objects", cluster=name, data=data)
