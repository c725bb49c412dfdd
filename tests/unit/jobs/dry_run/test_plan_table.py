from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

import jobs.dry_run.plan_table as page
from cluster.connection import ClusterInfo
from cluster.scheduling.gpu_scheduler import Fleet
from jobs.dry_run import plan_table
from jobs.dry_run.plan_table import schedule, schedule_summary, show_plan
from models.entry_fields import Price, Replicas
from models.spec import ModelSpec
from pipelines.plan.context import SweepContext
from pipelines.plan.cost_model import model_workload
from pipelines.plan.planner import plan_sweep
from pipelines.plan.records import ModelPlan
from pipelines.plan.run_spec import RunSpec
from tests.support.requests import target_of

TARGET = target_of(
    benchmark_name="maia",
    dataset_fingerprint="d",
    model="m",
    task_settings=(),
    seed=1,
)


@pytest.mark.parametrize(("tokens", "price"), [(None, "about $2.00"), (0, "about $2.00"), (1000, "about $7.00")])
def test_price_counts_the_tokens_that_a_model_may_think_with(tokens: int | None, price: str) -> None:
    spec = ModelSpec(
        engine="openai",
        model="m",
        base_url="http://x/v1",
        reasoning_tokens=tokens,
        price=Price(input_per_million=1.0, output_per_million=5.0),
    )
    plan = ModelPlan(target=TARGET, calls=1000, prompt_tokens=1_000_000, output_tokens=200_000)
    row = plan_table._plan_row(spec, "m", plan)
    assert row["price"] == price


def test_price_states_the_day_of_its_list_prices() -> None:
    price = Price(input_per_million=1.0, output_per_million=5.0, as_of=date(2026, 11, 23))
    spec = ModelSpec(engine="openai", model="m", base_url="http://x/v1", price=price)
    row = plan_table._plan_row(spec, "m", ModelPlan(target=TARGET, prompt_tokens=1_000_000))
    assert row["price"] == "about $1.00 at prices of 2026-11-23"


def test_price_with_the_cache_counts_what_requests_share_once() -> None:
    price = Price(
        input_per_million=10.0, cached_input_per_million=1.0, cache_write_per_million=12.5, output_per_million=0.0
    )
    spec = ModelSpec(engine="openai", model="m", base_url="http://x/v1", price=price)
    plan = ModelPlan(
        target=TARGET, prompt_tokens=1_000_000, cacheable_tokens=900_000, distinct_cacheable_tokens=100_000
    )
    row = plan_table._plan_row(spec, "m", plan)
    assert row["price_usd"] == pytest.approx(10.0)
    assert row["price_cached_usd"] == pytest.approx(0.1 * 10 + 0.8 * 1 + 0.1 * 12.5)
    assert row["price"] == "about $10.00 ($3.05 where the provider's cache holds what requests share)"
    for changes in ({"prompt_cache": "off"}, {"batch": True}):
        assert plan_table._plan_row(spec.model_copy(update=changes), "m", plan)["price_cached_usd"] is None


def test_price_counts_pictures_as_the_provider_bills_them() -> None:
    price = Price(input_per_million=10.0, cached_input_per_million=1.0, output_per_million=0.0)
    spec = ModelSpec(engine="openai", model="m", base_url="http://x/v1", price=price, tokens_per_picture=765)
    plan = ModelPlan(  # a text of 100 tokens and 4 frames of 500 in each of 100 requests about 10 clips
        target=TARGET,
        prompt_tokens=210_000,
        shared_tokens=200_000,
        distinct_media_tokens=20_000,
        cacheable_tokens=200_000,
        distinct_cacheable_tokens=20_000,
        pictures=400,
    )
    row = plan_table._plan_row(spec, "m", plan)
    assert row["prompt_tokens"] == 100 * (100 + 4 * 765)
    assert row["price_usd"] == pytest.approx(3.16)
    assert row["price_cached_usd"] == pytest.approx(10e-6 * 10 * (1_000 + 3_060) + 1e-6 * 90 * 3_060)
    assert 0 < row["least_tokens"] <= row["prompt_tokens"]
    no_tokens = ModelPlan(target=TARGET, prompt_tokens=10_000, pictures=400)  # pictures of less than a patch
    assert plan_table._plan_row(spec, "m", no_tokens)["prompt_tokens"] == 10_000 + 400 * 765
    by_pixels = plan_table._plan_row(spec.model_copy(update={"tokens_per_picture": None}), "m", plan)
    assert (by_pixels["prompt_tokens"], by_pixels["price_usd"]) == (210_000, pytest.approx(2.1))


