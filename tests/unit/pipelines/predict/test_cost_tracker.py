"""What is left of a run's cost limit, shared out among those who spend it."""

from __future__ import annotations

import pytest

from models.spec import ModelSpec
from pipelines.predict.cost_tracker import CostTracker


@pytest.mark.parametrize(("batch", "limit"), [(False, 2.0), (True, 8.0)])
def test_replicas_share_the_limit_and_a_run_in_batches_has_all_of_it(batch: bool, limit: float) -> None:
    spec = ModelSpec.model_validate(
        {
            "engine": "openai",
            "model": "m",
            "base_url": "http://127.0.0.1/v1",
            "batch": batch,
            "replicas": {"min": 1, "max": 4},
            "price": {"input_per_million": 1.0, "output_per_million": 1.0},
        }
    )
    assert CostTracker(limit=8.0).limited(spec).cost_limit == pytest.approx(limit)
