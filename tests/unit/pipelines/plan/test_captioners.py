"""Runs whose prompts are asked with the captions of several captioners."""

from __future__ import annotations

import csv
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jobs.nightly.budget import pair_fingerprint_parts
from models.spec import ModelSpec
from pipelines.benchmarks.records import split_variant
from pipelines.errors import UsageError
from pipelines.ingest.dataset import Datasets
from pipelines.plan.planner import ids_of_other_prompt_sets
from pipelines.plan.requests import model_targets
from pipelines.plan.run_manifest import ManifestEntry, PromptSet, RunManifest, load_run, save_run
from pipelines.plan.run_spec import RunSpec
from pipelines.plan.selection import TaskSetting
from pipelines.report.compare import compare
from pipelines.storage.parts import read_part
from pipelines.storage.store import Store
from pipelines.sweep.entry_merge import dropped_from_report, merge_entries
from pipelines.sweep.run import report_again, run_sweep
from pipelines.sweep.status import status_rows
from tests.support.many_samples import many
from tests.support.requests import build_requests, target_of

EYES = {name: ModelSpec(engine="random", seed=seed) for name, seed in (("a", 1), ("b", 5))}
OWN, OTHER = TaskSetting("mcq", "lm"), TaskSetting("mcq", "sm-other")


def sweep(data: str, out: Path, *captioners: str) -> RunSpec:
    return RunSpec(
        data=data, out=str(out), models={"guess": ModelSpec(engine="random")}, benchmarks=("vague",), tasks=("mcq",),
        settings=("lm", "sm-other"), captioners=tuple((name, EYES[name]) for name in captioners),
    )  # fmt: skip


def predictions(out: Path) -> dict[str, dict[str, Any]]:
    store, names = Store(str(out)), ["request_id", "sample_id", "setting", "captioner", "output"]
    rows = [
        row for info in store.list("predictions", "*.parquet") for row in read_part(store, info.path, names).to_pylist()
    ]
    assert len({row["request_id"] for row in rows}) == len(rows)
    return {row["request_id"]: row for row in rows}


def captions_of(out: Path) -> dict[tuple[str, str], str]:
    """Return captions by captioner and picture."""
    store, names = Store(str(out)), ["model", "variant", "output"]
    parts = [read_part(store, info.path, names).to_pylist() for info in store.list("captions", "*.parquet")]
    return {(row["model"], row["variant"]): row["output"] for rows in parts for row in rows}


def metrics(out: Path, captioner: str = "") -> list[dict[str, Any]]:
    """Return the metrics of another captioner, or of the first."""
    rows = json.loads((out / "report" / "metrics.json").read_text())
    return [row for row in rows if row["subset"].rpartition("captioner:")[2] == captioner and captioner] or [
        row for row in rows if "captioner:" not in row["subset"]
    ]


def test_each_captioner_is_asked_once_and_the_tables_are_those_of_the_first(vague_data: str, tmp_path: Path) -> None:
    both, single = tmp_path / "both", tmp_path / "single"
    result = run_sweep(sweep(vague_data, both, "a", "b"))
    run_sweep(sweep(vague_data, single, "a"))
    rows, first_rows = predictions(both), predictions(single)
    count = Counter((row["setting"], row["captioner"]) for row in rows.values())
    items, captions = count["lm", ""], captions_of(both)
    different = sum(captions["a", picture] != captions["b", picture] for _, picture in captions) // 2
    assert 0 < different < items  # a prompt with the same caption is the same request, and asked once
    assert count == {("lm", ""): items, ("sm-other", "a"): items, ("sm-other", "b"): different}
    assert {name: rows[name] for name in first_rows} == first_rows
    assert metrics(both) == metrics(single)
    assert {(total.setting, total.requests) for total in result.counts} == {
        ("lm", items),
        ("sm-other", items + different),
    }
    items_of = Counter(
        (row["setting"], row["prompt_set"])
        for path in (both / "report" / "items").glob("vague_*.csv")
        for row in csv.DictReader(path.read_text().splitlines())
    )
    assert {name for name in items_of if name[1].endswith("b")} == {("sm-other", "captions of b")}
    tables = ({path.name for path in (out / "report" / "tables").iterdir()} for out in (both, single))
    names = {path.rpartition(".")[0] for path in set.difference(*tables)}
    assert names == {"vague_captioners", "vague_variance"}


def test_numbers_of_another_captioner_are_those_of_a_run_with_it_alone(vague_data: str, tmp_path: Path) -> None:
    both, single = tmp_path / "both", tmp_path / "single"
    run_sweep(sweep(vague_data, both, "a", "b"))
    run_sweep(sweep(vague_data, single, "b"))
    expected = [row for row in metrics(single) if row["setting"] == "sm-other"]
    other_rows = [row for row in metrics(both, "b") if not row["subset"].startswith("prompt")]
    assert {row["metric"] for row in other_rows} >= {"accuracy", "delta_vs_lm"}
    bare = [{**row, "subset": row["subset"].removesuffix("captioner:b").removesuffix(", ")} for row in other_rows]
    assert sorted(bare, key=str) == sorted(expected, key=str)


