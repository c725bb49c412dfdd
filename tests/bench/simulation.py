"""What many replicas would do with a plan: the planner's own units and batches, and the order in which Ray Data hands
them out, with seconds added up instead of waited for.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pipelines.plan.batches import batch_units
from pipelines.plan.units import SampleRequests, UnitMaker, WorkUnit
from tests.support.requests import target_of

__all__ = ["Costs", "Outcome", "planned_units", "simulate"]

IN_FLIGHT = 2
"""Rows that Ray Data gives an actor at once: one that it works on, one that waits."""
PER_SAMPLE = 8
SHARD_GROUPS = 40
_TARGET = target_of(
    benchmark_name="maia", dataset_fingerprint="", model="m", task_settings=(), seed=1,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds of an engine, and how many prefixes it caches."""

    prefill: float = 0.225
    """Of 2,250 shared tokens at 10,000 a second."""
    question: float = 0.0065
    prefix_cache_size: int = 4
    load: float = 0.5
    """Of fetching and decoding one clip, on one core."""
    loaders: int = 8
    """Cores that decode, for each replica."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a simulated run."""

    seconds: float
    busy: float
    """Share of the replicas' time in which they computed."""
    efficiency: float
    """The least work, spread evenly and without a pause, over the time that it took."""
    prefills: int
    least_prefills: int
    batches: int


def planned_units(groups: Sequence[int], replicas: int) -> list[WorkUnit]:
    """Return the planner's units for groups of so many questions, forty groups a shard."""
    maker = UnitMaker(_TARGET, replicas, expected=sum(-(-questions // PER_SAMPLE) for questions in groups))
    units: list[WorkUnit] = []
    for shard in range(0, len(groups), SHARD_GROUPS):
        pool = {
            (f"s{shard}", f"video:{index}"): _samples(index, groups[index])
            for index in range(shard, min(shard + SHARD_GROUPS, len(groups)))
        }
        maker.samples += sum(len(members) for members in pool.values())
        units += maker.units(pool)
    return units


def _samples(group: int, questions: int) -> list[SampleRequests]:
    """Return a group's questions, eight a sample, with short ids."""
    samples = []
    for start in range(0, questions, PER_SAMPLE):
        rows = list(range(start, min(start + PER_SAMPLE, questions)))
        samples.append(SampleRequests(str(start), rows, [f"{group}.{start}", *["0"] * (len(rows) - 1)]))
    return samples


def simulate(units: Sequence[WorkUnit], replicas: int, costs: Costs) -> Outcome:
    """Simulate a run: batches go out in order, each to the least loaded replica with room."""
    batches = batch_units(units, replicas)
    ready = iter(_loaded(batches, costs.loaders * replicas, costs.load))
    free = [(0.0, index) for index in range(replicas) for _ in range(IN_FLIGHT)]
    idle_from = [0.0] * replicas
    cached: list[OrderedDict[str, None]] = [OrderedDict() for _ in range(replicas)]
    work, prefills = 0.0, 0
    for batch, loaded in ready:
        at, index = heapq.heappop(free)
        seconds = 0.0
        for group, questions in _questions_by_group(batch):
            if group not in cached[index]:
                prefills += 1
                seconds += costs.prefill
            cached[index][group] = None
            cached[index].move_to_end(group)
            if len(cached[index]) > costs.prefix_cache_size:
                cached[index].popitem(last=False)
            seconds += questions * costs.question
        idle_from[index] = max(at, loaded, idle_from[index]) + seconds
        work += seconds
        # The slot in flight is free again when this batch has ended.
        heapq.heappush(free, (idle_from[index], index))
    least = len({group for batch in batches for group, _ in _questions_by_group(batch)})
    ideal = least * costs.prefill + sum(unit.requests for unit in units) * costs.question
    end = max(idle_from)
    return Outcome(end, work / (replicas * end), ideal / replicas / end, prefills, least, len(batches))


def _loaded(
    batches: Sequence[Sequence[WorkUnit]], loaders: int, seconds: float
) -> Iterator[tuple[Sequence[WorkUnit], float]]:
    """Yield batches in the order in which they are ready, with the time."""
    free = [0.0] * loaders
    for batch in batches:
        at = heapq.heappop(free) + seconds * len({group for group, _ in _questions_by_group(batch)})
        heapq.heappush(free, at)
        yield batch, at


def _questions_by_group(batch: Sequence[WorkUnit]) -> Iterator[tuple[str, int]]:
    for unit in batch:
        for media_slice in unit.slices:
            yield media_slice.group, len(media_slice.rows)
