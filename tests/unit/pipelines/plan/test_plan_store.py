"""Plans are written once and opened by their inputs."""

from dataclasses import replace
from pathlib import Path

import pytest

from models.spec import ModelSpec
from pipelines.ingest.dataset import Dataset
from pipelines.plan.context import SweepContext
from pipelines.plan.plan_store import PlanStore, plan_key
from pipelines.plan.planner import plan_sweep
from pipelines.plan.prompt_plan import PromptPlan
from pipelines.plan.requests import ModelTarget
from pipelines.plan.run_spec import RunSpec
from pipelines.plan.selection import Limit, SampleSelection
from pipelines.storage.store import Store

ALL = SampleSelection()


@pytest.fixture
def dataset(maia_data: str) -> Dataset:
    return Dataset.open(Store(maia_data), "maia")


@pytest.fixture
def out(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "out"))


def files(out: Store) -> dict[str, bytes]:
    return {info.path: out.get(info.path) for info in out.list("plan")}


def test_one_plan_serves_all_models(maia_data: str, out: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    models = {name: ModelSpec(engine="random", seed=seed) for seed, name in enumerate("abc")}
    calls = []
    plan_rows = PromptPlan.rows
    monkeypatch.setattr(PromptPlan, "rows", lambda *args: calls.append(1) or plan_rows(*args))
    spec = RunSpec(data=maia_data, out=out.uri, models=models, benchmarks=("maia",))
    works = plan_sweep(SweepContext.open(spec))
    assert {work.total for (work,) in works.values()} == {3 * 216 * 2}
    assert len(calls) == 48
    assert sum(path.endswith(".json") for path in files(out)) == 1


@pytest.mark.parametrize("damage", ["missing part", "damaged part", "damaged index"])
def test_incomplete_plan_is_written_again(out: Store, dataset: Dataset, target: ModelTarget, damage: str) -> None:
    PlanStore(out).write(dataset, target.prompts)
    before = files(out)
    path = next(path for path in before if path.endswith(".json" if damage == "damaged index" else ".parquet"))
    if damage == "missing part":
        out.delete(path)
    else:
        out.put(path, before[path][:-20])
    write = PlanStore(out).write if damage == "damaged part" else PlanStore(out).open
    write(dataset, target.prompts)
    assert files(out) == before


def test_plan_is_written_once_and_opened_without_building_its_prompts(
    out: Store, dataset: Dataset, target: ModelTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    with PlanStore.reading(out) as plans:
        assert len(list(plans.open(dataset, target.prompts).iter_columns())) == 3 * 216 * 2
    assert files(out) == {}
    plan = PlanStore(out).write(dataset, target.prompts)
    assert list(plan) == [row for sample in dataset.samples() for row in target.prompts.rows(sample)]
    assert plan.samples == dataset.manifest.samples
    written = PlanStore(out).write(dataset, target.prompts)
    monkeypatch.setattr(PromptPlan, "rows", lambda *_: pytest.fail("built again"))
    other_model = replace(target, model="n", fingerprint={"x": 1}, generation={"max_new_tokens": 3})
    assert PlanStore(out).open(dataset, other_model.prompts).parts == written.parts


def test_plan_key_depends_on_all_that_decides_the_prompts(target: ModelTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    captioned = target.with_prompts(captioner="eye@1")
    keys = {
        plan_key(target.prompts, ALL, {}),
        plan_key(target.with_prompts(seed=7).prompts, ALL, {}),
        plan_key(target.with_prompts(dataset_fingerprint="g").prompts, ALL, {}),
        plan_key(target.with_prompts(wording={"vsv-it-v1": "{a} {b}"}).prompts, ALL, {}),
        plan_key(target.with_prompts(task_settings=target.prompts.task_settings[:1]).prompts, ALL, {}),
        plan_key(target.prompts, SampleSelection(Limit.parse("2")), {}),
        plan_key(target.prompts, SampleSelection(sample_ids=("a",)), {}),
        plan_key(captioned.prompts, ALL, {}),
        plan_key(captioned.prompts, ALL, {"p": "a dog"}),
    }
    assert len(keys) == 9
    assert plan_key(replace(target, model="n", generation={"seed": 1}).prompts, ALL, {}) in keys
    changed = replace(target.prompts.benchmark, version="other")
    monkeypatch.setattr("pipelines.plan.prompt_plan.benchmark", lambda _: changed)
    assert plan_key(target.prompts, ALL, {}) not in keys
