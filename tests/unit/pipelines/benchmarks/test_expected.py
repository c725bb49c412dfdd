"""Right answers as other tools show them: the grader accepts them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from jobs.demo.main import BENCHMARKS, write_sample
from pipelines.benchmarks import benchmark
from pipelines.benchmarks.records import Row
from pipelines.ingest.dataset import Dataset
from pipelines.ingest.ingest import ingest_benchmark
from pipelines.ingest.source_folder import Folder
from pipelines.plan.selection import TaskSetting, all_groups
from pipelines.storage.store import Store
from tests.support.viewer_output import make_target


def rows_of(name: str, folder: Path) -> Iterator[Row]:
    """Yield a row for each expected answer to the sample data, which gives this answer."""
    definition, data = benchmark(name), Store(str(folder / "data"))
    ingest_benchmark(definition, Folder(str(write_sample(name, folder))), data)
    dataset = Dataset.open(data, name)
    target = make_target(dataset, "m", name, tuple(cell for cell in all_groups(definition) if _is_read(cell)))
    assert definition.expected
    for sample in dataset.samples():
        for planned in target.prompts.rows(sample):
            cell = {"task": planned.task, "setting": planned.setting, "variant": planned.variant}
            row = Row(request_id="", sample=sample, model="m", status="ok", output="", seed=target.prompts.seed, **cell)
            for answer in definition.expected(row):
                yield replace(row, output=answer)


def _is_read(cell: TaskSetting) -> bool:
    return cell.setting not in ("unimodal", "leave-one-out")  # answers are scores, or people's


@pytest.mark.parametrize("name", BENCHMARKS)
def test_grader_accepts_expected_answers(name: str, tmp_path: Path) -> None:
    graded = set()
    for row in rows_of(name, tmp_path):
        reading = benchmark(name).reading(row)
        assert reading.answer, (row.task, row.setting, row.output)
        if "correct" in reading.values:
            assert reading.values["correct"] == 1.0, (row.task, row.setting, row.variant, row.output)
            graded.add(row.task)
    by_similarity_or_judge = {"oevqa", "freeform", "disambiguation", "reconstruction"}
    assert graded == {*benchmark(name).tasks} - by_similarity_or_judge
