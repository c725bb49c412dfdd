"""Runs that ask a benchmark in several sets of prompts."""

from __future__ import annotations

import csv
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from models.spec import ModelSpec
from pipelines.benchmarks import benchmark, benchmark_names
from pipelines.errors import UnknownNameError
from pipelines.ingest.dataset import Datasets
from pipelines.plan.planner import ids_of_other_prompt_sets
from pipelines.plan.requests import caption_targets, model_targets
from pipelines.plan.run_manifest import ManifestEntry, PromptSet, RunManifest, load_run, save_run
from pipelines.plan.run_spec import RunSpec
from pipelines.plan.selection import TaskSetting
from pipelines.storage.parts import read_part, to_parquet
from pipelines.storage.store import Store
from pipelines.sweep.entry_merge import dropped_from_report, merge_entries
from pipelines.sweep.run import run_sweep
from pipelines.sweep.status import status_rows
from tests.support.requests import target_of

PLAIN = {"oevqa-it-v1": "oevqa-it-v1-plain"}
CLOSED, OPEN = TaskSetting("vsv", "1-frame"), TaskSetting("oevqa", "1-frame")


def sweep(data: str, out: Path, *sets: str, **fields: Any) -> RunSpec:
    return RunSpec(
        data=data, out=str(out), models={"guess": ModelSpec(engine="random")}, benchmarks=("maia",),
        settings=("1-frame",), prompt_sets={"maia": sets} if sets else {}, **fields,
    )  # fmt: skip


def predictions(out: Path) -> list[dict[str, Any]]:
    store = Store(str(out))
    rows = []
    for info in store.list("predictions", "*.parquet"):
        rows += read_part(store, info.path, ["request_id", "task", "prompt_version", "status"]).to_pylist()
    return rows


def metrics(out: Path) -> dict[str, list[dict[str, Any]]]:
    rows = json.loads((out / "report" / "metrics.json").read_text())
    by_set: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        by_set.setdefault("plain" if "prompt:plain" in row["subset"] else "", []).append(row)
    return by_set


def names_of(row: dict[str, Any]) -> list[str]:
    return [row[name] for name in ("task", "setting", "metric", "category")]


def test_requests_of_two_sets_are_sent_once_and_the_tables_are_of_the_first(maia_data: str, tmp_path: Path) -> None:
    both, single = tmp_path / "both", tmp_path / "single"
    result = run_sweep(sweep(maia_data, both, "default", "plain"))
    run_sweep(sweep(maia_data, single))
    rows = predictions(both)
    assert len({row["request_id"] for row in rows}) == len(rows)
    count = Counter(row["prompt_version"] for row in rows)
    questions = count["oevqa-it-v1"]
    assert count == {"vsv-it-v1": 8 * questions, "oevqa-it-v1": questions, "oevqa-it-v1-plain": questions}
    assert {row["request_id"] for row in predictions(single)} < {row["request_id"] for row in rows}
    totals = {total.task: total.requests for total in result.counts}
    assert totals == {"vsv": 8 * questions, "oevqa": 2 * questions}
    assert metrics(both)[""] == metrics(single)[""]
    named = [names_of(row) for row in metrics(both)["plain"] if row["subset"] == "prompt:plain"]
    assert named == [names_of(row) for row in metrics(single)[""] if not row["subset"]]
    difference = {path.name for path in (both / "report" / "tables").iterdir()} - {
        path.name for path in (single / "report" / "tables").iterdir()
    }
    assert {name.rpartition(".")[0] for name in difference} == {"maia_prompt_sets", "maia_variance"}


def test_second_set_is_added_and_counted_by_status(maia_data: str, tmp_path: Path) -> None:
    run_sweep(sweep(maia_data, tmp_path, tasks=("oevqa",)))
    before = {row["request_id"] for row in predictions(tmp_path)}
    run_sweep(sweep(maia_data, tmp_path, "default", "plain", tasks=("oevqa",)))
    rows = predictions(tmp_path)
    assert len(rows) == 2 * len(before)
    part = next(info.path for info in Store(str(tmp_path)).list("predictions", "*.parquet"))
    lost = len(read_part(Store(str(tmp_path)), part, ["request_id"]))
    (tmp_path / part).unlink()
    (tmp_path / "status.json").unlink()
    (group,) = status_rows(str(tmp_path))[1]
    assert (group["requests"], group["pending"], group["done"]) == (len(rows), lost, len(rows) - lost)
    run_sweep(sweep(maia_data, tmp_path, "default", "plain", tasks=("oevqa",)))
    assert {row["request_id"] for row in predictions(tmp_path)} == {row["request_id"] for row in rows}


def test_comparison_is_in_the_words_of_the_first_set(maia_data: str, tmp_path: Path) -> None:
    run_sweep(sweep(maia_data, tmp_path, "plain", "default", tasks=("oevqa",)))
    store = Store(str(tmp_path))
    (entry,) = load_run(store).entries
    others = {
        name
        for info in store.list("predictions", "*.parquet")
        for name in ids_of_other_prompt_sets(store, entry, info.path)
    }
    assert others == {row["request_id"] for row in predictions(tmp_path) if row["prompt_version"] == "oevqa-it-v1"}


