from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import cloudpickle
import pytest

from models.spec import ModelSpec
from pipelines.benchmarks import benchmark
from pipelines.benchmarks.known_tables import TableDefinition
from pipelines.errors import UsageError
from pipelines.ingest.dataset import Dataset
from pipelines.plan.cost_model import GpuProfile, describe_load, unit_seconds
from pipelines.plan.plan_store import IdSet, PlanStore
from pipelines.plan.planner import plan_model
from pipelines.plan.prompt_plan import PromptPlan, caption_key, load_captions
from pipelines.plan.records import CompletedRequests
from pipelines.plan.requests import ModelTarget
from pipelines.plan.selection import Limit, SampleSelection, TaskSetting, selected_groups
from pipelines.plan.stored_plan import PlanReader, StoredPlan
from pipelines.plan.units import MAX_LIGHT_UNIT_REQUESTS, WorkUnit, unit_name
from pipelines.schemas import PREDICTIONS, prediction_table
from pipelines.storage.parts import part_folder, to_parquet
from pipelines.storage.store import Store
from tests.support.requests import PlannedRequest, build_requests, target_of


@pytest.fixture(scope="module")
def dataset(maia_data: str) -> Dataset:
    return Dataset.open(Store(maia_data), "maia")


@pytest.fixture
def target(dataset: Dataset) -> ModelTarget:
    return target_of(
        benchmark_name="maia", dataset_fingerprint=dataset.manifest.dataset_fingerprint, model="m",
        fingerprint={"model": "m", "revision": "r1"},
        task_settings=tuple(selected_groups(benchmark("maia"), [], [])), seed=42,
    )  # fmt: skip


@pytest.fixture
def out(tmp_path: Path) -> Store:
    return Store(str(tmp_path))


@pytest.fixture
def plan(out: Store, dataset: Dataset, target: ModelTarget) -> StoredPlan:
    return PlanStore(out).write(dataset, target.prompts)


def requests_in(unit: WorkUnit, target: ModelTarget, out: Store) -> list[str]:
    """Return the requests that a worker makes of a unit."""
    reader = PlanReader(out)
    return [target.request_id(row) for s in unit.slices for row in reader.rows(s.plan_part, s.rows)]


def every(target: ModelTarget, dataset: Dataset) -> list[PlannedRequest]:
    return [request for sample in dataset.samples() for request in build_requests(target, sample)]


def finished(ids: Iterable[str]) -> CompletedRequests:
    return CompletedRequests(IdSet(ids))


def test_plan_counts_each_request_once(plan: StoredPlan, target: ModelTarget, out: Store, dataset: Dataset) -> None:
    work = plan_model(plan, target, CompletedRequests())
    videos = 2
    for setting in ("black-video", "1-frame", "32-frames"):
        assert work.requests["vsv", setting] == 192 * videos
        assert work.requests["oevqa", setting] == 24 * videos
    assert work.groups == 2 * videos + 1
    assert sum(unit.requests for unit in work.units) == 3 * 216 * videos == work.to_do
    planned = Counter(name for unit in work.units for name in requests_in(unit, target, out))
    assert planned == Counter(request.request_id for request in every(target, dataset))
    assert all(unit.requests <= MAX_LIGHT_UNIT_REQUESTS for unit in work.units)
    assert len({unit.part for unit in work.units}) == len(work.units)
    for unit in plan_model(plan, target, CompletedRequests()).units:
        assert WorkUnit.from_dict(unit.to_dict()) == unit
    assert 0 < work.distinct_media_tokens < work.shared_tokens < work.prompt_tokens
    assert work.shared_tokens > 100 * work.distinct_media_tokens


def test_completed_requests_are_skipped(plan: StoredPlan, out: Store, dataset: Dataset, target: ModelTarget) -> None:
    requests = every(target, dataset)
    done = {request.request_id for request in requests if request.columns["task"] == "vsv"} | {requests[-1].request_id}
    work = plan_model(plan, target, finished(done))
    planned = [name for unit in work.units for name in requests_in(unit, target, out)]
    assert sorted(planned) == sorted({request.request_id for request in requests} - done)
    work = plan_model(plan, target, finished(request.request_id for request in every(target, dataset)))
    assert not work.units
    assert (work.calls, work.groups, work.prompt_tokens, work.output_tokens) == (0, 0, 0, 0)