def test_added_captioner_asks_its_own_requests_alone(vague_data: str, tmp_path: Path) -> None:
    run_sweep(sweep(vague_data, tmp_path, "a"))
    before = predictions(tmp_path)
    parts = {path: path.read_bytes() for path in tmp_path.glob("predictions/**/*.parquet")}
    run_sweep(sweep(vague_data, tmp_path, "a", "b"))
    after = predictions(tmp_path)
    assert {row["captioner"] for name, row in after.items() if name not in before} == {"b"}
    assert {path: path.read_bytes() for path in parts} == parts
    assert sum(group["requests"] for group in status_rows(str(tmp_path))[1]) == len(after)
    run_sweep(sweep(vague_data, tmp_path, "b", "a"))
    assert predictions(tmp_path) == after
    (entry,) = load_run(Store(str(tmp_path))).entries
    store = Store(str(tmp_path))
    paths = [info.path for info in store.list("predictions", "*.parquet")]
    others = {name for path in paths for name in ids_of_other_prompt_sets(store, entry, path)}
    assert others == {name for name, row in after.items() if row["captioner"] == "a"}


def test_nightly_hash_names_every_captioner(vague_data: str) -> None:
    specs = [sweep(vague_data, Path("out"), *names) for names in (("a",), ("a", "b"))]
    parts = []
    for spec in specs:
        target, dataset = model_targets(spec, "guess", Datasets())[0]
        parts.append(pair_fingerprint_parts(spec, target, dataset)["captioner"].split(","))
    assert parts[1][:1] == parts[0]
    assert parts[1][1].startswith("b@")


def test_prompts_without_captions_have_one_builder(vague_data: str) -> None:
    spec = sweep(vague_data, Path("out"), "a", "b")
    assert len(model_targets(spec, "guess", Datasets())) == 2
    assert len(model_targets(replace(spec, settings=("lm",)), "guess", Datasets())) == 1


def entry(*groups: TaskSetting, other: tuple[TaskSetting, ...] = ()) -> ManifestEntry:
    target = target_of(
        benchmark_name="vague", dataset_fingerprint="f", model="m",
        task_settings=groups, seed=42, captioner="a@1",
    )  # fmt: skip
    sets = (PromptSet(name="", versions={}, cells=other, captioner="b@2"),) if other else ()
    return ManifestEntry(benchmark="vague", model="m", data="", target=target, other_prompt_sets=sets)


def test_captioners_of_an_output_are_those_of_the_last_run_that_asked_a_setting(tmp_path: Path) -> None:
    old = entry(OWN, OTHER, other=(OTHER,))
    (merged,) = merge_entries([old], [entry(OWN)])
    captions = {part.prompts.captioner: part.prompts.task_settings for part in merged.by_prompt_set()}
    assert captions == {"a@1": (OWN, OTHER), "b@2": (OWN, OTHER)}  # compared with `lm`, which is asked once
    assert dropped_from_report([old], [entry(OWN)]) == []
    (alone,) = merge_entries([old], [entry(OTHER)])
    assert [part.prompts.captioner for part in alone.by_prompt_set()] == ["a@1"]
    (sentence,) = dropped_from_report([old], [entry(OTHER)])
    assert "the report no longer shows mcq sm-other with captions of 'b'" in sentence
    assert "--captioner a,b shows them again" in sentence
    save_run(Store(str(tmp_path)), RunManifest(), RunManifest(entries=(merged,)))
    assert load_run(Store(str(tmp_path))).entries == (merged,)
    (merged,) = merge_entries([entry(OWN, OTHER)], [entry(OWN, OTHER)])
    assert merged.prompts.task_settings == (OWN, OTHER)


CELL = TaskSetting("vsv", "1-frame")


def repeated_sweep(data: str, out: Path, repeats: int, **fields: Any) -> RunSpec:
    return RunSpec(
        data=data, out=str(out), models={"guess": ModelSpec(engine="random")}, benchmarks=("maia",), tasks=("vsv",),
        settings=("1-frame",), repeats=repeats, **fields,
    )  # fmt: skip


def repeated_predictions(out: Path) -> list[dict[str, Any]]:
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
    run_sweep(repeated_sweep(maia_data, tmp_path, 1))
    first = {row["request_id"]: row["output"] for row in repeated_predictions(tmp_path)}
    result = run_sweep(repeated_sweep(maia_data, tmp_path, 3))
    run = json.loads((tmp_path / "run.json").read_text())
    assert run["sweep"]["repeats"] == run["entries"][0]["target"]["prompts"]["repeats"] == 3
    rows = repeated_predictions(tmp_path)
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
    assert report_again(repeated_sweep(maia_data, tmp_path, 3)).counts == result.counts
    again = run_sweep(repeated_sweep(maia_data, tmp_path, 1))
    assert again.requests == len(first)


def test_a_report_of_repeats_is_compared(maia_data: str, tmp_path: Path) -> None:
    for folder, seed in (("a", 1), ("b", 2)):
        models = {"guess": ModelSpec(engine="random", seed=seed)}
        run_sweep(replace(repeated_sweep(maia_data, tmp_path / folder, 2), models=models))
    comparison = compare(Store(str(tmp_path / "a")), Store(str(tmp_path / "b")))
    rows = {difference.value: difference.n for difference in comparison.differences}
    assert rows["correct"] == 2 * 8 * rows["pool_accuracy"]


def test_a_greedy_model_is_refused(maia_data: str, tmp_path: Path) -> None:
    greedy = ModelSpec(engine="openai", model="m", base_url="http://127.0.0.1:9/v1")
    with pytest.raises(UsageError, match=r"judge9 answers maia vsv 1-frame at temperature 0, so all repeats"):
        run_sweep(replace(repeated_sweep(maia_data, tmp_path, 2), models={"judge9": greedy}))
    assert not repeated_predictions(tmp_path)
