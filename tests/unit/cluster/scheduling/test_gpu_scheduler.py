"""Models side by side: no GPU is assigned twice, every model runs, and the makespan is no longer than alone."""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.errors import PostponedError
from cluster.scheduling.gpu_scheduler import (
    MAX_ENDPOINT_MODELS,
    Fleet,
    GpuScheduler,
    ModelWorkload,
    choose_schedule,
    estimate_makespan,
    lower_bound,
    run_concurrently,
)
from cluster.scheduling.simulator import simulate


def work(name: str, gpus: int, *units: float, load: float = 10.0, most: int = 99) -> ModelWorkload:
    return ModelWorkload(name=name, gpus=gpus, load_s=load, units=units, max_replicas=most)


def played(works: list[ModelWorkload], nodes: list[int]) -> tuple[float, dict[str, tuple[float, float, int]]]:
    """End of all, and (begin, end, replicas) of each, when a model takes its units' time over its replicas."""
    scheduler, now, running, intervals = GpuScheduler(works, nodes), 0.0, [], {}
    of = {model_work.name: model_work for model_work in works}
    while True:
        for name, replicas in scheduler.begin():
            end = now + of[name].load_s + of[name].seconds / replicas
            intervals[name] = (now, end, replicas)
            heapq.heappush(running, (end, name))
        gpus_in_use = sum(intervals[name][2] * of[name].gpus for _, name in running if of[name].gpus <= max(nodes))
        assert gpus_in_use <= sum(nodes)
        if not running:
            return now, intervals
        now, name = heapq.heappop(running)
        scheduler.end(name)


