from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import date

import pytest

from jobs.dry_run import plan_table
from models.entry_fields import Price
from models.spec import ModelSpec
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
    of_one_plan, of_all_plans = (
        float(match[1].replace(",", ""))
        for pattern in (r"([\d,]+) h or more for this plan", r"([\d,]+) h or more in all")
        if (match := re.search(pattern, printed))
    )
    assert of_all_plans == pytest.approx(2 * of_one_plan, abs=1)
