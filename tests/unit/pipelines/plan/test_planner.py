from collections import Counter
from dataclasses import replace

import pytest

from models.spec import ModelSpec
from pipelines.benchmarks import benchmark
from pipelines.errors import UsageError
from pipelines.ingest.dataset import Dataset
from pipelines.plan.cost_model import GpuProfile, unit_seconds
from pipelines.plan.planner import plan_requests
from pipelines.plan.records import CompletedRequests, Plan
from pipelines.plan.requests import PlannedRequest, RequestBuilder
from pipelines.plan.selection import Limit, TaskSetting, cells_of
from pipelines.plan.units import MAX_UNIT_REQUESTS, WorkUnit
from pipelines.storage.store import Store


@pytest.fixture(scope="module")
def dataset(maia_data: str) -> Dataset:
    return Dataset.open(Store(maia_data), "maia")


@pytest.fixture
def asker(dataset: Dataset) -> RequestBuilder:
    return RequestBuilder(
        benchmark_name="maia",
        dataset_fingerprint=dataset.manifest.dataset_fingerprint,
        model="m",
        model_fingerprint={"model": "m", "revision": "r1"},
        generation={},
        cells=tuple(cells_of(benchmark("maia"), [], [])),
        prompts={},
        instead={},
        seed=42,
    )


def requests_in(unit: WorkUnit, asker: RequestBuilder, dataset: Dataset) -> list[str]:
    """What a worker makes of a unit, without the worker."""
    found = []
    for piece in unit.pieces:
        by_id = {sample.sample_id: sample for sample in dataset.read_shard(piece.shard)}
        for name in piece.samples:
            found += [one.request_id for one in asker.ask(by_id[name]) if one.group == piece.group]
    return [one for one in found if not unit.only or one in unit.only]


def every(asker: RequestBuilder, dataset: Dataset) -> list[PlannedRequest]:
    return [asked for sample in dataset.samples() for asked in asker.ask(sample)]


def test_counts_and_groups_are_those_of_the_protocol(dataset: Dataset, asker: RequestBuilder) -> None:
    plan = plan_requests(dataset, asker, CompletedRequests())
    videos = 2
    for setting in ("black-video", "1-frame", "32-frames"):
        assert plan.requests["vsv", setting] == 192 * videos
        assert plan.requests["oevqa", setting] == 24 * videos
    assert len(plan.groups) == 2 * videos + 1
    assert sum(unit.requests for unit in plan.units) == 3 * 216 * videos == plan.to_do


def test_every_request_is_in_exactly_one_unit(dataset: Dataset, asker: RequestBuilder) -> None:
    plan = plan_requests(dataset, asker, CompletedRequests())
    made = Counter(one for unit in plan.units for one in requests_in(unit, asker, dataset))
    assert made == Counter(asked.request_id for asked in every(asker, dataset))
    assert all(unit.requests <= MAX_UNIT_REQUESTS for unit in plan.units)
    assert len({unit.part for unit in plan.units}) == len(plan.units)


def test_what_is_done_is_left_out_even_within_a_group(dataset: Dataset, asker: RequestBuilder) -> None:
    asked = every(asker, dataset)
    finished = {one.request_id for one in asked if one.columns["task"] == "vsv"} | {asked[-1].request_id}
    plan = plan_requests(dataset, asker, CompletedRequests(finished={bytes.fromhex(one) for one in finished}))
    made = [one for unit in plan.units for one in requests_in(unit, asker, dataset)]
    assert sorted(made) == sorted({one.request_id for one in asked} - finished)


def test_nothing_is_left_when_all_is_done(dataset: Dataset, asker: RequestBuilder) -> None:
    done = CompletedRequests(finished={bytes.fromhex(one.request_id) for one in every(asker, dataset)})
    assert plan_requests(dataset, asker, done).units == []


