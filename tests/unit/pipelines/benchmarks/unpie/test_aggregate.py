"""UNPIE's intervals."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.benchmarks.unpie.aggregate import MetricScope, mean_interval
from pipelines.metrics.stats import bootstrap_ci


@given(st.lists(st.tuples(st.sampled_from("abcdefg"), st.floats(0, 1)), min_size=2, max_size=40))
@settings(max_examples=20, deadline=None)
def test_mean_interval_agrees_with_bootstrap_ci(rows: list[tuple[str, float]]) -> None:
    clusters, values = np.array([name for name, _ in rows]), np.array([value for _, value in rows])
    metric = MetricScope("grounding", "lm", "").metric("exact_match", float(values.mean()), len(values))
    metric, expected = mean_interval(metric, values, clusters), bootstrap_ci(values, clusters)
    assert (metric.ci_low is None) == (expected is None)
    if expected:
        assert (metric.ci_low, metric.ci_high) == pytest.approx((expected.low, expected.high), abs=1e-4)