def one_by_one(works: list[ModelWorkload], gpus: int) -> float:
    return sum(w.load_s + w.seconds / min(gpus // w.gpus, len(w.units), w.max_replicas) for w in works)


def test_schedule_with_the_shorter_makespan_is_chosen() -> None:
    big, small = work("big", 4, *[100.0] * 4, most=1), [work(f"s{i}", 1, 50.0, 50.0) for i in range(4)]
    end, intervals = played([*small, big], [8])
    assert {begin for begin, _, _ in intervals.values()} == {0.0}
    assert end == 410.0
    assert end < one_by_one([*small, big], 8)
    works = [work("long", 1, *[3.6] * 10_000), *(work(f"s{i}", 1, *[3.6] * 1000) for i in range(8))]
    end, intervals = played(works, [8])
    assert intervals["long"][2] >= 4
    assert end == pytest.approx(estimate_makespan(GpuScheduler(works, [8])))
    assert end < 1.5 * one_by_one(works, 8)
    even = [work(f"m{i}", 1, *[3.6] * 1000) for i in range(9)]  # nine of a kind on eight GPUs: the ninth would be alone
    assert not choose_schedule(even, [8]).together
    few = [work(f"m{i}", 1, *[100.0] * 2) for i in range(9)]  # more than two GPUs are of no use to any of them
    assert choose_schedule(few, [8]).together
    assert estimate_makespan(choose_schedule(even, [8])) == pytest.approx(one_by_one(even, 8))
    assert GpuScheduler(even, [8], together=False).begin() == [("m0", 8)]


def test_endpoint_models_and_misfits_start_at_once_up_to_the_limit() -> None:
    works = [*(work(f"api{i}", 0, 1.0) for i in range(MAX_ENDPOINT_MODELS + 1)), work("a", 2, 1.0), work("b", 2, 1.0)]
    begun = dict(GpuScheduler([*works, work("huge", 8, 1.0)], [2]).begin())
    assert (
        len([name for name in begun if name.startswith("api")] + [n for n in begun if n == "huge"])
        == MAX_ENDPOINT_MODELS
    )
    assert len({"a", "b"} & begun.keys()) == 1


def test_models_take_only_replicas_that_pay_within_the_target_on_planned_nodes() -> None:
    assert GpuScheduler([work("a", 1, *[100.0] * 50, most=6)], [4, 4]).begin() == [("a", 6)]
    assert GpuScheduler([work("a", 1, *[1.0] * 4, load=100.0)], [8]).begin() == [("a", 1)]
    works = [work("long", 1, *[10.0] * 80), work("short", 1, *[10.0] * 20)]  # 810 and 210 seconds with their loads
    assert GpuScheduler(works, [4], target=1.1).begin() == [("long", 3), ("short", 1)]  # 280 seconds
    assert GpuScheduler(works, [4], target=0.7).begin() == [("long", 4)]
    scheduler = GpuScheduler([work("large", 8, 90.0), work("small", 1, 9.0)], [8, 1, 1, 1])
    scheduler.begin()
    assert scheduler.node_sizes_of("large") == (8,)
    assert scheduler.node_sizes_of("small") == (1,)


@settings(max_examples=25)
@given(
    st.lists(
        st.tuples(st.sampled_from([0, 1, 1, 1, 2, 4, 8]), st.floats(1, 1e4), st.integers(1, 60), st.integers(1, 9)),
        min_size=1,
        max_size=12,
    ),
    st.sampled_from([[1], [2], [8], [4, 4], [8, 8, 2]]),
)
def test_models_run_once_and_no_gpu_is_shared(drawn: list[tuple[int, float, int, int]], nodes: list[int]) -> None:
    works = [
        work(f"m{i}", gpus, *[seconds / units] * units, load=60.0, most=most)
        for i, (gpus, seconds, units, most) in enumerate(drawn)
    ]
    _, intervals = played(works, nodes)
    assert intervals.keys() == {work.name for work in works}
    assert all(1 <= intervals[work.name][2] <= max(1, min(work.max_replicas, len(work.units))) for work in works)
    assert estimate_makespan(choose_schedule(works, nodes)) <= estimate_makespan(
        GpuScheduler(works, nodes, together=False)
    )


def test_models_run_concurrently_and_the_next_starts_when_one_ends() -> None:
    both, order = threading.Barrier(2, timeout=120), []

    def run(name: str, replicas: int, stop: threading.Event) -> None:
        order.append(name)
        if name != "c":
            both.wait()

    run_concurrently(GpuScheduler([work("a", 1, 9.0), work("b", 1, 8.0), work("c", 1, 7.0)], [2]), run)
    assert sorted(order[:2]) == ["a", "b"]
    assert order[2:] == ["c"]


def test_error_stops_the_other_models_and_starts_no_more() -> None:
    events = []

    def run(name: str, replicas: int, stop: threading.Event) -> None:
        events.append(name)
        if name == "a":
            raise OSError("the store is away")
        assert stop.wait(120)
        events.append("stopped")

    begun = time.monotonic()
    with pytest.raises(OSError, match="store is away"):
        run_concurrently(GpuScheduler([work("a", 1, 9.0), work("b", 1, 8.0), work("c", 1, 7.0)], [2]), run)
    assert sorted(events) == ["a", "b", "stopped"]
    assert time.monotonic() - begun < 100


@pytest.mark.full
def test_schedule_of_many_models_fills_the_gpus_to_a_tenth() -> None:
    """Models of the catalog's sizes on nodes of eight."""
    sizes = (
        [(1, 40.0, 2500.0)] * 24 + [(1, 50.0, 4700.0)] * 6 + [(2, 76.0, 7200.0), (4, 130.0, 7600.0), (4, 135.0, 8000.0)]
    )
    works = [
        work(f"m{i}", gpus, *[seconds / 1200] * 1200, load=load, most=999)
        for i, (gpus, load, seconds) in enumerate(sizes)
    ]
    for gpus in (16, 64, 128, 256, 1024):
        fleet = Fleet(gpus=gpus, node_start_s=0.0)
        schedule = choose_schedule(works, fleet.nodes)
        assert simulate(schedule, fleet).makespan_s < 1.1 * lower_bound(works, fleet), gpus


def test_model_without_a_node_is_tried_again_after_those_that_wait() -> None:
    order: list[str] = []

    def run(name: str, replicas: int, stop: threading.Event) -> None:
        order.append(name)
        if name == "a" and order.count("a") < 3:
            raise PostponedError("no node has 8 GPUs")

    run_concurrently(GpuScheduler([work("a", 1, 9.0), work("b", 1, 8.0), work("c", 1, 7.0)], [1]), run)
    assert order == ["a", "b", "c", "a", "a"]


def test_work_beside_the_models_gets_gpus_that_no_model_waits_for() -> None:
    """Of nodes with 2, 1 and 1 GPUs: `a` takes two, `b` and `c` one each, `d` waits; then GPUs become spare."""
    may_end, seen = {name: threading.Event() for name in "abcd"}, list[object]()

    def run(name: str, replicas: int, stop: threading.Event) -> None:
        assert may_end[name].wait(60)

    def beside(spare: Sequence[tuple[int, int]], leave: threading.Event, stop: threading.Event) -> None:
        seen.append(spare)
        ends = {0: "b", 1: "c", 2: "a"}
        if len(seen) - 1 in ends:
            may_end[ends[len(seen) - 1]].set()
        else:
            may_end["d"].set()
            assert leave.wait(60)
            seen.append("left")
            assert not stop.is_set()

    works = [work("a", 2, 9.0), work("b", 1, 8.0), work("c", 1, 7.0), work("d", 1, 6.0)]
    run_concurrently(GpuScheduler(works, [2, 1, 1]), run, beside)
    assert seen == [(), (), ((1, 1),), ((2, 2), (1, 1)), "left"]


def test_work_beside_the_models_leaves_where_one_that_was_postponed_waits_for_it() -> None:
    """In turn, a model starts only where nothing else holds GPUs."""
    tries, is_lent, left = list[str](), threading.Event(), threading.Event()

    def run(name: str, replicas: int, stop: threading.Event) -> None:
        tries.append(name)
        if len(tries) == 1:
            assert is_lent.wait(60)
            raise PostponedError("no node")
        assert left.is_set()

    def beside(spare: Sequence[tuple[int, int]], leave: threading.Event, stop: threading.Event) -> None:
        if not left.is_set():
            assert spare == ((2, 1),)
            is_lent.set()
            assert leave.wait(60)
            left.set()

    run_concurrently(GpuScheduler([work("a", 1, 9.0)], [2], together=False), run, beside)
    assert tries == ["a", "a"]


@pytest.mark.parametrize("fails", ["a", "beside"])
def test_error_of_a_model_stops_the_work_beside_it_and_the_other_way_round(fails: str) -> None:
    stopped, begun = list[str](), threading.Barrier(2, timeout=60)

    def end(name: str, stop: threading.Event) -> None:
        begun.wait()
        if name == fails:
            raise OSError("the store is away")
        assert stop.wait(60)
        stopped.append(name)

    with pytest.raises(OSError, match="store is away"):
        run_concurrently(
            GpuScheduler([work("a", 1, 9.0, most=1)], [2]),
            lambda name, _, stop: end(name, stop),
            lambda _, __, stop: end("beside", stop),
        )
    assert stopped == [{"a": "beside", "beside": "a"}[fails]]
