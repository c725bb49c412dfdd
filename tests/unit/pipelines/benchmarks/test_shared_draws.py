import numpy as np
import pytest

from pipelines.benchmarks import aggregation
from pipelines.benchmarks.aggregation import MetricSpec, SharedDraws, with_intervals
from pipelines.benchmarks.records import Metric


def _spec(name: str, values: np.ndarray) -> MetricSpec:
    metric = Metric(task="t", setting="s", metric=name, value=float(values.mean()), n=len(values))
    return MetricSpec(metric, (values, np.ones(len(values))))


@pytest.mark.parametrize("max_cached", [2, 1_200])
def test_shared_draws_give_the_intervals_of_each_metric_alone(monkeypatch: pytest.MonkeyPatch, max_cached: int) -> None:
    monkeypatch.setattr(aggregation, "_MAX_CACHED_CLUSTERS", max_cached)
    generator = np.random.default_rng(5)
    clusters = generator.integers(0, 60, size=300)
    few = clusters < 20
    added = [
        (_spec("share", (generator.random(300) < 0.4).astype(np.float64)), clusters),
        (_spec("length", generator.normal(size=300)), clusters),
        (_spec("part", generator.normal(size=int(few.sum()))), clusters[few]),
        (_spec("one cluster", generator.normal(size=300)), np.zeros(300)),
    ]
    draws = SharedDraws()
    metrics = [draws.add([spec], names)[0] for spec, names in added]
    assert all(metric.ci_low is None for metric in metrics)
    count = Metric(task="t", setting="s", metric="count", value=3.0, n=3)
    completed = draws.complete([metrics[2], count, *metrics[:2], metrics[3]])
    alone = [with_intervals([spec], names)[0] for spec, names in added]
    assert completed == [alone[2], count, *alone[:2], alone[3]]
    assert [metric.ci_low is None for metric in completed] == [False, True, False, False, True]
