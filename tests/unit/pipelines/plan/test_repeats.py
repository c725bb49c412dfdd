"""Runs with `--repeats`: ids, seeds, refusals, what is asked again, and the report."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from models.spec import ModelSpec
from pipelines.benchmarks.records import split_variant
from pipelines.errors import UsageError
from pipelines.plan.run_spec import RunSpec
from pipelines.plan.selection import TaskSetting
from pipelines.report.compare import compare
from pipelines.storage.parts import read_part
from pipelines.storage.store import Store
from pipelines.sweep.run import report_again, run_sweep
from tests.support.many_samples import many
from tests.support.requests import build_requests, target_of

CELL = TaskSetting("vsv", "1-frame")


def sweep(data: str, out: Path, repeats: int, **fields: Any) -> RunSpec:
    return RunSpec(
        data=data, out=str(out), models={"guess": ModelSpec(engine="random")}, benchmarks=("maia",), tasks=("vsv",),
        settings=("1-frame",), repeats=repeats, **fields,
    )  # fmt: skip


def predictions(out: Path) -> list[dict[str, Any]]:
    store = Store(str(out))
    columns = ["request_id", "sample_id", "variant", "output", "status"]
    return [
        row
        for info in store.list("predictions", "*.parquet")
        for row in read_part(store, info.path, columns).to_pylist()
    ]


def test_the_first_repeat_keeps_the_ids_and_the_others_have_the_next_seeds() -> None:
    sample, *_ = many("maia", 1)
    once = [*build_requests(target_of(task_settings=(CELL,)), sample)]
    often = [*build_requests(target_of(task_settings=(CELL,), repeats=3), sample)]
    assert [request.request_id for request in often[::3]] == [request.request_id for request in once]
    assert len({request.request_id for request in often}) == 3 * len(once)
    for first, *others in zip(often[::3], often[1::3], often[2::3], strict=True):
        variant = first.columns["variant"]
        assert [other.columns["variant"] for other in others] == [f"{variant}#1", f"{variant}#2"]
        seeds = [request.request.steps[0].generation.seed for request in (first, *others)]
        assert seeds == [42, 43, 44]
        assert len({request.columns["prompt_sha256"] for request in (first, *others)}) == 1
        assert len({request.group for request in (first, *others)}) == 1
    target = target_of(task_settings=(CELL,), repeats=2, generation={"seed": 7, "temperature": 0.5})
    seeds = {request.request.steps[0].generation.seed for request in build_requests(target, sample)}
    assert seeds == {7, 8}


def test_repeats_are_added_to_an_output_and_left_out_again(maia_data: str, tmp_path: Path) -> None:
    run_sweep(sweep(maia_data, tmp_path, 1))
    first = {row["request_id"]: row["output"] for row in predictions(tmp_path)}
    result = run_sweep(sweep(maia_data, tmp_path, 3))
    run = json.loads((tmp_path / "run.json").read_text())
    assert run["sweep"]["repeats"] == run["entries"][0]["target"]["prompts"]["repeats"] == 3
    rows = predictions(tmp_path)
    assert Counter(split_variant(row["variant"])[1] for row in rows) == dict.fromkeys((0, 1, 2), len(first))
    assert len({row["request_id"] for row in rows}) == len(rows)
    assert {row["request_id"]: row["output"] for row in rows if "#" not in row["variant"]} == first
    assert len({row["output"] for row in rows if split_variant(row["variant"])[0] == "0"}) == 2  # it samples
    assert result.requests == len(rows)
    metrics = {row.metric: row for row in result.metrics if row.is_whole and row.task == "vsv"}
    assert metrics["pass_at_3"].value > metrics["pass_at_1"].value > metrics["pass_hat_3"].value  # type: ignore[operator]
    assert metrics["pool_accuracy"].n == 3 * len(first) / 8
    tables = {path.stem for path in (tmp_path / "report" / "tables").glob("*.csv")}
    assert {"maia_variance", "maia_repeats"} <= tables
    assert report_again(sweep(maia_data, tmp_path, 3)).counts == result.counts
    again = run_sweep(sweep(maia_data, tmp_path, 1))
    assert again.requests == len(first)


def test_a_report_of_repeats_is_compared(maia_data: str, tmp_path: Path) -> None:
    for folder, seed in (("a", 1), ("b", 2)):
        models = {"guess": ModelSpec(engine="random", seed=seed)}
        run_sweep(replace(sweep(maia_data, tmp_path / folder, 2), models=models))
    comparison = compare(Store(str(tmp_path / "a")), Store(str(tmp_path / "b")))
    rows = {difference.value: difference.n for difference in comparison.differences}
    assert rows["correct"] == 2 * 8 * rows["pool_accuracy"]


def test_a_greedy_model_is_refused(maia_data: str, tmp_path: Path) -> None:
    greedy = ModelSpec(engine="openai", model="m", base_url="http://127.0.0.1:9/v1")
    with pytest.raises(UsageError, match=r"judge9 answers maia vsv 1-frame at temperature 0, so all repeats"):
        run_sweep(replace(sweep(maia_data, tmp_path, 2), models={"judge9": greedy}))
    assert not predictions(tmp_path)
