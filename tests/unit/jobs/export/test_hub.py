"""The data set folder: Parquet files that its card names, and nothing private."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pyarrow.parquet as pq
import pytest
import yaml

from jobs.cli.main import run
from pipelines.errors import DamagedPartError, DatasetError, PipelineError
from pipelines.ingest.dataset import Dataset
from pipelines.plan.plan_store import PlanStore
from pipelines.plan.run_manifest import load_run, save_run
from pipelines.samples.rows import ExportedRun, ExportRow, RowReader, text_of
from pipelines.schemas import PREDICTIONS
from pipelines.storage.parts import part_folder, to_parquet
from pipelines.storage.store import Store
from tests.support.viewer_output import make_target, metric, part, write_metrics, write_output
from tests.unit.jobs.export.conftest import SECRET


@pytest.fixture
def exported(out: str, folder: Path) -> Path:
    assert run(["export", "hub", out, str(folder)]) == 0
    return folder


def test_card_names_the_files_of_each_configuration(exported: Path) -> None:
    _, head, text = (exported / "README.md").read_text().split("---\n", 2)
    configs = {config["config_name"]: config["data_files"] for config in yaml.safe_load(head)["configs"]}
    assert {*configs} == {"maia", "metrics"}
    for ((files),) in configs.values():
        assert files["split"] == "test"
        tables = [pq.read_table(path) for path in exported.glob(files["path"])]
        assert tables
        assert len({table.schema for table in tables}) == 1
    assert "| m/1 |" in text
    assert "arXiv 2502.16989" in text


def test_names_are_text_on_the_card(maia_data: str, tmp_path: Path, folder: Path) -> None:
    uri = write_output(str(tmp_path / "results"), maia_data, ["<img src=x>|\n# [free](http://x)\x1b[2J", ".."])
    assert run(["export", "hub", uri, str(folder)]) == 0
    lines = (folder / "README.md").read_text().splitlines()
    assert [line for line in lines if line.startswith("#")] == ["# Answers of vision-language models"]
    (line,) = [line for line in lines if "free" in line]
    assert line.startswith(r"| &lt;img src=x&gt;\| ↵ \# \[free\](http\://x)�\[2J | ")
    assert {path.parent for path in folder.rglob("*.parquet")} == {folder / "data" / "maia"}
    assert run(["export", "lm-eval", uri, str(tmp_path / "a/b/c"), "--models", ".."]) == 0
    assert len([*(tmp_path / "a/b/c").glob("%2E%2E/results_*.json")]) == 1


@pytest.mark.parametrize(("adapter", "shown"), [({}, "owner/base"), ({"adapter": "/home/me/lora"}, "")])
def test_adapter_hides_base(adapter: dict[str, str], shown: str, maia_data: str, tmp_path: Path, folder: Path) -> None:
    out = Store(write_output(str(tmp_path / "results"), maia_data, ["m"]))
    earlier = load_run(out)
    entry = earlier.entries[0]
    tuned = replace(entry, target=replace(entry.target, fingerprint={"model": "owner/base", **adapter}))
    save_run(out, earlier, replace(earlier, entries=(tuned,)))
    assert run(["export", "hub", out.uri, str(folder)]) == 0
    assert f"| m | {shown} |" in (folder / "README.md").read_text()


def test_rows_hold_messages_answers_and_null_scores(exported: Path) -> None:
    rows = pq.read_table(exported / "data" / "maia" / "m%2F1.parquet").to_pylist()
    assert len(rows) == 48 + 48 * 8
    failed = [row for row in rows if row["status"] == "error"]
    assert {(row["output"], row["score_correct"], row["score_accepted"], row["error_type"]) for row in failed} == {
        (None, None, None, "http_401")
    }
    row = next(row for row in rows if row["task"] == "oevqa")
    (media,) = row["media"]
    assert row["messages"][0]["content"].startswith(f"<video:{Path(media).stem}>")
    assert (row["score_accepted"], row["score_correct"]) == (0.0, None)
    unscored = pq.read_table(exported / "data" / "maia" / "new.parquet")
    assert unscored["score_correct"].null_count == unscored.num_rows == len(rows)


def test_nothing_private_is_written(exported: Path, out: str, maia_data: str) -> None:
    for path in [path for path in exported.rglob("*") if path.is_file()]:
        text = str(pq.read_table(path).to_pylist()) if path.suffix == ".parquet" else path.read_text()
        for private in (SECRET, out, maia_data):
            assert private not in text, path
    assert not (exported / "media").exists()


def test_media_are_copied_on_request(out: str, folder: Path) -> None:
    assert run(["export", "hub", out, str(folder), "--media", "--models", "m/1"]) == 0
    rows = pq.read_table(folder / "data" / "maia" / "m%2F1.parquet").to_pylist()
    assert {path.name for path in (folder / "media").iterdir()} == {name for row in rows for name in row["media"]}


@pytest.fixture
def results(maia_data: str, tmp_path: Path) -> str:
    uri = write_output(str(tmp_path / "results"), maia_data, ["good", "bad"])
    rows = [{**metric(model, "aggregate", 0.5), "metric": "agg_acc"} for model in ("good", "bad")]
    write_metrics(uri, [*rows, metric("good", "black-video", 0.25)])
    return uri


def test_results_name_tasks_of_the_benchmarks_file(results: str, folder: Path) -> None:
    assert run(["export", "hf-eval", results, str(folder), "--datasets", "maia=me/maia", "--models", "good"]) == 0
    ((result),) = yaml.safe_load((folder / "models/good/.eval_results/maia.yaml").read_text())
    benchmark = yaml.safe_load((folder / "datasets/maia/eval.yaml").read_text())
    assert result["dataset"] == {"id": "me/maia", "task_id": "vsv_aggregate"}
    assert (result["value"], result["evaluation_framework"]) == (0.5, benchmark["evaluation_framework"])
    assert "agg_acc (fraction) of 8 rows" in result["notes"]
    assert "95% interval 0.2500 to 0.7500" in result["notes"]
    assert benchmark["tasks"] == [{"id": "vsv_aggregate", "config": "default", "split": "test"}]
    assert {*benchmark} == {"name", "description", "evaluation_framework", "tasks"}
    assert len([path for path in folder.rglob("*") if path.is_file()]) == 2


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        ((), "no number to export"),
        (("--datasets", "maia=../../x/y"), "not BENCHMARK=OWNER/NAME"),
        (("--datasets", "other=me/x"), "other"),
    ],
)
def test_what_is_no_data_set_of_the_hub_is_refused(
    results: str, folder: Path, flags: tuple[str, ...], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["export", "hf-eval", results, str(folder), *flags]) == 2
    assert problem in capsys.readouterr().err


@pytest.mark.parametrize(
    ("folder", "code", "message"),
    [
        ("s3://bucket/x", 2, "only local folders"),
        ("{tmp}/full", 2, "holds files already"),
        ("{tmp}/full/file", 3, "no folder can be created there"),
    ],
)
def test_unusable_folders_are_refused(
    out: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], folder: str, code: int, message: str
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("kept")
    assert run(["export", "hub", out, folder.format(tmp=tmp_path)]) == code
    assert message in capsys.readouterr().err
    assert (tmp_path / "full" / "file").read_text() == "kept"


def test_something_else_than_an_output_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    assert run(["export", "lm-eval", str(tmp_path / "empty"), str(tmp_path / "x")]) == 2
    assert "no run.json" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


def test_interrupted_export_says_that_its_folder_cannot_be_used_again(
    out: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def interrupt(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr("jobs.export.lm_eval.export_lm_eval", interrupt)
    assert run(["export", "lm-eval", out, str(tmp_path / "x")]) == 130
    assert "x holds an unfinished export: remove it before the same command runs again" in caplog.text


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