def test_completed_requests_cost_nothing(plan: StoredPlan, out: Store, dataset: Dataset, target: ModelTarget) -> None:
    requests = every(target, dataset)
    whole = plan_model(plan, target, CompletedRequests())
    done = finished(request.request_id for request in requests if request.columns["setting"] != "1-frame")
    half = plan_model(plan, target, done)
    one_frame = target.with_prompts(task_settings=(TaskSetting("vsv", "1-frame"), TaskSetting("oevqa", "1-frame")))
    alone = plan_model(PlanStore(out).write(dataset, one_frame.prompts), one_frame, CompletedRequests())
    assert half.total == whole.total
    for name in ("calls", "groups", "prompt_tokens", "shared_tokens", "distinct_media_tokens", "output_tokens"):
        assert getattr(half, name) == getattr(alone, name) != getattr(whole, name), name
    profile, spec = GpuProfile(), ModelSpec(engine="transformers", model="/m", parameters_b=7)
    seconds = [sum(unit_seconds(work, unit, spec, profile) for unit in work.units) for work in (half, alone)]
    assert seconds[0] == pytest.approx(seconds[1], rel=0.2)


def test_failed_requests_stay_in_a_part(plan: StoredPlan, out: Store, dataset: Dataset, target: ModelTarget) -> None:
    requests = every(target, dataset)
    failed = {request.request_id for request in requests[:3]}
    completed = finished(request.request_id for request in requests[3:])
    completed.failed = dict.fromkeys(failed, "predictions/benchmark=maia/model=m/old.parquet")
    (unit,) = plan_model(plan, target, completed).units
    assert unit.part == "predictions/benchmark=maia/model=m/old.parquet"
    assert set(requests_in(unit, target, out)) == failed == set(unit.retried)


def test_plan_covers_the_selected_samples(out: Store, dataset: Dataset, target: ModelTarget) -> None:
    def total(selection: SampleSelection) -> int:
        return plan_model(PlanStore(out).write(dataset, target.prompts, selection), target, CompletedRequests()).total

    assert total(SampleSelection(Limit.parse("2"))) == 2 * 9 * 3
    assert total(SampleSelection(sample_ids=("video2/Sentiment_B",))) == 9 * 3
    with pytest.raises(UsageError, match="video9/Nothing"):
        total(SampleSelection(sample_ids=("video9/Nothing",)))


def test_captions_are_cleaned_as_answers_are(tmp_path: Path) -> None:
    key, store = caption_key("eyes", {}), Store(str(tmp_path))
    replies = {
        "a": "Sure! Here is the description:\nA dog runs.<|im_end|>", "b": "<think>A dog, or a cat?</think>A dog runs.",
        "c": "<think>A dog, or", "d": "A dog runs.",
    }  # fmt: skip
    rows = [{"variant": name, "output": text, "status": "ok", "prompt_version": key} for name, text in replies.items()]
    store.put(
        f"{part_folder('captions', 'vague', 'eyes')}/{unit_name(['1'])}.parquet",
        to_parquet(prediction_table(rows), PREDICTIONS),
    )
    expected = {**dict.fromkeys(replies, "A dog runs."), "c": ""}
    assert load_captions(store, "vague", key) == expected
    assert load_captions(store, "vague", "") == {}


def test_rate_of_a_load_stands_beside_the_plans() -> None:
    spec = ModelSpec(engine="transformers", model="m", parameters_b=7.5)
    assert describe_load(spec, 60.0) == ": 15.0 GB in 60 s, 250 MB/s; the plan counts 40 s"
    assert describe_load(ModelSpec(engine="random"), 60.0) == ""
    assert describe_load(ModelSpec(engine="transformers", model="m"), 60.0) == ""


def plan_of_a_table() -> PromptPlan:
    """Return a plan, which makes its table known to this process."""
    return PromptPlan(
        benchmark_name="far-table", dataset_fingerprint="f", task_settings=(TaskSetting("text", "default"),), seed=42,
        table=TableDefinition(name="far-table", kind="text", labels=("a",)),
    )  # fmt: skip


def test_a_plan_brings_its_table(tmp_path: Path) -> None:
    assert PromptPlan.from_dict(json.loads(json.dumps(plan_of_a_table().to_dict())), "prompts") == plan_of_a_table()
    path = tmp_path / "plan"
    path.write_bytes(cloudpickle.dumps(plan_of_a_table()))
    code = (
        f"import cloudpickle; from pathlib import Path; cloudpickle.loads(Path({str(path)!r}).read_bytes());"
        "from pipelines.benchmarks import benchmark; assert benchmark('far-table').tasks == {'text': ('default',)}"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
