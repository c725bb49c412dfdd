"""What is left of a run's cost limit, shared out among those who spend it."""

from __future__ import annotations

import pytest

from models.spec import ModelSpec
from pipelines.errors import CostLimitReachedError
from pipelines.predict.cost_tracker import CostTracker
from pipelines.predict.records import TokenCounts


@pytest.mark.parametrize(("batch", "limit"), [(False, 2.0), (True, 8.0)])
def test_replicas_share_the_limit_and_a_run_in_batches_has_all_of_it(batch: bool, limit: float) -> None:
    spec = ModelSpec.model_validate(
        {"engine": "openai", "model": "m", "base_url": "http://127.0.0.1/v1", "batch": batch,
         "replicas": {"min": 1, "max": 4}, "price": {"input_per_million": 1.0, "output_per_million": 1.0}}
    )  # fmt: skip
    assert CostTracker(limit=8.0).limited(spec).cost_limit == pytest.approx(limit)


def test_costs_count_cached_tokens_and_a_limit_below_one_request_is_to_be_raised() -> None:
    price = {
        "input_per_million": 10.0, "cached_input_per_million": 1.0, "cache_write_per_million": 20.0,
        "output_per_million": 100.0,
    }  # fmt: skip
    spec = ModelSpec.model_validate({"engine": "openai", "model": "m", "base_url": "http://x/v1", "price": price})
    costs = CostTracker()
    for _ in range(2):
        costs.add("m", spec, TokenCounts(read=1000, written=10, cached=600, cache_writes=300))
    assert costs.dollars["m"] == pytest.approx(2 * (100 * 10 + 600 * 1 + 300 * 20 + 10 * 100) / 1e6)
    assert costs.lines() == ["m: 2,000 tokens read (1,200 cached), 20 written, $0.0172"]
    assert costs.record().models["m"].cached_tokens == 1200
    costs = CostTracker(limit=0.2)
    with pytest.raises(CostLimitReachedError, match=r"may cost more.*\$0\.20.*raise --cost-limit") as caught:
        costs.check("m", is_refused=True)
    assert "again" not in str(caught.value)
