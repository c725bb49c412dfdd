"""Questions to a judge in changed words: how they are changed, and what the report says of the verdicts."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from models.spec import ModelSpec
from pipelines.benchmarks.judges import CHECKS, PADDED, SWAPPED, changed_row, check_metrics, check_value
from pipelines.benchmarks.records import Row, Sample
from pipelines.ingest.known import load_tables
from pipelines.ingest.table import ingest_table
from pipelines.plan.run_spec import RunSpec
from pipelines.storage.parts import read_part
from pipelines.storage.store import Store
from pipelines.sweep.run import run_sweep


def row(**data: Any) -> Row:
    sample = Sample(sample_id="a", data=data)
    return Row(request_id="r", sample=sample, model="m", task="t", setting="s", variant="", status="ok", output="red")


@pytest.mark.parametrize(
    ("data", "swapped", "output"),
    [
        ({"answers": ["one", "two"]}, {"answers": ["two", "one"]}, "red"),
        ({"answers": ["one"]}, {"answers": ["red"]}, "one"),
        ({"sentence": "one", "phrase": "p"}, {"sentence": "red", "phrase": "p"}, "one"),
    ],
)
def test_swapped_turns_references_or_the_answer(data: dict[str, Any], swapped: dict[str, Any], output: str) -> None:
    changed = changed_row(row(**data), SWAPPED)
    assert (changed.sample.data, changed.output) == (swapped, output)


def test_padded_answers_and_shifts_by_hand() -> None:
    padded = changed_row(row(), PADDED)
    assert padded.output == "red red"
    assert changed_row(row(), SWAPPED) is None
    frame = pd.DataFrame(
        {"task": "t", "setting": "s", "cluster": "", "sample_id": list("abcde"), "status": "ok",
         "accepted": [1.0, 0.0, 0.0, 1.0, 1.0], check_value(PADDED): [1.0, 1.0, 1.0, 0.0, np.nan]}
    )  # fmt: skip
    metrics = {(m.metric, m.category): m for m in check_metrics(frame)}
    assert {key: (m.value, m.n) for key, m in metrics.items()} == {
        ("judge_changed", PADDED): (0.75, 4),
        ("judge_shift", PADDED): (0.25, 4),
        # mean d = 1/4, mean square 3/4: t^2 = 3 d^2 / (3/4 - d^2 / 4) of three degrees of freedom
        ("judge_shift_p", PADDED): (pytest.approx(0.648139, abs=1e-6), 4),
    }
    shift = metrics["judge_shift", PADDED]
    assert shift.ci_low is not None
    assert shift.ci_low < 0
    assert check_metrics(frame[["task", "setting"]]) == []


def test_a_sweep_asks_so_many_changed_questions_and_keeps_its_metrics(tmp_path: Path) -> None:
    with (tmp_path / "questions.csv").open("w") as file:
        rows = csv.writer(file)
        rows.writerow(("id", "question", "answer"))
        rows.writerows((f"q{number}", f"What is {number}?", f"word {number}") for number in range(12))
    data = str(tmp_path / "data")
    ingest_table(str(tmp_path / "questions.csv"), Store(data), name="checked", kind="open")
    load_tables(data, ["checked"])
    guess = ModelSpec(engine="random")
    accuracies = []
    for checks in (0, 5):
        spec = RunSpec(
            data=data, out=str(tmp_path / "out"), models={"m": guess}, benchmarks=("checked",),
            judges=(("judge", ModelSpec(engine="random", seed=1)),), judge_checks=checks,
        )  # fmt: skip
        run_sweep(spec)
        numbers = json.loads((tmp_path / "out" / "report" / "metrics.json").read_text())
        accuracies += [n["value"] for n in numbers if n["metric"] == "judged_accuracy"]
    assert accuracies[0] == accuracies[1]
    check_counts = {n["category"]: n["n"] for n in numbers if n["metric"] == "judge_changed"}
    assert set(check_counts) == set(CHECKS)
    assert max(check_counts.values()) <= 5
    store = Store(str(tmp_path / "out"))
    questions = sum(read_part(store, info.path).num_rows for info in store.list("judgements", "*.parquet"))
    assert questions > 12 + 5
    table = (tmp_path / "out" / "report" / "tables" / "checked_judge_checks.csv").read_text().splitlines()
    assert {line["Question"] for line in csv.DictReader(table)} == set(CHECKS)
