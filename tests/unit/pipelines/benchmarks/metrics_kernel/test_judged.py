"""What people's labels say of a judge, from the rows of a benchmark."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pipelines.benchmarks import table_benchmark
from pipelines.benchmarks.known_tables import TableDefinition
from pipelines.benchmarks.metrics_kernel.repeats import reduce_repeats
from pipelines.benchmarks.records import Metric, Sample

OPEN = table_benchmark(TableDefinition(name="t", kind="open"))


def reduced(frame: pd.DataFrame) -> dict[tuple[str, str], Metric]:
    samples = {name: Sample(sample_id=name, data={"answers": ["x"]}) for name in frame["sample_id"]}
    return {(m.metric, m.category): m for m in reduce_repeats(OPEN.metrics, frame, samples)}


def rows(human: list[float], variant: str = "") -> pd.DataFrame:
    """Return eight answers of four pictures, of which the judge accepts the first six, with people's labels."""
    n = 8
    texts = {"task": "open", "setting": "default", "variant": variant, "subset": "", "status": "ok", "answer": "x"}
    return pd.DataFrame(
        {
            **{name: [text] * n for name, text in texts.items()},
            "sample_id": [f"q{i}" for i in range(n)],
            "category": ["a"] * 4 + ["b"] * 4,
            "cluster": [f"picture{i // 2}" for i in range(n)],
            "rule": [""] * n,
            "flags": [[]] * n,
            "verdict_state": ["ok"] * n,
            "accepted": [1.0] * 6 + [0.0] * 2,
            "rouge": [0.5] * n,
            "meteor": [0.5] * n,
            "human": human,
        }
    )


NAN = np.nan
LABELS = [1.0, 0.0, 1.0, NAN, NAN, NAN, 0.0, NAN]


def test_labels_correct_the_whole_and_the_categories_that_have_enough() -> None:
    metrics = reduced(rows(LABELS))
    whole = metrics["judged_accuracy_corrected", ""]
    # of four labelled answers the judge accepts three and people two; verdicts weigh covariance 1/8 by variance 6/28
    assert whole.note == (
        "prediction-powered: 4 labels, verdicts weigh 0.58; "
        "no two people labelled the same answer: their errors are not allowed for"
    )
    assert whole.value == pytest.approx(0.5)
    assert (metrics["judge_labels", ""].value, metrics["judge_labels", ""].n) == (4, 8)
    assert (metrics["judge_sensitivity", ""].value, metrics["judge_sensitivity", ""].n) == (1.0, 2)
    assert (metrics["judge_specificity", ""].value, metrics["judge_specificity", ""].n) == (0.5, 2)
    assert ("judged_accuracy_corrected", "a") in metrics
    assert ("judged_accuracy_corrected", "b") not in metrics  # labels of one picture


def test_nothing_follows_without_labels() -> None:
    metrics = {name for name, _ in reduced(rows([NAN] * 8)) if name.endswith("_corrected") or "judge_" in name}
    assert metrics == {"judge_invalid"}  # of the verdicts alone


def test_labels_are_of_the_first_repeat() -> None:
    several = reduced(pd.concat([rows(LABELS), rows([NAN] * 8, "#1")], ignore_index=True))
    once = reduced(rows(LABELS))
    for key in (("judged_accuracy_corrected", ""), ("judge_sensitivity", ""), ("judge_labels", "")):
        assert several[key] == once[key]
