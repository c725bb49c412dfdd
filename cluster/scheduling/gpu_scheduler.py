"""Schedule the models of a sweep on shared GPUs: which start now, with how many replicas.

A pool of replicas keeps its size, so a model's share is fixed when it starts: the fewest replicas that end it within a
target, which is the same for all models. The longest start first, shorter ones fill the free GPUs; a waiting model
holds none. The target decides how well that fills the GPUs, because replicas are whole. Many are tried, from a part of
the sweep's shortest possible duration, so that models follow one another, to a multiple of it; the one that is
estimated to end first is taken. If models that take all GPUs in turn are estimated to end earlier, they do that
instead: on few GPUs, fixed shares leave more idle time than loading costs.
"""

import hashlib
import heapq
import logging
import math
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from cluster.errors import ClusterError, PostponedError
from cluster.threads import run_in_thread

log = logging.getLogger(__name__)


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


Device: TypeAlias = tuple[str, str]  # a node's id, and the id of a GPU there

MAX_FAILURES = 2  # failures of one GPU, without a request that explains them, after which it is avoided
MAX_HOLDERS = 4
"""Actors started for the GPUs of a node: Ray may place one on a GPU that works, which it keeps until another fits."""


class FailedDevices:
    """Failures of GPUs by the unit that was being answered, and the actors that hold those which failed too often."""

    def __init__(
        self,
        start_holder: Callable[[str, int, str], Any] | None = None,
        stop_holder: Callable[[Any], None] = lambda _: None,
        count_gpus: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """`start_holder` gets a node, a number of GPUs and the holder's name; without it nothing is avoided."""
        self._start_holder, self._stop_holder, self._count_gpus = start_holder, stop_holder, count_gpus
        self._failures: dict[Device, list[str]] = {}
        self._holders: dict[str, Any] = {}
        self._reserved: dict[str, tuple[Device, ...]] = {}
        self._holders_started: Counter[str] = Counter()

    def record_device_failure(self, node: str, gpus: Sequence[str], unit: str) -> None:
        """Record that a replica's GPUs failed; all of them count, for none says that it was the one."""
        for gpu in gpus:
            self._failures.setdefault((node, gpu), []).append(unit)
        self.avoid(node, gpus)

    def avoid(self, node: str, gpus: Sequence[str]) -> bool:
        """Return whether a replica on these GPUs is to leave them, with a holder started that takes them then.

        False where one of them has not failed twice, where a replica would find no other GPUs, and where Ray has put
        too many holders elsewhere.
        """
        if self._start_holder is None or not any(self._is_bad((node, gpu)) for gpu in gpus):
            return False
        others = self._count_gpus() - sum(self._is_bad(device) for device in self._failures)
        if others < len(gpus) or self._holders_started[node] >= MAX_HOLDERS:
            return False
        self._holders_started[node] += 1
        name = f"{node}/{self._holders_started[node]}"
        log.warning("GPU %s of node %s failed %d times and is avoided", ",".join(gpus), node, MAX_FAILURES)
        self._holders[name] = self._start_holder(node, len(gpus), name)
        return True

    def record_reserved(self, name: str, node: str, gpus: Sequence[str]) -> None:
        """Record which GPUs a holder got; when they are the failed ones, those that got others end."""
        self._reserved[name] = tuple((node, gpu) for gpu in gpus)
        if any(map(self._is_bad, self._reserved[name])):
            self._holders_started[node] = 0
            self.release_idle()

    def release_idle(self) -> None:
        """End the holders of GPUs that are not, or no longer, to be avoided."""
        for name, devices in list(self._reserved.items()):
            if not any(map(self._is_bad, devices)):
                del self._reserved[name]
                self._stop_holder(self._holders.pop(name))

    def excuse(self, unit: str) -> None:
        """Forget failures at a unit: one of its requests is their cause."""
        for failures in self._failures.values():
            failures[:] = [failed for failed in failures if failed != unit]
        self.release_idle()

    def _is_bad(self, device: Device) -> bool:
        return len(self._failures.get(device, ())) >= MAX_FAILURES


TARGETS = tuple(1.02**step for step in range(-60, 51))
"""Targets that are tried, in multiples of the sweep's duration if all GPUs were always busy: 0.3 to 2.7."""
FINE_TARGETS = tuple(1 + step / 400 for step in range(-5, 6))
"""Multiples of the best of these that are tried after them."""
MAX_ENDPOINT_MODELS = 4
"""Models without GPUs that run at once: endpoints answer elsewhere, but their images are decoded here."""


@dataclass(slots=True)
class GpuScheduler:
    """Waiting models, running models, and free GPUs.

    Without `together`, each model in turn takes all GPUs that it can use. With `by_cost` the longest start first, and
    each replica must be worth its load; else models start in the given order with as many replicas as
    possible. `target` is in multiples of the sweep's duration if all GPUs were always busy.
    """

    workloads: Sequence[ModelWorkload]
    nodes: Sequence[int]
    together: bool = True
    by_cost: bool = True
    target: float = 1.0
    _free: list[int] = field(init=False)
    _largest: int = field(init=False)
    _free_gpus: int = field(init=False, default=0)
    _nodes_by_free: list[list[int]] = field(init=False)
    """Number of free GPUs -> heap of the nodes with that many, and of some outdated ones."""
    _waiting: list[ModelWorkload] = field(init=False)
    _replicas: dict[str, int] = field(init=False)  # model -> replicas that it should get
    _allocated: dict[str, list[tuple[int, int]]] = field(init=False, default_factory=dict)
    """Running model -> (node, GPUs) of each replica."""

    def __post_init__(self) -> None:
        self._largest = max(self.nodes)
        self._free = [0] * len(self.nodes)
        self._nodes_by_free = [[] for _ in range(max(self.nodes) + 1)]
        for node, gpus in enumerate(self.nodes):
            self._add_free_gpus(node, gpus)
        even_s = math.fsum(work.gpus * (work.seconds + work.load_s) for work in self.workloads) / self._free_gpus
        self._replicas = {work.name: self._target_replicas(work, self.target * even_s) for work in self.workloads}
        self._waiting = list(self.workloads)
        if self.by_cost:
            self._waiting.sort(key=lambda work: -(work.load_s + work.seconds / self._replicas[work.name]))

    def begin(self) -> list[tuple[str, int]]:
        """Return the models that start now and their replicas; they run until `end` is called."""
        started, waiting = list[ModelWorkload](), list[ModelWorkload]()
        for work in self._waiting:
            is_blocked = not self._free_gpus and self.needs(work)
            (waiting if is_blocked or not self._start(work) else started).append(work)
        self._waiting = waiting
        if not self.has_waiting:
            for work in started:
                self._grow(work)
        return [(work.name, max(1, len(self._allocated[work.name]))) for work in started]

    def end(self, name: str) -> None:
        """Free the GPUs of a model."""
        for node, gpus in self._allocated.pop(name, ()):
            self._add_free_gpus(node, gpus)

    def postpone(self, name: str) -> None:
        """Put a model that has ended to the end of the waiting ones."""
        self._waiting += [work for work in self.workloads if work.name == name]

    @property
    def has_waiting(self) -> bool:
        """Whether a model waits for GPUs."""
        return any(map(self.needs, self._waiting))

    def idle(self) -> tuple[tuple[int, int], ...]:
        """Return GPUs and free GPUs of each node that has some, if no model waits for any."""
        if self.has_waiting:
            return ()
        return tuple((gpus, free) for gpus, free in zip(self.nodes, self._free, strict=True) if free)

    def lend(self, name: str) -> None:
        """Give the idle GPUs, if any, to work that is no model of the schedule, until `end` is called."""
        if self.idle():
            self._allocated[name] = [(node, gpus) for node, gpus in enumerate(self._free) if gpus]
            for node, gpus in self._allocated[name]:
                self._add_free_gpus(node, -gpus)

    def node_sizes_of(self, name: str) -> tuple[int, ...]:
        """Return the different numbers of GPUs of the nodes that a running model is planned on."""
        return tuple(sorted({self.nodes[node] for node in self.nodes_of(name)}))

    def nodes_of(self, name: str) -> list[int]:
        """Return the node of each replica of a running model, as its index in `nodes`."""
        return [node for node, _ in self._allocated[name]]

    def needs(self, work: ModelWorkload) -> bool:
        """Return whether a model needs GPUs of these nodes; if no node is large enough, its start reports that."""
        return 0 < work.gpus <= self._largest

    def _start(self, work: ModelWorkload) -> bool:
        if not self.needs(work):
            if sum(not allocated for allocated in self._allocated.values()) >= MAX_ENDPOINT_MODELS:
                return False
            self._allocated[work.name] = []
            return True
        if not self.together and any(self._allocated.values()):
            return False
        target = self._replicas[work.name]
        if self._free_gpus < work.gpus * target and self._is_busy:
            return False
        allocated: list[tuple[int, int]] = []
        while len(allocated) < target and self._take(work.gpus, allocated):
            pass
        if len(allocated) < target and (not allocated or self._is_busy):
            for node, gpus in allocated:
                self._add_free_gpus(node, gpus)
            return False
        self._allocated[work.name] = allocated
        return True

    @property
    def _is_busy(self) -> bool:
        """Whether a running model holds GPUs, so that more will be free later."""
        return any(self._allocated.values())

    def _target_replicas(self, work: ModelWorkload, target_s: float) -> int:
        """Return the fewest replicas that end a model within a target, as far as they pay."""
        if not self.needs(work):
            return 1
        fitting = sum(gpus // work.gpus for gpus in self.nodes)
        max_replicas = max(1, min(work.max_replicas, len(work.units), fitting))
        if self.by_cost and work.load_s > 0:
            worthwhile = work.seconds / work.load_s  # replicas that compute for as long as they load
            if not self.together:
                # Each but the last saves the sweep more than it loads.
                worthwhile = (math.sqrt(1 + 4 * worthwhile) - 1) / 2
            max_replicas = min(max_replicas, max(1, math.ceil(worthwhile)))
        if not self.together or target_s <= work.load_s:
            return max_replicas
        return max(1, min(max_replicas, math.ceil(work.seconds / (target_s - work.load_s))))

    def _grow(self, work: ModelWorkload) -> None:
        assigned = self._allocated[work.name]
        max_replicas = min(work.max_replicas, len(work.units))
        while (
            self.needs(work)
            and len(assigned) < max_replicas
            and _saves_time(work, len(assigned))
            and self._take(work.gpus, assigned)
        ):
            pass

    def _take(self, gpus: int, assigned: list[tuple[int, int]]) -> bool:
        """Take the GPUs of one replica from the fullest node that fits, which leaves room for large models."""
        for free in range(gpus, len(self._nodes_by_free)):
            nodes = self._nodes_by_free[free]
            while nodes and self._free[nodes[0]] != free:
                heapq.heappop(nodes)
            if nodes:
                assigned.append((nodes[0], gpus))
                self._add_free_gpus(nodes[0], -gpus)
                return True
        return False

    def _add_free_gpus(self, node: int, gpus: int) -> None:
        self._free[node] += gpus
        self._free_gpus += gpus
        heapq.heappush(self._nodes_by_free[self._free[node]], node)


def _saves_time(work: ModelWorkload, replicas: int) -> bool:
    return work.seconds / replicas - work.seconds / (replicas + 1) > work.load_s


def estimate_makespan(scheduler: GpuScheduler) -> float:
    """Return the estimated seconds until all GPU models of a new scheduler have ended."""
    workloads = {work.name: work for work in scheduler.workloads if scheduler.needs(work)}
    scheduler, now, running = replace(scheduler, workloads=tuple(workloads.values())), 0.0, list[tuple[float, str]]()
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
    """Return the schedule that is estimated to end first: one of the targets, or models in turn."""

    def best(targets: Sequence[float]) -> GpuScheduler:
        schedules = (GpuScheduler(workloads, nodes, target=target) for target in sorted(targets, reverse=True))
        return min(schedules, key=estimate_makespan)  # of equal ones that with the fewest replicas to load

    refined = best([best(TARGETS).target * factor for factor in FINE_TARGETS])
    return min((GpuScheduler(workloads, nodes, together=False), refined), key=estimate_makespan)


SHUTDOWN_S = 30.0  # longest wait for running models when the sweep ends early: they end with their next commit
ConcurrentWork = Callable[[Sequence[tuple[int, int]], threading.Event, threading.Event], None]
"""Work on the idle GPUs of `GpuScheduler.idle` while models run. Of two events the first asks it to end, for a model
waits for them or none runs any more; the second tells it to."""
_CONCURRENT = "beside the models"


def run_concurrently(
    scheduler: GpuScheduler, run: Callable[[str, int, threading.Event], None], concurrent: ConcurrentWork | None = None
) -> None:
    """Run all models of a scheduler, each in a thread, and return when all have ended.

    `run` gets a model's name, its replicas and an event, and must end soon after the event is set. A model whose `run`
    raises PostponedError is run again, after those that wait. Any other first exception is raised; no model starts
    after it, and running ones are stopped. `concurrent` runs once at a time while models run: at first, and again when
    one has ended or other GPUs are idle.
    """
    stop, running = threading.Event(), dict[Future[None], str]()
    leave, seen, ended = threading.Event(), (-1, scheduler.idle()), 0
    try:
        while True:
            for name, replicas in scheduler.begin():
                log.info("model %r starts with %d replicas", name, replicas)
                running[run_in_thread(name, run, name, replicas, stop)] = name
            if not running:
                return
            if _CONCURRENT in running.values():
                if len(running) == 1 or (scheduler.has_waiting and seen[1]):
                    leave.set()
            elif concurrent and seen != (ended, idle := scheduler.idle()):
                leave, seen = threading.Event(), (ended, idle)
                scheduler.lend(_CONCURRENT)
                running[run_in_thread(_CONCURRENT, concurrent, idle, leave, stop)] = _CONCURRENT
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                name = running.pop(future)
                scheduler.end(name)
                try:
                    future.result()
                    ended += name != _CONCURRENT
                except PostponedError as error:
                    log.warning("model %r will be retried after the others: %s", name, error)
                    scheduler.postpone(name)
    finally:
        stop.set()
        if wait(running, timeout=SHUTDOWN_S).not_done:
            log.warning("concurrent models did not end within %.0f s; their processes are killed", SHUTDOWN_S)
