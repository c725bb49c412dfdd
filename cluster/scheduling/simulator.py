"""Simulate a sweep: nodes start and are lost, replicas load and answer.

The scheduler decides when models start and where their replicas are. A node is requested when a replica is first placed
on it, and paid for from then until the last model on it has ended. The unit in progress on a lost node is queued again;
another node replaces it, and the replicas load again.
"""

import heapq
import math
from collections import deque
from dataclasses import dataclass, field, replace

from cluster.scheduling.gpu_scheduler import Fleet, GpuScheduler, ModelWorkload, SimulationResult


@dataclass(slots=True, eq=False)
class _Replica:
    work: ModelWorkload
    node: int
    loaded: bool = False
    unit: float | None = None
    began: float = 0.0


@dataclass(slots=True)
class _Node:
    requested: bool = False
    up: bool = False
    since: float = 0.0
    used: float = 0.0
    generation: int = 0
    replicas: list[_Replica] = field(default_factory=list)


class _Sweep:
    """State of a simulation. An event is (time, ticket, node, its generation, replica or None for the node's own)."""

    def __init__(self, scheduler: GpuScheduler, fleet: Fleet) -> None:
        self.scheduler, self.fleet = scheduler, fleet
        self.workloads = {work.name: work for work in scheduler.workloads}
        self.queues = {work.name: deque(work.units) for work in scheduler.workloads}
        self.open_units = {work.name: len(work.units) for work in scheduler.workloads if work.units}
        self.gpus = fleet.nodes
        self.nodes = [_Node() for _ in self.gpus]
        self.events: list[tuple[float, int, int, int, _Replica | None]] = []
        self.ticket = 0
        self.result = SimulationResult()

    def schedule(self, when: float, node: int, replica: _Replica | None = None) -> None:
        self.ticket += 1
        heapq.heappush(self.events, (when, self.ticket, node, self.nodes[node].generation, replica))

    def begin(self, now: float) -> None:
        while started := [name for name, _ in self.scheduler.begin()]:
            for name in started:
                if name in self.open_units and self.scheduler.nodes_of(name):
                    self.place(name, now)
                else:
                    self.open_units.pop(name, None)
                    self.scheduler.end(name)

    def place(self, name: str, now: float) -> None:
        self.result.starts[name] = now
        for index in self.scheduler.nodes_of(name):
            node, replica = self.nodes[index], _Replica(self.workloads[name], index)
            node.replicas.append(replica)
            if not node.requested:
                self.request(index, now)
            elif node.up:
                self.load(replica, now)

    def request(self, index: int, now: float) -> None:
        node = self.nodes[index]
        node.requested, node.up, node.since = True, False, now
        self.schedule(now + self.fleet.node_start_s, index)

    def load(self, replica: _Replica, now: float) -> None:
        name = replica.work.name
        self.result.loads[name] = self.result.loads.get(name, 0) + 1
        self.schedule(now + replica.work.load_s, replica.node, replica)

    def take(self, replica: _Replica, now: float) -> None:
        waiting = self.queues[replica.work.name]
        replica.unit, replica.began = (waiting.popleft() if waiting else None), now
        if replica.unit is not None:
            self.schedule(now + replica.unit, replica.node, replica)

    def ready(self, replica: _Replica, now: float) -> None:
        if replica.work.name not in self.open_units:
            return  # its model ended while it loaded
        if replica.loaded and replica.unit is not None:
            name = replica.work.name
            self.result.busy_gpu_s += replica.unit * replica.work.gpus
            self.open_units[name] -= 1
            if not self.open_units[name]:
                self.end(name, now)
                self.begin(now)
                return
        replica.loaded = True
        self.take(replica, now)

    def end(self, name: str, now: float) -> None:
        del self.open_units[name]
        self.result.ends[name] = self.result.makespan_s = now
        for index in set(self.scheduler.nodes_of(name)):
            node = self.nodes[index]
            node.replicas = [replica for replica in node.replicas if replica.work.name != name]
            node.used = now
        self.scheduler.end(name)

    def node_event(self, index: int, now: float) -> None:
        node = self.nodes[index]
        if node.up:
            self.lose(index, now)
            return
        node.up = True
        life = self.fleet.life_s(index, node.generation)
        if math.isfinite(life):
            self.schedule(now + life, index)
        for replica in node.replicas:
            self.load(replica, now)

    def lose(self, index: int, now: float) -> None:
        node = self.nodes[index]
        node.generation += 1  # cancels its events
        if not node.replicas:  # the autoscaler removed the idle node when it was last used
            self.result.paid_gpu_s += (node.used - node.since) * self.gpus[index]
            node.requested = node.up = False
            return
        self.result.lost_nodes += 1
        self.result.paid_gpu_s += (now - node.since) * self.gpus[index]
        for replica in node.replicas:
            if replica.unit is not None:
                self.queues[replica.work.name].appendleft(replica.unit)
                self.result.redone_s += now - replica.began
            replica.loaded, replica.unit = False, None
        self.request(index, now)
        self.wake(now)

    def wake(self, now: float) -> None:
        for node in self.nodes:
            for replica in node.replicas:
                if replica.loaded and replica.unit is None:
                    self.take(replica, now)


def simulate(scheduler: GpuScheduler, fleet: Fleet) -> SimulationResult:
    """Simulate a sweep on a fleet; models that need no GPU or fit on no node are skipped."""
    sweep = _Sweep(replace(scheduler), fleet)
    sweep.begin(0.0)
    while sweep.open_units:
        now, _, index, generation, replica = heapq.heappop(sweep.events)
        if generation != sweep.nodes[index].generation:
            continue
        if replica is None:
            sweep.node_event(index, now)
        else:
            sweep.ready(replica, now)
    result = sweep.result
    result.paid_gpu_s += math.fsum(
        (node.used - node.since) * gpus for node, gpus in zip(sweep.nodes, sweep.gpus, strict=True) if node.requested
    )
    result.price_usd = result.paid_gpu_s / 3600 * fleet.gpu_hour_usd
    return result
