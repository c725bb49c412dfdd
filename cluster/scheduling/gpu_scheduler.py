"""Schedule the models of a sweep on shared GPUs: which start now, with how many replicas.

A pool of replicas keeps its size, so a model's share is fixed when it starts: as many replicas as end it together with
the whole sweep if all GPUs were always busy, or a multiple of that, whichever is estimated to end first: replicas are
whole, and rounding alone can leave half of the GPUs idle. The longest start first, shorter ones fill the free GPUs; a
waiting model holds none. If models that take all GPUs in turn are estimated to end earlier, they do that instead: on
few GPUs, fixed shares leave more idle time than loading costs.
"""

from __future__ import annotations

import heapq
import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from cluster.scheduling.workload import ModelWorkload

log = logging.getLogger(__name__)

SHARES = (1.0, 0.5, 0.7, 1.4, 2.0, 3.0)
"""Multiples of an even share that are tried."""
MAX_ENDPOINT_MODELS = 4
"""Models without GPUs that run at once: endpoints answer elsewhere, but their images are decoded here."""


@dataclass(slots=True)
class GpuScheduler:
    """Waiting models, running models, and free GPUs.

    Without `together`, each model in turn takes all GPUs that it can use. With `by_cost` the longest start first, and
    another replica must save more seconds than it loads; else models start in the given order with as many replicas as
    possible. `share` multiplies the replicas that end a model together with the whole sweep.
    """

    workloads: Sequence[ModelWorkload]
    nodes: Sequence[int]
    together: bool = True
    by_cost: bool = True
    share: float = 1.0
    _free: list[int] = field(init=False)
    _waiting: list[ModelWorkload] = field(init=False)
    _held: dict[str, list[tuple[int, int]]] = field(init=False, default_factory=dict)
    """Running model -> (node, GPUs) of each replica."""
    _even_s: float = field(init=False)
    """Duration of the sweep if all GPUs were always busy."""

    def __post_init__(self) -> None:
        self._free = list(self.nodes)
        self._waiting = list(self.workloads)
        if self.by_cost:
            self._waiting.sort(key=lambda work: -(work.seconds + work.load_s))
        self._even_s = math.fsum(work.gpus * (work.seconds + work.load_s) for work in self.workloads) / sum(self.nodes)

    def begin(self) -> list[tuple[str, int]]:
        """Return the models that start now and their replicas; they run until `end` is called."""
        started = [work for work in self._waiting if self._start(work)]
        self._waiting = [work for work in self._waiting if work not in started]
        if not any(self.needs(work) for work in self._waiting):
            for work in started:
                self._grow(work)
        return [(work.name, max(1, len(self._held[work.name]))) for work in started]

    def end(self, name: str) -> None:
        """Free the GPUs of a model."""
        for node, gpus in self._held.pop(name):
            self._free[node] += gpus

    def nodes_of(self, name: str) -> list[int]:
        """Return the node of each replica of a running model, as its index in `nodes`."""
        return [node for node, _ in self._held[name]]

    def needs(self, work: ModelWorkload) -> bool:
        """Return whether a model needs GPUs of these nodes; if no node is large enough, its start reports that."""
        return 0 < work.gpus <= max(self.nodes)

    def _start(self, work: ModelWorkload) -> bool:
        if not self.needs(work):
            if sum(not held for held in self._held.values()) >= MAX_ENDPOINT_MODELS:
                return False
            self._held[work.name] = []
            return True
        if not self.together and any(self._held.values()):
            return False
        target = self._target_replicas(work)
        held: list[tuple[int, int]] = []
        while len(held) < target and self._take(work.gpus, held):
            pass
        enough = len(held) * 2 >= target or (held and not any(self._held.values()))
        if not enough:
            for node, gpus in held:
                self._free[node] += gpus
            return False
        self._held[work.name] = held
        return True

    def _target_replicas(self, work: ModelWorkload) -> int:
        most = min(work.max_replicas, len(work.units))
        even = math.ceil(self.share * (work.seconds + work.load_s) / self._even_s) if self.together else most
        target = 1
        while target < min(even, most) and (not self.by_cost or _saves_time(work, target)):
            target += 1
        return target

    def _grow(self, work: ModelWorkload) -> None:
        held = self._held[work.name]
        most = min(work.max_replicas, len(work.units))
        while self.needs(work) and len(held) < most and _saves_time(work, len(held)) and self._take(work.gpus, held):
            pass

    def _take(self, gpus: int, held: list[tuple[int, int]]) -> bool:
        """Take the GPUs of one replica from the fullest node that fits, which leaves room for large models."""
        fitting = [(free, node) for node, free in enumerate(self._free) if free >= gpus]
        if not fitting:
            return False
        node = min(fitting)[1]
        self._free[node] -= gpus
        held.append((node, gpus))
        return True


def _saves_time(work: ModelWorkload, replicas: int) -> bool:
    return work.seconds / replicas - work.seconds / (replicas + 1) > work.load_s


def estimate_makespan(scheduler: GpuScheduler) -> float:
    """Return the estimated seconds until all GPU models of a new scheduler have ended."""
    workloads = {work.name: work for work in scheduler.workloads if scheduler.needs(work)}
    scheduler, now = replace(scheduler, workloads=tuple(workloads.values())), 0.0
    running: list[tuple[float, str]] = []
    while True:
        for name, replicas in scheduler.begin():
            heapq.heappush(running, (now + workloads[name].load_s + workloads[name].seconds / replicas, name))
        if not running:
            return now
        now, name = heapq.heappop(running)
        scheduler.end(name)


def can_run_concurrently(models: int, nodes: Sequence[int], cost_limit: float | None) -> bool:
    """Return whether a run schedules its models: it has several, GPUs, and no cost limit to share."""
    return models > 1 and bool(nodes) and cost_limit is None


def run_schedule(
    workloads: Sequence[ModelWorkload], nodes: Sequence[int], cost_limit: float | None = None
) -> GpuScheduler:
    """Return the scheduler of a run for a simulation; its models run in turn if they cannot run concurrently."""
    if can_run_concurrently(len(workloads), nodes, cost_limit):
        return choose_schedule(workloads, nodes)
    return GpuScheduler(workloads, nodes, together=False, by_cost=False)


def choose_schedule(workloads: Sequence[ModelWorkload], nodes: Sequence[int]) -> GpuScheduler:
    """Return the schedule that is estimated to end first: shares of different sizes, or models in turn."""
    in_turn = GpuScheduler(workloads, nodes, together=False)
    return min((in_turn, *(GpuScheduler(workloads, nodes, share=share) for share in SHARES)), key=estimate_makespan)
