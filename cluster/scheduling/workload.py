"""Workloads and fleets for simulated sweeps, and a lower bound on their duration."""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from cluster.errors import ClusterError


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelWorkload:
    """The work of one model."""

    name: str
    gpus: int  # GPUs of a replica, all on one node
    load_s: float  # seconds until a new replica answers
    units: tuple[float, ...]  # seconds of each unit on one replica
    max_replicas: int = 1_000_000
    seconds: float = field(init=False)  # of all units on one replica

    def __post_init__(self) -> None:
        object.__setattr__(self, "seconds", math.fsum(self.units))


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """The nodes of a simulated cluster."""

    gpus: int
    gpus_per_node: int = 8
    gpu_hour_usd: float = 2.5
    node_start_s: float = 180.0  # from the request for a node to Ray on it; 0 if nodes are running already
    losses_per_hour: float = 0.0  # losses per node-hour: preempted spot machines
    seed: int = 42
    gpus_by_node: tuple[int, ...] = ()  # GPUs of each node where nodes differ, `gpus` in total

    @property
    def nodes(self) -> list[int]:
        """GPUs of each node."""
        if self.gpus_by_node:
            return list(self.gpus_by_node)
        whole, rest = divmod(self.gpus, self.gpus_per_node)
        return [self.gpus_per_node] * whole + ([rest] if rest else [])

    def life_s(self, node: int, generation: int) -> float:
        """Return the seconds until a node is lost: exponential, a pure function of seed, node and generation."""
        if not self.losses_per_hour:
            return math.inf
        digest = hashlib.sha256(f"{self.seed}/{node}/{generation}".encode()).digest()
        share = (int.from_bytes(digest[:8]) + 1) / 2**64
        return -math.log(share) / self.losses_per_hour * 3600


@dataclass(slots=True)
class SimulationResult:
    """The outcome of a simulated schedule."""

    makespan_s: float = 0.0
    busy_gpu_s: float = 0.0  # GPUs x seconds spent on committed units
    paid_gpu_s: float = 0.0  # GPUs x seconds that nodes were paid for, from their first use to their last
    loads: dict[str, int] = field(default_factory=dict)
    lost_nodes: int = 0
    redone_s: float = 0.0  # replica seconds of units that were lost with their node and repeated
    ends: dict[str, float] = field(default_factory=dict)  # model -> time when its last unit was committed
    starts: dict[str, float] = field(default_factory=dict)
    """Model -> time when its nodes were requested and its replicas began to load."""
    price_usd: float = 0.0

    def utilisation(self) -> float:
        """Return the share of the paid GPU time that computed."""
        return self.busy_gpu_s / self.paid_gpu_s if self.paid_gpu_s else 0.0


def lower_bound(workloads: Sequence[ModelWorkload], fleet: Fleet) -> float:
    """Return the seconds that any schedule of these units takes at least, without losses.

    The largest of: for each model, a load and its longest unit; for each model, a load and its units over as many
    replicas as fit; and the shortest time in which all computing and all loads fit on all GPUs, where a model that has
    to end in that time needs so many replicas, each of which loads.
    """
    works = [work for work in workloads if work.units]
    longest = max((w.load_s + max(w.units) for w in works), default=0.0)
    single = max((w.load_s + w.seconds / _fitting(w, fleet) for w in works), default=0.0)
    return fleet.node_start_s + _even_s(works, fleet.gpus, max(longest, single))


def _even_s(works: Sequence[ModelWorkload], gpus: int, min_seconds: float) -> float:
    """Return the shortest time, at least `min_seconds`, in which the models and their loads fill `gpus` GPUs."""

    def fits(seconds: float) -> bool:
        return seconds * gpus >= math.fsum(w.gpus * (w.seconds + w.load_s * _min_replicas(w, seconds)) for w in works)

    in_turn = math.fsum(w.gpus * (w.seconds + w.load_s) for w in works)
    low, high = min_seconds, max(min_seconds, in_turn)
    while high - low > high * 1e-6:
        middle = (low + high) / 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return low


def _min_replicas(work: ModelWorkload, seconds: float) -> int:
    """Return the number of replicas with which a model ends within `seconds`, which exceed its loading time."""
    return max(1, math.ceil(work.seconds / (seconds - work.load_s) - 1e-9)) if seconds > work.load_s else 1


def _fitting(work: ModelWorkload, fleet: Fleet) -> int:
    fits = sum(gpus // work.gpus for gpus in fleet.nodes)
    if not fits:
        raise ClusterError(f"{work.name} needs {work.gpus} GPUs of one node, and no node has them")
    return min(fits, work.max_replicas, len(work.units) or 1)
