"""Which model's replica runs on which GPUs, and when: the rule, played through on a clock that costs nothing.

The rule: a replica is started where it shortens the sweep most. Of the models that still wait, the one whose end is
furthest away, alone and on what it holds, gets the next free GPUs, if what it still has to do is worth one more loading
of its weights; when none waits and GPUs are free still, if another replica ends it sooner. So big models begin at once,
small ones fill what is left beside them, weights are loaded no more often than pays, and no GPU is held by a model that
waits. GPUs of one replica are of one node.
"""

from __future__ import annotations

import hashlib
import heapq
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

__all__ = ["Fleet", "ModelWork", "Played", "lower_bound", "play"]


SPARE = 2.0
"""Loadings' worth of work that must lie ahead before a GPU that nobody else wants is taken for another replica."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelWork:
    """All that one model has to do."""

    name: str
    gpus: int
    """Of one replica, all on one node."""
    load_s: float
    """Seconds until a new replica answers."""
    units: tuple[float, ...]
    """Seconds of each unit on one replica."""
    most_replicas: int = 1_000_000

    @property
    def seconds(self) -> float:
        """Of all units on one replica."""
        return math.fsum(self.units)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """What there is to run on."""

    gpus: int
    gpus_a_node: int = 8
    gpu_hour_usd: float = 2.5
    node_start_s: float = 180.0
    """From asking for a node to Ray on it."""
    lost_an_hour: float = 0.0
    """Losses a node-hour: spot machines that are taken back."""
    seed: int = 42

    @property
    def nodes(self) -> list[int]:
        """GPUs of each node."""
        whole, rest = divmod(self.gpus, self.gpus_a_node)
        return [self.gpus_a_node] * whole + ([rest] if rest else [])


@dataclass(slots=True)
class Played:
    """How a schedule came out."""

    makespan_s: float = 0.0
    busy_gpu_s: float = 0.0
    """GPUs x seconds that computed a unit which was committed."""
    held_gpu_s: float = 0.0
    """GPUs x seconds that nodes were paid for: from the first need to the last."""
    loads: dict[str, int] = field(default_factory=dict)
    lost_nodes: int = 0
    redone_s: float = 0.0
    """Replica seconds of units that were lost with their node and done again."""
    ends: dict[str, float] = field(default_factory=dict)
    """Model -> when its last unit was committed."""
    starts: dict[str, float] = field(default_factory=dict)
    """Model -> when its first replica began to load."""
    price_usd: float = 0.0

    def utilisation(self) -> float:
        """Share of the paid GPU time that computed."""
        return self.busy_gpu_s / self.held_gpu_s if self.held_gpu_s else 0.0


def lower_bound(works: Sequence[ModelWork], fleet: Fleet) -> float:
    """Seconds below which no schedule of these units can end, whatever its rule, without losses.

    The largest of: all computing and one loading a model, spread evenly over all GPUs; for each model, its longest unit
    after a loading; for each model, its units over as many replicas as fit at all, after a loading.
    """
    space = math.fsum(w.gpus * (w.seconds + w.load_s) for w in works if w.units) / fleet.gpus
    longest = max((w.load_s + max(w.units) for w in works if w.units), default=0.0)
    alone = max((w.load_s + w.seconds / _fitting(w, fleet) for w in works if w.units), default=0.0)
    return fleet.node_start_s + max(space, longest, alone)


def _fitting(work: ModelWork, fleet: Fleet) -> int:
    fits = sum(gpus // work.gpus for gpus in fleet.nodes)
    if not fits:
        raise ValueError(f"{work.name} needs {work.gpus} GPUs of one node, and no node has them")
    return min(fits, work.most_replicas, len(work.units) or 1)


@dataclass(slots=True)
class _Node:
    free: int
    alive: bool = False
    since: float = 0.0
    generation: int = 0
    last_used: float = 0.0


@dataclass(slots=True)
class _Replica:
    work: int
    node: int
    generation: int
    unit: float = 0.0
    until: float = 0.0


class _Game:
    """The state of one play."""

    def __init__(self, works: Sequence[ModelWork], fleet: Fleet) -> None:
        self.works, self.fleet = works, fleet
        self.left = [sorted(w.units) for w in works]  # the longest is taken first, from the end
        self.left_s = [w.seconds for w in works]
        self.open = [len(w.units) for w in works]
        self.replicas = [0] * len(works)
        self.nodes = [_Node(free=gpus) for gpus in fleet.nodes]
        self.events: list[tuple[float, int, str, object]] = []
        self.ticket = 0
        self.played = Played()

    def at(self, when: float, what: str, about: object) -> None:
        self.ticket += 1
        heapq.heappush(self.events, (when, self.ticket, what, about))

    def spread(self, now: float, allowed: Sequence[int]) -> None:
        """Start replicas while one is worth starting and there is room."""
        while (best := self._most_urgent(allowed)) is not None:
            work, node = best
            model = self.works[work]
            self.nodes[node].free -= model.gpus
            self.replicas[work] += 1
            self.played.loads[model.name] = self.played.loads.get(model.name, 0) + 1
            self.played.starts.setdefault(model.name, now)
            self.at(now + model.load_s, "ready", _Replica(work, node, self.nodes[node].generation))

    def _most_urgent(self, allowed: Sequence[int]) -> tuple[int, int] | None:
        order = [work for _, _, work in sorted((-self._ahead(w), self.replicas[w], w) for w in allowed)]
        waiting = any(self.left[work] and not self.replicas[work] for work in order)
        for rule in (self._worth,) if waiting else (self._worth, self._of_use):
            for work in order:
                if rule(work) and (node := self._room(self.works[work].gpus)) is not None:
                    return work, node
        return None

    def _ahead(self, work: int) -> float:
        """Seconds that this model still needs on the replicas that it has, or on a first one."""
        return (self.left_s[work] + self.works[work].load_s) / max(1, self.replicas[work])

    def _worth(self, work: int) -> bool:
        model, has = self.works[work], self.replicas[work]
        if not self.left[work] or has >= model.most_replicas or has >= self.open[work]:
            return False
        return has == 0 or self.left_s[work] / has - self.left_s[work] / (has + 1) > model.load_s

    def _of_use(self, work: int) -> bool:
        """Nobody waits and GPUs are free: another replica helps when it is ready well before the others are done."""
        has = self.replicas[work]
        open_ = bool(self.left[work]) and has < min(self.works[work].most_replicas, self.open[work])
        return open_ and self.left_s[work] / has > SPARE * self.works[work].load_s

    def _room(self, gpus: int) -> int | None:
        """The node that has room and least to spare, so that room for large models stays whole."""
        fitting = [(node.free, i) for i, node in enumerate(self.nodes) if node.alive and node.free >= gpus]
        return min(fitting)[1] if fitting else None

    def take(self, replica: _Replica, now: float) -> bool:
        """Give a replica its next unit; False when there is none and it lets its GPUs go."""
        node = self.nodes[replica.node]
        if not self.left[replica.work]:
            self.replicas[replica.work] -= 1
            node.free += self.works[replica.work].gpus
            node.last_used = now
            return False
        replica.unit = self.left[replica.work].pop()
        self.left_s[replica.work] -= replica.unit
        replica.until = now + replica.unit
        self.at(replica.until, "done", replica)
        return True

    def finish(self, replica: _Replica, now: float) -> None:
        model = self.works[replica.work]
        self.open[replica.work] -= 1
        self.played.busy_gpu_s += replica.unit * model.gpus
        self.played.ends[model.name] = now
        self.played.makespan_s = now
        self.nodes[replica.node].last_used = now


def play(works: Sequence[ModelWork], fleet: Fleet, *, together: bool = True) -> Played:
    """Play a sweep through.

    Args:
        works: what each model has to do.
        fleet: on what.
        together: models beside each other by the rule above; else one after another in the order given.

    Raises:
        ValueError: a model fits on no node.
    """
    for work in works:
        _fitting(work, fleet)
    game = _Game(works, fleet)
    for i in range(len(game.nodes)):
        game.at(fleet.node_start_s, "up", i)
    while any(game.open):
        if not game.events:
            raise AssertionError("a schedule stands still")
        now, _, what, about = heapq.heappop(game.events)
        if _happen(game, now, what, about):
            game.spread(now, _allowed(game, together=together))
    held = [_held(game, i, game.played.makespan_s) for i in range(len(game.nodes))]
    game.played.held_gpu_s += math.fsum(held)
    game.played.price_usd = game.played.held_gpu_s / 3600 * fleet.gpu_hour_usd
    return game.played


def _allowed(game: _Game, *, together: bool) -> list[int]:
    waiting = [i for i, left in enumerate(game.open) if left]
    return waiting if together else waiting[:1]


def _happen(game: _Game, now: float, what: str, about: object) -> bool:
    """Let one event happen; says whether it left room for another replica, or work for one."""
    if what == "up":
        assert isinstance(about, int)
        node = game.nodes[about]
        node.alive, node.since, node.last_used = True, now - game.fleet.node_start_s, now
        life = _life(game.fleet, about, node.generation)
        if math.isfinite(life):
            game.at(now + life, "lost", (about, node.generation))
        return True
    if what == "lost":
        _lose(game, now, about)
        return True
    assert isinstance(about, _Replica)
    if about.generation != game.nodes[about.node].generation:
        return False  # it went with its node
    if what == "done":
        game.finish(about, now)
    return not game.take(about, now)


def _lose(game: _Game, now: float, about: object) -> None:
    """A node is taken back: what ran on it runs again elsewhere, and a new one is asked for."""
    assert isinstance(about, tuple)
    place, _ = about
    node = game.nodes[place]
    game.played.lost_nodes += 1
    game.played.held_gpu_s += _held(game, place, now)
    for replica in _running(game, place, node.generation):
        model = game.works[replica.work]
        game.replicas[replica.work] -= 1
        if replica.until:
            game.left[replica.work].append(replica.unit)
            game.left[replica.work].sort()
            game.left_s[replica.work] += replica.unit
            game.played.redone_s += max(0.0, replica.unit - (replica.until - now))
        node.free += model.gpus
    node.alive = False
    node.generation += 1
    game.at(now + game.fleet.node_start_s, "up", place)


def _running(game: _Game, place: int, generation: int) -> Iterator[_Replica]:
    for _, _, _, about in game.events:
        if isinstance(about, _Replica) and about.node == place and about.generation == generation:
            yield about


def _held(game: _Game, place: int, until: float) -> float:
    """GPU seconds that a node was paid for: idle nodes go, so its last use ends it."""
    node = game.nodes[place]
    if not node.alive:
        return 0.0
    busy = any(True for _ in _running(game, place, node.generation))
    end = until if busy else max(node.last_used, node.since + game.fleet.node_start_s)
    return max(0.0, end - node.since) * game.fleet.nodes[place]


def _life(fleet: Fleet, place: int, generation: int) -> float:
    """Seconds until a node is lost: exponential, a pure function of seed, node and life."""
    if not fleet.lost_an_hour:
        return math.inf
    digest = hashlib.sha256(f"{fleet.seed}/{place}/{generation}".encode()).digest()
    share = (int.from_bytes(digest[:8]) + 1) / 2**64
    return -math.log(share) / fleet.lost_an_hour * 3600
