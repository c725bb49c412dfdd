from __future__ import annotations

from dataclasses import replace

from jobs.nightly.cost import cost, token_difference
from models.entry_fields import Price
from models.spec import ModelSpec
from pipelines.plan.run_spec import RunSpec
from pipelines.predict.records import TokenCounts
from tests.unit.jobs.nightly.cases import random


def test_cost_counts_tokens_and_gpu_hours() -> None:
    spec = RunSpec(data="data", out="out", models={"m": random()}, benchmarks=("maia",))
    priced = replace(spec, models={"m": random(price=Price(input_per_million=2.0, output_per_million=10.0))})
    used = {("predictions", "maia", "m"): TokenCounts(1_000_000, 100_000)}
    assert cost(priced, "maia", used, 60.0, None) == 3.0
    assert cost(spec, "maia", used, 60.0, 2.5) is None
    cached = Price(input_per_million=2.0, cached_input_per_million=0.2, output_per_million=10.0)
    used_cached = {("predictions", "maia", "m"): TokenCounts(1_000_000, 100_000, 900_000)}
    assert cost(replace(spec, models={"m": random(price=cached)}), "maia", used_cached, 60.0, None) == 1.38
    ours = ModelSpec(engine="transformers", model="x", tensor_parallel=4, replicas={"max": 2})
    assert cost(replace(spec, models={"m": ours}), "maia", used, 1800.0, 2.5) == 10.0


def test_token_difference_is_never_negative() -> None:
    assert token_difference(TokenCounts(5, 1, 4), TokenCounts(2, 3, 1)) == (3, 0, 3, 0)
