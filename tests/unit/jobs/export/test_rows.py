"""Exported rows: what the run planned, with prompts as sent and scores where there are any."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from pipelines.errors import DamagedPartError, DatasetError, PipelineError
from pipelines.ingest.dataset import Dataset
from pipelines.plan.plan_store import PlanStore
from pipelines.samples.rows import ExportedRun, ExportRow, RowReader, text_of
from pipelines.schemas import PREDICTIONS
from pipelines.storage.parts import part_folder, to_parquet
from pipelines.storage.store import Store
from tests.support.viewer_output import make_target, part


def read(out: str, model: str, task: str = "") -> list[ExportRow]:
    run = ExportedRun.open(out, data="", models=[model], benchmarks=[])
    with PlanStore.reading(run.out) as plans:
        return list(RowReader(run, plans).rows(run.entries[0], task))


def test_rows_have_prompt_answer_scores_and_what_is_expected(out: str) -> None:
    rows = read(out, "m/1")
    assert len(rows) == 48 + 48 * 8
    by_status = {row.prediction["status"]: row for row in rows}
    assert by_status["error"].values == {}
    row = next(row for row in rows if row.planned.task == "vsv" and row.values)
    assert row.values == {"correct": 1.0}
    assert row.expected in {("A",), ("B",)}
    ((((role, parts),),),) = (row.steps,)
    assert (role, parts[0].media and parts[0].media.blank) == ("user", "#000000, 640x360 pixels")
    assert row.sample.data["true"][int(row.planned.variant)] in text_of(parts)


def test_ids_are_unique_within_a_task_and_rows_may_have_no_scores(out: str) -> None:
    for task in ("vsv", "oevqa"):
        names = [row.item_id for row in read(out, "m/1", task)]
        assert len(names) == len({*names}) > 0
    assert {row.scores is None for row in read(out, "new")} == {True}


def test_answers_of_another_prompt_are_left_out(out: str, maia_data: str, tmp_path: Path) -> None:
    copy = str(shutil.copytree(out, tmp_path / "copy"))
    dataset = Dataset.open(Store(maia_data), "maia")
    target = make_target(dataset, "m/1")
    row = next(row for sample in dataset.samples() for row in target.prompts.rows(sample))
    stale = {**target.columns(row), "request_id": "0" * 32, "status": "ok", "output": "an old answer"}
    Store(copy).put(
        f"{part_folder('predictions', 'maia', 'm/1')}/cba06b5736faf67e54b07b56.parquet",
        to_parquet([stale], PREDICTIONS),
    )
    assert len(read(copy, "m/1")) == len(read(out, "m/1"))


@pytest.mark.parametrize(
    ("models", "benchmarks", "message"), [(["m/2"], [], "m/1"), ([], ["vague"], "maia"), (["m/1"], ["mate"], "maia")]
)
def test_absent_names_are_refused(out: str, models: list[str], benchmarks: list[str], message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        ExportedRun.open(out, data="", models=models, benchmarks=benchmarks)


def test_missing_data_and_damaged_parts_are_reported(out: str, tmp_path: Path) -> None:
    run = ExportedRun.open(out, data=str(tmp_path), models=[], benchmarks=[])
    with PlanStore.reading(run.out) as plans, pytest.raises(DatasetError, match="no ingested data"):
        list(RowReader(run, plans).rows(run.entries[0]))
    copy = str(shutil.copytree(out, tmp_path / "copy"))
    part(copy, "predictions", "m/1").write_bytes(b"PAR1")
    with pytest.raises(DamagedPartError):
        read(copy, "m/1")


def test_answers_are_not_joined_with_other_data(out: str) -> None:
    run = ExportedRun.open(out, data="", models=["m/1"], benchmarks=[])
    entry = run.entries[0]
    entry = replace(entry, target=entry.target.with_prompts(dataset_fingerprint="0" * 32))
    with PlanStore.reading(run.out) as plans, pytest.raises(DatasetError, match="not the data that the run read"):
        RowReader(run, plans).dataset(entry)
