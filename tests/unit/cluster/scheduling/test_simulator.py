"""The simulation of a sweep: no unit lost or repeated, never better than the bound, in the scheduler's order."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.errors import ClusterError
from cluster.scheduling.gpu_scheduler import (
    Fleet,
    GpuScheduler,
    ModelWorkload,
    SimulationResult,
    choose_schedule,
    estimate_makespan,
    lower_bound,
    run_schedule,
)
from cluster.scheduling.simulator import simulate


def work(name: str, gpus: int, *units: float, load: float = 10.0, most: int = 99) -> ModelWorkload:
    return ModelWorkload(name=name, gpus=gpus, load_s=load, units=units, max_replicas=most)


def fleet(gpus: int, **more: float) -> Fleet:
    return Fleet(**{"gpus": gpus, "node_start_s": 0.0, **more})


def run(works: list[ModelWorkload], on: Fleet, cost_limit: float | None = None) -> SimulationResult:
    return simulate(run_schedule(works, on.nodes, cost_limit), on)


def test_models_take_their_time_and_keep_their_gpus() -> None:
    result = run([work("a", 1, 5.0, 7.0)], fleet(1))
    assert result.makespan_s == 22.0
    assert result.loads == {"a": 1}
    assert result.utilisation() == pytest.approx(12 / 22)
    assert result.price_usd == pytest.approx(22 / 3600 * 2.5)
    assert run([work("a", 1, 5.0, 7.0)], fleet(1, node_start_s=100.0)).makespan_s == 122.0
    assert run([work("a", 1, *[1.0] * 4, load=100.0)], fleet(8)).loads == {"a": 4}
    both = [work("a", 1, *[1.0] * 4, load=100.0), work("b", 1, *[9.0] * 4, load=100.0, most=3)]
    result = run(both, fleet(8), cost_limit=1.0)
    assert result.loads == {"a": 4, "b": 3}
    assert result.starts == {"a": 0.0, "b": 101.0}  # in the order given
    assert run(both, fleet(8)).loads == {"a": 1, "b": 1}  # more would save less than they load
    big, small = work("big", 4, *[100.0] * 4, most=1), [work(f"s{i}", 1, 50.0, 50.0) for i in range(4)]
    result = run([*small, big], fleet(8))
    assert set(result.starts.values()) == {0.0}
    assert set(result.loads.values()) == {1}
    assert result.makespan_s == 410.0
    assert result.paid_gpu_s == 8 * 410.0


def test_nodes_of_several_sizes_are_added_on_demand_for_models_that_fit_them() -> None:
    works = [work("huge", 8, 1.0), work("api", 0, 1.0), work("a", 3, 10.0, 10.0, load=0.0)]
    result = run(works, fleet(4))
    assert result.ends == {"a": 20.0}
    with pytest.raises(ClusterError, match="needs 8 GPUs of one node"):
        lower_bound(works[:1], fleet(4))
    on = Fleet(gpus=6, gpus_by_node=(4, 1, 1), node_start_s=60.0)
    result = run([work("big", 4, 100.0), work("a", 1, 20.0), work("b", 1, 20.0)], on)
    assert result.makespan_s == 170.0
    assert result.paid_gpu_s == 4 * 170 + 2 * 90


def test_lost_node_costs_only_the_work_it_ran() -> None:
    works = [work("a", 1, *[600.0] * 200)]
    calm, stormy = run(works, fleet(16)), run(works, fleet(16, losses_per_hour=0.5))
    assert calm.lost_nodes == 0 < stormy.lost_nodes
    assert stormy.makespan_s > calm.makespan_s
    assert stormy.busy_gpu_s == pytest.approx(calm.busy_gpu_s) == pytest.approx(200 * 600)
    assert stormy.redone_s > 0
    assert stormy.loads["a"] == 16 + 8 * stormy.lost_nodes
    assert run(works, fleet(16, losses_per_hour=0.5)) == stormy


WORKS = st.lists(
    st.builds(
        lambda gpus, load, units: (gpus, load, units), st.sampled_from([1, 2, 4, 8]), st.floats(1, 300),
        st.lists(st.floats(1, 500), min_size=1, max_size=40),
    ),
    min_size=1,
    max_size=6,
)  # fmt: skip


@settings(max_examples=20)
@given(raw=WORKS, gpus=st.sampled_from([8, 16, 64]), loss=st.sampled_from([0.0, 0.3]))
def test_every_unit_runs_once_and_never_below_the_lower_bound(raw: list, gpus: int, loss: float) -> None:
    works = [work(f"m{i}", g, *units, load=load) for i, (g, load, units) in enumerate(raw)]
    on = fleet(gpus, losses_per_hour=loss)
    for scheduler in (
        run_schedule(works, on.nodes),
        GpuScheduler(works, on.nodes, together=False),
        GpuScheduler(works, on.nodes),
    ):
        result = simulate(scheduler, on)
        assert result.busy_gpu_s == pytest.approx(sum(w.gpus * w.seconds for w in works))
        assert set(result.ends) == {w.name for w in works}
        assert max(result.ends.values()) == result.makespan_s
        assert result.makespan_s >= lower_bound(works, fleet(gpus)) * (1 - 1e-9)
        assert result.paid_gpu_s >= result.busy_gpu_s * (1 - 1e-9)
        assert result == simulate(scheduler, on)  # a simulation leaves the scheduler as it was


@settings(max_examples=40)
@given(
    raw=st.lists(st.tuples(st.sampled_from([1, 2, 4]), st.integers(1, 50), st.integers(2, 9)), min_size=2, max_size=6)
)
def test_equal_units_end_at_the_estimated_time(raw: list) -> None:
    """The simulation and the scheduler's estimate differ only by rounding of units to replicas."""
    works = [work(f"m{i}", g, *[2.0] * (60 * n), most=most) for i, (g, n, most) in enumerate(raw)]
    scheduler = choose_schedule(works, [8, 8])
    assert simulate(scheduler, fleet(16)).makespan_s == pytest.approx(
        estimate_makespan(scheduler), rel=0.02, abs=2.0 * len(works)
    )
