"""A sweep as a run does it, played on a clock that costs nothing: nodes come and are lost, replicas load and answer.

The book says which models begin when and where their replicas are. A node is asked for when a replica is first put on
it, and paid for from then until the last model on it has ended. What a node was answering when it is lost waits again;
another node takes its place, and the replicas load anew.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from dataclasses import dataclass, field, replace

from cluster.scheduling.gpu_scheduler import GpuScheduler
from cluster.scheduling.workload import Fleet, ModelWorkload, SimulationResult


@dataclass(slots=True, eq=False)
class _Replica:
    work: ModelWorkload
    node: int
    loaded: bool = False
    unit: float | None = None
    """Seconds of the unit in hand."""
    began: float = 0.0


@dataclass(slots=True)
class _Node:
    asked: bool = False
    up: bool = False
    since: float = 0.0
    """Asked for."""
    used: float = 0.0
    """Last held by a model that has ended."""
    generation: int = 0
    replicas: list[_Replica] = field(default_factory=list)


class _Sweep:
    """The state of one play. An event is (when, ticket, node, its generation, replica or None: the node's own)."""

    def __init__(self, book: GpuScheduler, fleet: Fleet) -> None:
        self.book, self.fleet = book, fleet
        self.works = {work.name: work for work in book.works}
        self.left = {work.name: deque(work.units) for work in book.works}
        self.open = {work.name: len(work.units) for work in book.works if work.units}
        self.gpus = fleet.nodes
        self.nodes = [_Node() for _ in self.gpus]
        self.events: list[tuple[float, int, int, int, _Replica | None]] = []
        self.ticket = 0
        self.played = SimulationResult()

    def at(self, when: float, node: int, replica: _Replica | None = None) -> None:
        self.ticket += 1
        heapq.heappush(self.events, (when, self.ticket, node, self.nodes[node].generation, replica))

    def begin(self, now: float) -> None:
        """Let those models begin whose turn it is."""
        while begun := [name for name, _ in self.book.begin()]:
            for name in begun:
                if name in self.open and self.book.nodes_of(name):
                    self.place(name, now)
                else:
                    self.open.pop(name, None)
                    self.book.end(name)

    def place(self, name: str, now: float) -> None:
        self.played.starts[name] = now
        for place in self.book.nodes_of(name):
            node, replica = self.nodes[place], _Replica(self.works[name], place)
            node.replicas.append(replica)
            if not node.asked:
                self.ask(place, now)
            elif node.up:
                self.load(replica, now)

    def ask(self, place: int, now: float) -> None:
        node = self.nodes[place]
        node.asked, node.up, node.since = True, False, now
        self.at(now + self.fleet.node_start_s, place)

    def load(self, replica: _Replica, now: float) -> None:
        name = replica.work.name
        self.played.loads[name] = self.played.loads.get(name, 0) + 1
        self.at(now + replica.work.load_s, replica.node, replica)

    def take(self, replica: _Replica, now: float) -> None:
        """Give a replica the next unit of its model, or nothing."""
        waiting = self.left[replica.work.name]
        replica.unit, replica.began = (waiting.popleft() if waiting else None), now
        if replica.unit is not None:
            self.at(now + replica.unit, replica.node, replica)

    def ready(self, replica: _Replica, now: float) -> None:
        """A replica has loaded, or has answered its unit."""
        if replica.work.name not in self.open:
            return  # its model ended while it loaded
        if replica.loaded and replica.unit is not None:
            name = replica.work.name
            self.played.busy_gpu_s += replica.unit * replica.work.gpus
            self.open[name] -= 1
            if not self.open[name]:
                self.end(name, now)
                self.begin(now)
                return
        replica.loaded = True
        self.take(replica, now)

    def end(self, name: str, now: float) -> None:
        del self.open[name]
        self.played.ends[name] = self.played.makespan_s = now
        for place in set(self.book.nodes_of(name)):
            node = self.nodes[place]
            node.replicas = [replica for replica in node.replicas if replica.work.name != name]
            node.used = now
        self.book.end(name)

    def node_event(self, place: int, now: float) -> None:
        """A node has come, or is lost."""
        node = self.nodes[place]
        if node.up:
            self.lose(place, now)
            return
        node.up = True
        life = self.fleet.life_s(place, node.generation)
        if math.isfinite(life):
            self.at(now + life, place)
        for replica in node.replicas:
            self.load(replica, now)

    def lose(self, place: int, now: float) -> None:
        node = self.nodes[place]
        node.generation += 1  # what was to happen on it does not
        if not node.replicas:  # idle nodes go by themselves: it went when it was last used
            self.played.held_gpu_s += (node.used - node.since) * self.gpus[place]
            node.asked = node.up = False
            return
        self.played.lost_nodes += 1
        self.played.held_gpu_s += (now - node.since) * self.gpus[place]
        for replica in node.replicas:
            if replica.unit is not None:
                self.left[replica.work.name].appendleft(replica.unit)
                self.played.redone_s += now - replica.began
            replica.loaded, replica.unit = False, None
        self.ask(place, now)
        self.wake(now)

    def wake(self, now: float) -> None:
        """What was lost is taken by replicas that stand idle."""
        for node in self.nodes:
            for replica in node.replicas:
                if replica.loaded and replica.unit is None:
                    self.take(replica, now)


def simulate(book: GpuScheduler, fleet: Fleet) -> SimulationResult:
    """Play a sweep through.

    Models that need no GPU or fit on no node are left out: the seconds of the first say nothing, others end at once.

    Args:
        book: over the fleet's nodes; it is left as it is.
        fleet: when its nodes come, what they cost, and how often they are lost.
    """
    sweep = _Sweep(replace(book), fleet)
    sweep.begin(0.0)
    while sweep.open:
        now, _, place, generation, replica = heapq.heappop(sweep.events)
        if generation != sweep.nodes[place].generation:
            continue
        if replica is None:
            sweep.node_event(place, now)
        else:
            sweep.ready(replica, now)
    played = sweep.played
    played.held_gpu_s += math.fsum(
        (node.used - node.since) * gpus for node, gpus in zip(sweep.nodes, sweep.gpus, strict=True) if node.asked
    )
    played.price_usd = played.held_gpu_s / 3600 * fleet.gpu_hour_usd
    return played