def test_plan_states_what_all_endpoints_may_cost_together(capsys: pytest.CaptureFixture[str]) -> None:
    price = Price(input_per_million=1.0, output_per_million=5.0)
    paid = ModelSpec(engine="openai", model="m", base_url="http://x/v1", price=price)
    free = ModelSpec(engine="openai", model="f", base_url="http://x/v1")
    spec = RunSpec(models={"a": paid, "b": paid, "c": free}, benchmarks=("vague",), data="d", out="o")
    plan = ModelPlan(target=TARGET, prompt_tokens=1_250_000)
    plan_table.show_plan(spec, {name: [plan, plan] for name in spec.models}, as_json=False)
    assert "Endpoints: about $5.00 together, without c (no price given); providers count" in capsys.readouterr().out


@pytest.mark.parametrize(("engine", "least", "is_said"), [("vllm", 1_000_000, True), ("transformers", 300_000, False)])
def test_plan_counts_what_an_engine_pays_for_again(
    engine: str, least: int, is_said: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    model = ModelSpec(engine=engine, model="org/m", architecture="qwen3_5", parameters_b=9)
    spec = RunSpec(models={"m": model}, benchmarks=("vague",), data="d", out="o")
    plan = ModelPlan(
        target=TARGET, calls=100, prompt_tokens=1_000_000, shared_tokens=750_000, distinct_media_tokens=50_000
    )
    assert plan_table._plan_row(model, "m", plan)["least_tokens"] == least
    plan_table.show_plan(spec, {"m": [plan]}, as_json=False)
    sentence = "clips and pictures are paid for with every question: vllm keeps no state of qwen3_5"
    assert (sentence in capsys.readouterr().out) is is_said


def test_plan_of_a_run_that_may_stop_says_that_it_is_the_whole(capsys: pytest.CaptureFixture[str]) -> None:
    models = {"m": ModelSpec(engine="random")}
    spec = RunSpec(models=models, benchmarks=("vague",), data="d", out="o", until="ranking")
    for until, is_said in ((spec.until, True), (None, False)):
        plan_table.show_plan(replace(spec, until=until), {"m": [ModelPlan(target=TARGET)]}, as_json=False)
        assert ("--until ranking: this is the whole plan" in capsys.readouterr().out) is is_said
        plan_table.show_plan(replace(spec, until=until), {"m": [ModelPlan(target=TARGET)]}, as_json=True)
        assert json.loads(capsys.readouterr().out).get("until") == ("ranking" if is_said else None)


def test_plan_states_the_hours_of_offloading_over_all_benchmarks(capsys: pytest.CaptureFixture[str]) -> None:
    big = ModelSpec(engine="transformers", model="org/big", parameters_b=4000, batch_size=8, offload=True)
    spec = RunSpec(models={"big": big}, benchmarks=("vague",), data="d", out="o")
    plan = ModelPlan(target=TARGET, calls=1000, prompt_tokens=600_000, output_tokens=200_000)
    plan_table.show_plan(spec, {"big": [plan, plan]}, as_json=False)
    printed = capsys.readouterr().out
    one_plan, all_plans = (
        float(match[1].replace(",", ""))
        for pattern in (r"([\d,]+) h or more for this plan", r"([\d,]+) h or more in all")
        if (match := re.search(pattern, printed))
    )
    assert all_plans == pytest.approx(2 * one_plan, abs=1)


LOCAL = ModelSpec(engine="transformers", model="o/m", revision="1", parameters_b=7, replicas={"max": 3})
BIG = ModelSpec(engine="transformers", model="o/b", revision="1", parameters_b=70, tensor_parallel=4)


@pytest.fixture
def spec(maia_data: str, tmp_path: Path) -> RunSpec:
    models = {"a": LOCAL, "b": LOCAL, "big": BIG}
    return RunSpec(data=maia_data, out=str(tmp_path), models=models, benchmarks=("maia",))


def on(
    monkeypatch: pytest.MonkeyPatch, nodes: Sequence[int] = (), max_gpu_nodes: tuple[int, ...] = (), cards: int = 0
) -> None:
    @contextlib.contextmanager
    def joined(address: str) -> Iterator[ClusterInfo]:
        yield ClusterInfo(address, 8.0, float(sum(nodes)), max_gpu_nodes)

    monkeypatch.setattr(page, "connect", joined)
    monkeypatch.setattr(page, "gpus_of_nodes", lambda: list(nodes))
    monkeypatch.setattr(page, "local_gpus", lambda: [1] * cards)


def test_schedule_says_when_each_model_runs(spec: RunSpec) -> None:
    works = [
        model_workload(name, plans, spec.models[name]) for name, plans in plan_sweep(SweepContext.open(spec)).items()
    ]
    planned_schedule = schedule(works, Fleet(gpus=16))
    rows = planned_schedule["models"]
    assert {row["model"] for row in rows} == {"a", "b", "big"}
    last = max(row["ends_s"] for row in rows)
    assert last / 3600 == pytest.approx(planned_schedule["hours"], abs=1e-3)
    assert planned_schedule["hours"] >= planned_schedule["bound_hours"] > 0
    assert planned_schedule["gpu_hours"] >= sum(row["gpu_hours"] for row in rows) - 0.02
    assert planned_schedule["price_usd"] == pytest.approx(planned_schedule["gpu_hours"] * 2.5, abs=0.02)


def test_schedule_uses_the_nodes_of_the_cluster(spec: RunSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    plans = plan_sweep(SweepContext.open(spec))
    here = replace(spec, address="head:6379")
    on(monkeypatch, nodes=[2, 2])
    summary = schedule_summary(here, plans)
    assert summary is not None
    assert (summary["gpus"], summary["on"], summary["unplaced"]) == (4, "the cluster at head:6379 as it is", ["big"])
    on(monkeypatch, nodes=[2], max_gpu_nodes=(8, 1, 1))
    summary = schedule_summary(here, plans)
    assert summary is not None
    assert (summary["gpus"], summary["on"]) == (10, "the cluster at head:6379 at full scale")
    assert {model["model"] for model in summary["models"]} == {"a", "b", "big"}
    on(monkeypatch)
    assert schedule_summary(here, plans) == {"gpus": 0, "on": "the cluster at head:6379 as it is", "models": []}


def test_schedule_without_a_cluster_uses_this_machine_or_assumed_nodes(
    spec: RunSpec, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plans = plan_sweep(SweepContext.open(spec))
    on(monkeypatch, cards=4)
    summary = schedule_summary(spec, plans)
    assert summary is not None
    assert (summary["gpus"], summary["on"], summary["unplaced"]) == (4, "this machine", [])
    on(monkeypatch)
    show_plan(spec, plans, as_json=False)
    lines = capsys.readouterr().out.splitlines()
    here = "Here: no GPU. Models that fit run on the CPU, in an unknown time. Estimate for 8 GPUs (assumed H100):"
    assumed = next(line for line in lines if line.startswith("On 8 GPUs (assumed: no --address is given and no GPU"))
    assert lines.index(here) < lines.index(assumed)
    alone = replace(spec, models={"a": spec.models["a"].model_copy(update={"replicas": Replicas(max=1)})})
    show_plan(alone, {"a": plans["a"]}, as_json=False)
    assert "\nOn one GPU (assumed: no --address is given" in capsys.readouterr().out
    assert (
        schedule_summary(replace(spec, models={"random": ModelSpec(engine="random")}), {"random": plans["a"]}) is None
    )


def test_schedule_with_a_cost_limit_runs_models_one_after_another(
    spec: RunSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    on(monkeypatch, cards=8)
    summary = schedule_summary(replace(spec, cost_limit=5.0), plan_sweep(SweepContext.open(spec)))
    assert summary is not None
    first, second, third = summary["models"]
    assert (first["begins_s"], second["begins_s"], third["begins_s"]) == (0, first["ends_s"], second["ends_s"])
    assert [model["model"] for model in summary["models"]] == ["a", "b", "big"]


def test_schedule_counts_a_gpu_that_replicas_share_once(spec: RunSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    on(monkeypatch, cards=2)
    shared = ModelSpec.model_validate({**LOCAL.model_dump(), "replicas_per_gpu": 2, "replicas": {"max": 2}})
    spec = replace(spec, models={"a": shared, "b": shared})
    summary = schedule_summary(spec, plan_sweep(SweepContext.open(spec)))
    assert summary is not None
    rows = summary["models"]
    assert isinstance(rows, list)
    assert [(row["begins_s"], row["gpus_a_replica"], row["loads"]) for row in rows] == [(0.0, 0.5, 2)] * 2