@pytest.mark.parametrize("sets", [("default", "plain"), ("plain", "default")])
def test_failed_requests_are_repeated_in_either_order(maia_data: str, tmp_path: Path, sets: tuple[str, ...]) -> None:
    spec = sweep(maia_data, tmp_path, "default", "plain")
    run_sweep(spec)
    store = Store(str(tmp_path))
    for info in store.list("predictions", "*.parquet"):
        fail_rows(store, info.path)
    result = run_sweep(replace(spec, prompt_sets={"maia": sets}))
    rows = predictions(tmp_path)
    assert len({row["request_id"] for row in rows}) == len(rows)
    assert {row["status"] for row in rows} == {"ok"}
    assert result.failed == 0


def fail_rows(store: Store, path: str) -> None:
    table = read_part(store, path)
    rows = [{**row, "status": "error"} for row in table.to_pylist()]
    store.put(path, to_parquet(rows, table.schema))


def test_sets_replace_versions_of_their_benchmark() -> None:
    assert all(
        old in benchmark(name).prompt_texts and new in benchmark(name).prompt_texts
        for name in benchmark_names()
        for versions in benchmark(name).prompt_sets.values()
        for old, new in versions.items()
    )


def test_one_builder_a_set_for_models_and_one_for_captioners(maia_data: str, tmp_path: Path) -> None:
    spec = sweep(maia_data, tmp_path, "plain", "default", captioners=(("eye", ModelSpec(engine="random")),))
    targets = [target for target, _ in model_targets(spec, "guess", Datasets())]
    assert [target.prompts.prompt_versions for target in targets] == [PLAIN, {}]
    assert len(caption_targets(spec, "eye", Datasets())) == 1


@pytest.mark.parametrize(("sets", "message"), [({"maia": ("papr",)}, "papr"), ({"unpie": ("paper",)}, "unpie")])
def test_unknown_sets_are_refused(sets: dict[str, tuple[str, ...]], message: str) -> None:
    with pytest.raises(UnknownNameError, match=message):
        RunSpec(data="d", out="o", models={}, benchmarks=("maia",), prompt_sets=sets)


def entry(*groups: TaskSetting, plain: tuple[TaskSetting, ...] = ()) -> ManifestEntry:
    target = target_of(
        benchmark_name="maia", dataset_fingerprint="f", model="m",
        task_settings=groups, seed=42,
    )  # fmt: skip
    others = (PromptSet(name="plain", versions=PLAIN, cells=plain),) if plain else ()
    name = "default" if plain else ""
    return ManifestEntry(benchmark="maia", model="m", data="", target=target, prompt_set=name, other_prompt_sets=others)


def words_of(merged: ManifestEntry) -> dict[str, tuple[TaskSetting, ...]]:
    return {each.prompt_set: each.prompts.task_settings for each in merged.by_prompt_set()}


def test_a_task_has_the_sets_of_the_last_run_that_covered_it(tmp_path: Path) -> None:
    old = entry(CLOSED, OPEN, plain=(CLOSED, OPEN))
    (merged,) = merge_entries([old], [entry(CLOSED)])
    assert words_of(merged) == {"default": (CLOSED, OPEN), "plain": (OPEN,)}
    (sentence,) = dropped_from_report([old], [entry(CLOSED)])
    assert "no longer shows vsv 1-frame with the prompts 'plain'" in sentence
    assert "--prompt-version maia=default,plain" in sentence
    (again,) = merge_entries([merged], [entry(CLOSED, plain=(CLOSED,))])
    assert words_of(again) == {"default": (CLOSED, OPEN), "plain": (CLOSED, OPEN)}
    assert dropped_from_report([merged], [entry(CLOSED, plain=(CLOSED,))]) == []
    save_run(Store(str(tmp_path)), RunManifest(), RunManifest(entries=(again,)))
    assert load_run(Store(str(tmp_path))).entries == (again,)


def test_items_examples_and_tokens_name_their_set(maia_data: str, tmp_path: Path) -> None:
    run_sweep(sweep(maia_data, tmp_path, "default", "plain", judges=(("coin", ModelSpec(engine="random")),)))
    report = tmp_path / "report"
    listed = [
        (row["prompt_set"], row["sample_id"])
        for path in (report / "items").glob("*.csv")
        for row in csv.DictReader(path.read_text().splitlines())
    ]
    assert {prompt_set for prompt_set, _ in listed} == {"default", "plain"}
    tokens = csv.DictReader((report / "tables" / "maia_efficiency.csv").read_text().splitlines())
    answers = {row["Prompts"]: int(row["Answers"]) for row in tokens}
    rows = Counter(row["prompt_version"] for row in predictions(tmp_path))
    assert answers["plain"] == rows["oevqa-it-v1-plain"]
    assert answers["default"] == sum(rows.values()) - answers["plain"]
    page = (report / "benchmark-maia.html").read_text()
    assert {f"guess, oevqa, 1-frame, {name}</span>" in page for name in ("default", "plain")} == {True}
    assert "guess, plain: " in (report / "items.html").read_text()
