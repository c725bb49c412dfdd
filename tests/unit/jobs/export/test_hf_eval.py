"""The hub's files of results: headline numbers, under the hub's keys."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from jobs.cli.main import run
from tests.support.viewer_output import metric, write_metrics, write_output


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
