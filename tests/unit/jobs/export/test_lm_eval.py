"""The harnesses' files: a line a request, nothing for what was not scored."""

from __future__ import annotations

import json
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from jobs.cli.main import run
from pipelines.logged_answers.matching import match_logs
from pipelines.logged_answers.readers import tool_files
from pipelines.plan.run_spec import RunSpec
from tests.support.viewer_output import part, write_output
from tests.unit.jobs.export.conftest import answer


@pytest.fixture
def exported(out: str, folder: Path) -> Path:
    assert run(["export", "lm-eval", out, str(folder)]) == 0
    return folder


def lines(folder: Path, model: str, task: str) -> list[dict[str, Any]]:
    (path,) = (folder / model).glob(f"samples_{task}_*.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def results(folder: Path, model: str) -> dict[str, Any]:
    (path,) = (folder / model).glob("results_*.json")
    content: dict[str, Any] = json.loads(path.read_text())
    return content


def test_samples_hold_prompt_answer_and_scores(exported: Path) -> None:
    samples = lines(exported, "m%2F1", "maia_oevqa_32-frames")
    assert [sample["doc_id"] for sample in samples] == list(range(48))
    sample = samples[0]
    (media,) = sample["media"]
    assert (exported / media).is_file()
    prompt = sample["arguments"]["gen_args_0"]["arg_0"]
    assert prompt.startswith(f"<video:{Path(media).stem}>")
    assert sample["doc"]["data"]["question"] in prompt
    assert sample["resps"] == [[f"{sample['doc']['sample_id']} answered"]]
    assert (sample["metrics"], sample["accepted"]) == (["accepted"], 0.0)
    assert len(sample["target"]) == 8


@pytest.mark.parametrize("form", ["lm-eval", "inspect"])
def test_an_export_is_read_back_as_its_own_requests(form: str, out: str, maia_data: str, folder: Path) -> None:
    """Settings that differ in frames alone have the same prompts."""
    assert (
        run(["export", form, out, str(folder), "--models", "m/1", *(["--no-media"] if form == "inspect" else [])]) == 0
    )
    spec = RunSpec(data=maia_data, out="", models={}, benchmarks=("maia",))
    rejections, groups = match_logs(spec, [row for tool, file in tool_files(folder, None) for row in tool.read(file)])
    names = ("task", "setting", "sample_id", "variant", "output")
    key = itemgetter(*names[:-1])
    (rows,) = groups.values()
    predictions = pq.read_table(part(out, "predictions", "m/1"), columns=[*names]).to_pylist()
    assert not rejections
    assert sorted(({name: row[name] for name in names} for _, row in rows), key=key) == sorted(predictions, key=key)


def test_results_hold_the_metrics_of_the_whole_and_missing_scores_are_no_zeros(exported: Path) -> None:
    failed = [sample for sample in lines(exported, "m%2F1", "maia_vsv_black-video") if sample["status"] == "error"]
    assert failed
    assert {(str(sample["resps"]), "correct" in sample, *sample["metrics"]) for sample in failed} == {
        ("[[None]]", False)
    }
    assert all("correct" not in sample for sample in lines(exported, "new", "maia_vsv_black-video"))
    content = results(exported, "m%2F1")
    task_results = content["results"]["maia_vsv_black-video"]
    assert (task_results["pool_accuracy,none"], task_results["pool_accuracy_stderr,none"]) == (0.625, "N/A")
    assert "pool_accuracy,none" not in content["results"]["maia_vsv_1-frame"], "null is no value"
    assert [row["value"] for row in content["metrics"]] == [0.625, 0.5, None]
    assert content["n-samples"]["maia_oevqa_32-frames"] == {"original": 48, "effective": 48}
    assert results(exported, "new")["metrics"] == []


def test_a_model_may_have_the_name_of_the_folder_of_media(maia_data: str, tmp_path: Path, folder: Path) -> None:
    uri = write_output(str(tmp_path / "results"), maia_data, ["chance", "media"], answer)
    assert run(["export", "lm-eval", uri, str(folder)]) == 0
    assert lines(folder, "media", "maia_oevqa_32-frames")
    assert (folder / lines(folder, "chance", "maia_oevqa_32-frames")[0]["media"][0]).is_file()
