"""Plans are written once and opened by their inputs."""

from dataclasses import replace
from pathlib import Path

import pytest

from models.spec import ModelSpec
from pipelines.ingest.dataset import Dataset
from pipelines.plan.context import SweepContext
from pipelines.plan.plan_store import PlanStore, plan_key
from pipelines.plan.planner import plan_sweep
from pipelines.plan.requests import RequestBuilder
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


def test_plan_rows_survive_the_file(out: Store, dataset: Dataset, builder: RequestBuilder) -> None:
    plan = PlanStore(out).write(dataset, builder)
    assert list(plan) == [row for sample in dataset.samples() for row in builder.plan_rows(sample)]
    assert plan.samples == dataset.manifest.samples


def test_one_plan_serves_all_models(maia_data: str, out: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    models = {name: ModelSpec(engine="random", seed=seed) for seed, name in enumerate("abc")}
    calls = []
    plan_rows = RequestBuilder.plan_rows
    monkeypatch.setattr(RequestBuilder, "plan_rows", lambda *args: calls.append(1) or plan_rows(*args))
    spec = RunSpec(data=maia_data, out=out.uri, models=models, benchmarks=("maia",))
    works = plan_sweep(SweepContext.open(spec))
    assert {work.total for (work,) in works.values()} == {3 * 216 * 2}
    assert len(calls) == 48
    assert sum(path.endswith(".json") for path in files(out)) == 1


def test_plan_is_opened_without_building_its_prompts(
    out: Store, dataset: Dataset, builder: RequestBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = PlanStore(out).write(dataset, builder)
    monkeypatch.setattr(RequestBuilder, "plan_rows", lambda *_: pytest.fail("built again"))
    other_model = replace(builder, model="n", model_fingerprint={"x": 1}, generation={"max_new_tokens": 3})
    assert PlanStore(out).open(dataset, other_model).parts == written.parts


@pytest.mark.parametrize("damage", ["missing part", "damaged index"])
def test_incomplete_plan_is_written_again(out: Store, dataset: Dataset, builder: RequestBuilder, damage: str) -> None:
    PlanStore(out).write(dataset, builder)
    before = files(out)
    path = next(path for path in before if path.endswith(".parquet" if damage == "missing part" else ".json"))
    if damage == "missing part":
        out.delete(path)
    else:
        out.put(path, before[path][:50])
    PlanStore(out).open(dataset, builder)
    assert files(out) == before


def test_planning_replaces_a_damaged_part(out: Store, dataset: Dataset, builder: RequestBuilder) -> None:
    PlanStore(out).write(dataset, builder)
    before = files(out)
    path = next(path for path in before if path.endswith(".parquet"))
    out.put(path, before[path][:-20])
    PlanStore(out).write(dataset, builder)
    assert files(out) == before


def test_reader_writes_nothing_into_the_output(out: Store, dataset: Dataset, builder: RequestBuilder) -> None:
    with PlanStore.reading(out) as plans:
        assert len(list(plans.open(dataset, builder).iter_columns())) == 3 * 216 * 2
    assert files(out) == {}


def test_plan_key_depends_on_all_that_decides_the_prompts(builder: RequestBuilder) -> None:
    captioned = replace(builder, captioner="eye@1")
    keys = {
        plan_key(builder, ALL, {}),
        plan_key(replace(builder, seed=7), ALL, {}),
        plan_key(replace(builder, dataset_fingerprint="g"), ALL, {}),
        plan_key(replace(builder, prompts={"vsv-it-v1": "{a} {b}"}), ALL, {}),
        plan_key(replace(builder, task_settings=builder.task_settings[:1]), ALL, {}),
        plan_key(builder, SampleSelection(Limit.parse("2")), {}),
        plan_key(builder, SampleSelection(sample_ids=("a",)), {}),
        plan_key(captioned, ALL, {}),
        plan_key(captioned, ALL, {"p": "a dog"}),
    }
    assert len(keys) == 9
    assert plan_key(replace(builder, model="n", generation={"seed": 1}), ALL, {}) in keys
    builder.__dict__["benchmark"] = replace(builder.benchmark, version="other")
    assert plan_key(builder, ALL, {}) not in keys
