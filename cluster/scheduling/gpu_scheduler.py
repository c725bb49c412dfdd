"""Models of one sweep beside each other: which of them begin now, with how many replicas, each in a thread of its own.

A pool of replicas keeps its size, so a model's share is settled when it begins: as many replicas as end it together
with the whole sweep, if all GPUs were always busy, or some more or fewer, whichever is reckoned to be done soonest:
replicas are whole, and rounding alone can leave half of the GPUs idle. The longest begin first, shorter ones fill what
is left beside them; what waits holds nothing. Where models that take all GPUs in turn are reckoned to be done sooner,
they do that instead: on few GPUs shares that cannot change leave more idle than loading costs.
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
"""Times of an even share that are tried."""
ELSEWHERE = 4
"""Models that need no GPU and run at once: endpoints answer elsewhere, yet their pictures are decoded here."""


@dataclass(slots=True)
class GpuScheduler:
    """Who waits, who runs, and which GPUs are free.

    Args:
        works: what each model has to do; `gpus` is 0 where it needs none.
        nodes: GPUs of each node.
        together: models that need GPUs share them; else each takes all that are of use to it, in turn.
        weighs: the longest begin first, and a replica more must save more seconds than it loads; else models come in
            the order given, as many replicas as may be: a run that is not `can_run_concurrently` does that, without a book.
        share: of the replicas that end a model with the whole sweep, so many times.
    """

    works: Sequence[ModelWorkload]
    nodes: Sequence[int]
    together: bool = True
    weighs: bool = True
    share: float = 1.0
    _free: list[int] = field(init=False)
    _waiting: list[ModelWorkload] = field(init=False)
    _held: dict[str, list[tuple[int, int]]] = field(init=False, default_factory=dict)
    """Model that runs -> (node, GPUs) of each replica."""
    _even_s: float = field(init=False)
    """Seconds of the sweep if all GPUs were always busy."""

    def __post_init__(self) -> None:
        self._free = list(self.nodes)
        self._waiting = list(self.works)
        if self.weighs:
            self._waiting.sort(key=lambda work: -(work.seconds + work.load_s))
        self._even_s = math.fsum(work.gpus * (work.seconds + work.load_s) for work in self.works) / sum(self.nodes)

    def begin(self) -> list[tuple[str, int]]:
        """Models that begin now and their replicas; they run until `end` is told."""
        begun = [work for work in self._waiting if self._begins(work)]
        self._waiting = [work for work in self._waiting if work not in begun]
        if not any(self.needs(work) for work in self._waiting):
            for work in begun:
                self._grow(work)
        return [(work.name, max(1, len(self._held[work.name]))) for work in begun]

    def end(self, name: str) -> None:
        """A model's GPUs are free again."""
        for node, gpus in self._held.pop(name):
            self._free[node] += gpus

    def nodes_of(self, name: str) -> list[int]:
        """The node of each replica of a model that runs, as its number in `nodes`."""
        return [node for node, _ in self._held[name]]

    def needs(self, work: ModelWorkload) -> bool:
        """Whether it needs GPUs that there are; where no node is large enough, that is said when it begins."""
        return 0 < work.gpus <= max(self.nodes)

    def _begins(self, work: ModelWorkload) -> bool:
        if not self.needs(work):
            if sum(not held for held in self._held.values()) >= ELSEWHERE:
                return False
            self._held[work.name] = []
            return True
        if not self.together and any(self._held.values()):
            return False
        wanted = self._wanted(work)
        held: list[tuple[int, int]] = []
        while len(held) < wanted and self._take(work.gpus, held):
            pass
        enough = len(held) * 2 >= wanted or (held and not any(self._held.values()))
        if not enough:
            for node, gpus in held:
                self._free[node] += gpus
            return False
        self._held[work.name] = held
        return True

    def _wanted(self, work: ModelWorkload) -> int:
        most = min(work.most_replicas, len(work.units))
        even = math.ceil(self.share * (work.seconds + work.load_s) / self._even_s) if self.together else most
        wanted = 1
        while wanted < min(even, most) and (not self.weighs or _worth(work, wanted)):
            wanted += 1
        return wanted

    def _grow(self, work: ModelWorkload) -> None:
        """Nobody waits for what is still free."""
        held = self._held[work.name]
        most = min(work.most_replicas, len(work.units))
        while self.needs(work) and len(held) < most and _worth(work, len(held)) and self._take(work.gpus, held):
            pass

    def _take(self, gpus: int, held: list[tuple[int, int]]) -> bool:
        """Take the GPUs of one replica from the node with least to spare, so that room for large models stays whole."""
        fitting = [(free, node) for node, free in enumerate(self._free) if free >= gpus]
        if not fitting:
            return False
        node = min(fitting)[1]
        self._free[node] -= gpus
        held.append((node, gpus))
        return True


def _worth(work: ModelWorkload, has: int) -> bool:
    """Whether one replica more saves more seconds than its loading takes."""
    return work.seconds / has - work.seconds / (has + 1) > work.load_s


def estimate_makespan(book: GpuScheduler) -> float:
    """Seconds until all models of a fresh book have ended that need its GPUs, if units took what they are said to."""
    works = {work.name: work for work in book.works if book.needs(work)}
    book, now = replace(book, works=tuple(works.values())), 0.0
    running: list[tuple[float, str]] = []
    while True:
        for name, replicas in book.begin():
            heapq.heappush(running, (now + works[name].load_s + works[name].seconds / replicas, name))
        if not running:
            return now
        now, name = heapq.heappop(running)
        book.end(name)


def can_run_concurrently(models: int, nodes: Sequence[int], cost_limit: float | None) -> bool:
    """Whether a run keeps a book of its models: there are several, and GPUs, and no limit of cost to share."""
    return models > 1 and bool(nodes) and cost_limit is None


def run_schedule(works: Sequence[ModelWorkload], nodes: Sequence[int], cost_limit: float | None = None) -> GpuScheduler:
    """What a run does with models and nodes, to be played: its book, or its models in turn where it keeps none."""
    if can_run_concurrently(len(works), nodes, cost_limit):
        return choose_schedule(works, nodes)
    return GpuScheduler(works, nodes, together=False, weighs=False)


def choose_schedule(works: Sequence[ModelWorkload], nodes: Sequence[int]) -> GpuScheduler:
    """Models that share the GPUs, by larger or smaller shares, or take them in turn: what is reckoned to end first."""
    in_turn = GpuScheduler(works, nodes, together=False)
    return min((in_turn, *(GpuScheduler(works, nodes, share=share) for share in SHARES)), key=estimate_makespan)
