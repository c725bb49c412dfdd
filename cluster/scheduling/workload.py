"""What there is to do and on what, for plays of a sweep that cost nothing, and the time that no schedule can beat.

Which model runs when is `cluster.scheduling.gpu_scheduler`'s to say; `cluster.scheduling.simulator` plays it through on a clock.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from cluster.errors import ClusterError


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelWorkload:
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
    """From asking for a node to Ray on it; 0 where nodes are there already."""
    lost_an_hour: float = 0.0
    """Losses a node-hour: spot machines that are taken back."""
    seed: int = 42
    uneven: tuple[int, ...] = ()
    """GPUs of each node where they are told one by one, `gpus` in all."""

    @property
    def nodes(self) -> list[int]:
        """GPUs of each node."""
        if self.uneven:
            return list(self.uneven)
        whole, rest = divmod(self.gpus, self.gpus_a_node)
        return [self.gpus_a_node] * whole + ([rest] if rest else [])

    def life_s(self, node: int, generation: int) -> float:
        """Seconds until a node is lost: exponential, a pure function of seed, node and which life of it this is."""
        if not self.lost_an_hour:
            return math.inf
        digest = hashlib.sha256(f"{self.seed}/{node}/{generation}".encode()).digest()
        share = (int.from_bytes(digest[:8]) + 1) / 2**64
        return -math.log(share) / self.lost_an_hour * 3600


@dataclass(slots=True)
class SimulationResult:
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
    """Model -> when its turn began: nodes are asked for, and its replicas load."""
    price_usd: float = 0.0

    def utilisation(self) -> float:
        """Share of the paid GPU time that computed."""
        return self.busy_gpu_s / self.held_gpu_s if self.held_gpu_s else 0.0


def lower_bound(works: Sequence[ModelWorkload], fleet: Fleet) -> float:
    """Seconds below which no schedule of these units can end, whatever its rule, without losses.

    The largest of: all computing and one loading a model, spread evenly over all GPUs; for each model, its longest unit
    after a loading; for each model, its units over as many replicas as fit at all, after a loading.
    """
    space = math.fsum(w.gpus * (w.seconds + w.load_s) for w in works if w.units) / fleet.gpus
    longest = max((w.load_s + max(w.units) for w in works if w.units), default=0.0)
    alone = max((w.load_s + w.seconds / _fitting(w, fleet) for w in works if w.units), default=0.0)
    return fleet.node_start_s + max(space, longest, alone)


def _fitting(work: ModelWorkload, fleet: Fleet) -> int:
    fits = sum(gpus // work.gpus for gpus in fleet.nodes)
    if not fits:
        raise ClusterError(f"{work.name} needs {work.gpus} GPUs of one node, and no node has them")
    return min(fits, work.most_replicas, len(work.units) or 1)