def test_what_is_done_costs_nothing_more(dataset: Dataset, asker: RequestBuilder) -> None:
    asked = every(asker, dataset)
    whole = plan_requests(dataset, asker, CompletedRequests())
    finished = {bytes.fromhex(one.request_id) for one in asked if one.columns["setting"] != "1-frame"}
    half = plan_requests(dataset, asker, CompletedRequests(finished=finished))
    alone = plan_requests(
        dataset,
        replace(asker, cells=(TaskSetting("vsv", "1-frame"), TaskSetting("oevqa", "1-frame"))),
        CompletedRequests(),
    )
    assert half.total == whole.total
    for name in ("calls", "groups", "prompt_tokens", "shared_tokens", "distinct_media_tokens", "output_tokens"):
        assert getattr(half, name) == getattr(alone, name) != getattr(whole, name), name
    card, spec = GpuProfile(), ModelSpec(engine="transformers", model="/m", parameters_b=7)
    seconds = [sum(unit_seconds(plan, unit, spec, card) for unit in plan.units) for plan in (half, alone)]
    assert seconds[0] == pytest.approx(seconds[1], rel=0.2)
    done = plan_requests(dataset, asker, CompletedRequests(finished={bytes.fromhex(one.request_id) for one in asked}))
    assert (done.calls, done.groups, done.prompt_tokens, done.output_tokens) == (0, set(), 0, 0)


def test_failed_rows_are_asked_again_into_the_part_that_holds_them(dataset: Dataset, asker: RequestBuilder) -> None:
    asked = every(asker, dataset)
    failed = {one.request_id for one in asked[:3]}
    done = CompletedRequests(
        finished={bytes.fromhex(one.request_id) for one in asked[3:]},
        failed={bytes.fromhex(one): "predictions/benchmark=maia/model=m/old.parquet" for one in failed},
    )
    (unit,) = plan_requests(dataset, asker, done).units
    assert unit.carry
    assert unit.part == "predictions/benchmark=maia/model=m/old.parquet"
    assert set(requests_in(unit, asker, dataset)) == failed == set(unit.only)


def test_limit_and_sample_ids(dataset: Dataset, asker: RequestBuilder) -> None:
    few = plan_requests(dataset, asker, CompletedRequests(), limit=Limit.parse("2"))
    assert few.total == 2 * 9 * 3
    one = plan_requests(dataset, asker, CompletedRequests(), sample_ids=["video2/Sentiment_B"])
    assert one.total == 9 * 3
    with pytest.raises(UsageError, match="video9/Nothing"):
        plan_requests(dataset, asker, CompletedRequests(), sample_ids=["video9/Nothing"])


def test_a_unit_survives_its_journey(dataset: Dataset, asker: RequestBuilder) -> None:
    for unit in plan_requests(dataset, asker, CompletedRequests()).units:
        assert WorkUnit.from_dict(unit.to_dict()) == unit


def test_ids_depend_on_what_is_asked_and_on_nothing_else(dataset: Dataset, asker: RequestBuilder) -> None:
    def ids(one: RequestBuilder) -> list[str]:
        return [asked.request_id for asked in every(one, dataset)]

    same = ids(asker)
    assert ids(RequestBuilder.from_json(asker.to_json())) == same
    assert len(set(same)) == len(same)
    for changed in (
        replace(asker, model="other"),
        replace(asker, model_fingerprint={"model": "m", "revision": "r2"}),
        replace(asker, dataset_fingerprint="other"),
        replace(asker, generation={"temperature": 0.5}),
        replace(asker, prompts={"vsv-it-v1": "{a} {b}", "oevqa-it-v1": "{question}"}),
    ):
        assert not set(ids(changed)) & set(same)
    fewer = replace(asker, cells=(TaskSetting("vsv", "1-frame"),))
    assert set(ids(fewer)) < set(same)


def test_estimates_count_shared_media_once(dataset: Dataset, asker: RequestBuilder) -> None:
    plan: Plan = plan_requests(dataset, asker, CompletedRequests())
    assert 0 < plan.distinct_media_tokens < plan.shared_tokens < plan.prompt_tokens
    assert plan.shared_tokens > 100 * plan.distinct_media_tokens
