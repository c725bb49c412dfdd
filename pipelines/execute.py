"""Run units on Ray Data: load and decode on CPU tasks, answer on a pool of engine replicas, commit, count receipts.

The remote parts are thin shells over `work`: nothing here knows what a question is. Each unit is one row, so that what
is committed together is decided by the planner and never by how blocks happen to be cut.
"""

from __future__ import annotations

import json
import logging
import os
import re
import threading
import time
import warnings
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Protocol

from cluster.join import ClusterError, ClusterInfo
from cluster.placement import await_place
from models.spec import ModelSpec
from pipelines.convoys import make_convoys
from pipelines.dataset import DatasetError
from pipelines.keeping import FrameKeeper, FrameSource, SharedFrames, keeper_bytes
from pipelines.ledger import Ledger, RemoteAttempts
from pipelines.lock import FencedError
from pipelines.records import DamagedPartError
from pipelines.store import Store, StoreError
from pipelines.units import Unit

__all__ = ["Job", "LoaderSpec", "ModelUnavailableError", "Receipt", "execute", "quiet_ray_data", "run_rows", "told"]

log = logging.getLogger(__name__)

LOAD_CPUS = 0.25
COMMIT_CPUS = 0.1
ENGINE_CPUS = 0.5
"""Shares for Ray's accounting, small enough that one core runs the whole pipeline; torch takes the cores it finds."""
FETCH_TRIES = 4
PLACE_S = 50.0
"""Seconds to wait for a node that is large enough, where the cluster can grow and none is announced."""
WAIT_S = 60.0
MOST_DEATHS = 6
"""Deaths of engines in a row, with nothing answered between them, after which a model is given up."""
DIED = 13
"""Exit code of a replica whose engine died under it."""
_RESOURCES = {"num_gpus": "GPU", "num_cpus": "CPU"}
NO_PROGRESS_S = 7200
"""Loading a 72B model onto a spot node that must first be found can take an hour without a row moving."""


class ModelUnavailableError(RuntimeError):
    """The model as a whole cannot be had. What was committed stays; the same command goes on later."""


class LoaderSpec(Hashable, Protocol):
    """A light, hashable description from which a worker builds a loader."""

    def build(self, frames: FrameSource | None = None) -> Any:
        """The loader, with `load(unit) -> Loaded`; what others have decoded comes from `frames`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Units of one model, and how they are loaded and where they go."""

    model: str
    spec: ModelSpec
    loader: LoaderSpec
    out: str
    units: Sequence[Unit]
    lock: str = ""
    """The run that holds the output (`lock.held`); workers of any other are refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """A unit is committed."""

    part: str
    counts: Mapping[tuple[str, str, str], int]
    """Rows by (task, setting, status); rows carried over from an earlier part are not among them."""
    replica: str = ""
    """Which engine answered the unit."""
    began: float = 0.0
    """When the engine was given the unit, in seconds since the epoch."""
    ended: float = 0.0
    tokens: tuple[int, int] = (0, 0)
    """Read and written for those rows, as the engine counts."""
    out_of_money: bool = False
    """Some of the rows were not asked, because their engine may spend no more."""


@lru_cache(maxsize=2)
def _loader(spec: LoaderSpec, keeper: Any) -> Any:
    """One loader a worker process: its decoder and its last shards stay warm between units."""
    return spec.build(SharedFrames(keeper))


def _load(batch: Any, spec: LoaderSpec, keeper: Any) -> Any:
    from pipelines.wire import pack_convoy

    units = [Unit.from_dict(raw) for raw in json.loads(batch["units"][0].as_py())]
    loader = _loader(spec, keeper)
    return pack_convoy([_patiently(partial(loader.load, unit)) for unit in units])


def _commit(batch: Any, out: str, lock: str) -> Any:
    import pyarrow as pa

    from pipelines.wire import unpack_rows
    from pipelines.work import Committer, own_tokens

    part, counts, tokens, broke = "", "[]", [0, 0], False
    if not batch["fatal"][0].as_py():
        unit, rows = unpack_rows(batch)
        part = unit.part
        if not batch["kept"][0].as_py():
            counts = json.dumps(_patiently(lambda: Committer(out, lock).commit(unit, rows)))
            tokens = own_tokens(unit, rows)
            broke = "cost_limit" in rows["error_type"].to_pylist()
    return pa.table(
        {
            "part": [part],
            "fatal": batch["fatal"],
            "counts": [counts],
            "span": batch["span"],
            "tokens": [tokens],
            "broke": [broke],
        }
    )


def _patiently(action: Callable[[], Any]) -> Any:
    """Do it, again after a pause when the store fails: slow and throttled stores pass, a missing one is told."""
    for attempt in range(FETCH_TRIES):
        try:
            return action()
        except StoreError:
            if attempt + 1 == FETCH_TRIES:
                raise
            time.sleep(2.0**attempt)
    raise AssertionError("unreachable")


class Replica:
    """One engine in one actor. A model that cannot be had is reported as a row, so that the reason reaches the user."""

    def __init__(self, model: str, spec: ModelSpec, ledger: Any, out: str) -> None:
        import ray

        from models.engines import build_engine
        from models.engines.base import EngineUnreachableError
        from models.environment import MissingSecretError
        from pipelines.work import Answerer

        self._fatal = ""
        self._ledger, self._out = ledger, Store(out)
        self._name = str(ray.get_runtime_context().get_actor_id())
        try:
            engine = build_engine(model, spec)
            self._answerer = Answerer(engine, RemoteAttempts(ledger))
            ledger.started.remote(tuple(getattr(engine, "remarks", ())))
        except (EngineUnreachableError, MissingSecretError) as error:
            self._fatal = str(error)

    def __call__(self, batch: Any) -> Iterator[Any]:
        """Answer the units of a convoy one after the other; each goes on to its commit as soon as it is answered."""
        from pipelines.wire import unpack_convoy

        many = len(batch["units"].chunk(0)[0].values) > 1
        for loaded in unpack_convoy(batch):
            yield self._answered(loaded, many=many)

    def _answered(self, loaded: Any, *, many: bool) -> Any:
        from models.engines.base import EngineDiedError, EngineUnreachableError
        from pipelines.wire import Span, pack_rows

        began = time.time()
        unit = loaded.unit
        if many and not unit.carry and self._committed(unit.part):
            return pack_rows(unit, [], kept=True)
        if not self._fatal:
            try:
                rows = self._answerer.answer(loaded)
            except EngineUnreachableError as error:
                self._fatal = str(error)
            except EngineDiedError as error:
                self._fatal = self._end(error)
            else:
                self._ledger.answered.remote(unit.part)
                return pack_rows(unit, rows, span=Span(self._name, began, time.time()))
        return pack_rows(unit, [], fatal=self._fatal)

    def _committed(self, part: str) -> bool:
        """Whether this unit was answered and stored before a replica died at a later one of its convoy."""
        import ray

        return ray.get(self._ledger.was_answered.remote(part)) and self._out.exists(part)

    def _end(self, error: Exception) -> str:
        """End this process, so that Ray makes the replica anew and begins its unit again; or why that is no use."""
        import ray

        deaths = ray.get(self._ledger.died.remote())
        if deaths >= MOST_DEATHS:
            return f"its processes died {deaths} times in a row with nothing answered; the last time: {error}"
        log.warning("%s; the replica is started again", error)
        os._exit(DIED)


def execute(job: Job, cluster: ClusterInfo, on_receipt: Callable[[Receipt], None]) -> None:
    """Run all units of a job; returns when each is committed.

    Args:
        job: what to run.
        cluster: what there is to run on.
        on_receipt: called in this process for each committed unit.

    Raises:
        ModelUnavailableError: the model cannot be had.
        StoreError: the store failed for good.
    """
    if not job.units:
        return
    import ray

    _find_place(job, cluster)
    ledger = ray.remote(num_cpus=0)(Ledger).remote()
    keeper = ray.remote(num_cpus=0)(FrameKeeper).remote(
        keeper_bytes(ray.cluster_resources().get("object_store_memory", 0.0))
    )
    waiting = threading.Timer(WAIT_S, _say_what_is_waited_for, (job, cluster, ledger))
    waiting.daemon = True
    waiting.start()
    try:
        for row in run_rows(_stream(job, cluster, ledger, keeper)):
            if row["fatal"]:
                raise ModelUnavailableError(f"model {job.model!r}: {row['fatal']}")
            counts = {(task, setting, status): n for task, setting, status, n in json.loads(row["counts"])}
            replica, began, ended = json.loads(row["span"])
            on_receipt(
                Receipt(
                    part=row["part"],
                    counts=counts,
                    replica=replica,
                    began=began,
                    ended=ended,
                    tokens=(int(row["tokens"][0]), int(row["tokens"][1])),
                    out_of_money=bool(row["broke"]),
                )
            )
        for remark in ray.get(ledger.report.remote())[1]:
            log.warning("%s", remark)
        log.debug("media of %s: %s", job.model, ray.get(keeper.counts.remote()))
    finally:
        waiting.cancel()
        ray.kill(ledger)
        ray.kill(keeper)


def _find_place(job: Job, cluster: ClusterInfo) -> None:
    """See that one replica can be placed, within a minute.

    Raises:
        ModelUnavailableError: it cannot; says what is lacking.
    """
    demand = {_RESOURCES[name]: amount for name, amount in _engine_resources(job.spec, cluster).items()}
    if "GPU" in demand:
        demand.setdefault("CPU", 1.0)  # Ray Data's own default beside GPUs
    try:
        await_place(demand, patience_s=PLACE_S, grows=bool(cluster.address))
    except ClusterError as error:
        hint = " (tensor_parallel is the number of GPUs of one replica)" if demand.get("GPU", 0) > 1 else ""
        raise ModelUnavailableError(f"model {job.model!r} cannot be placed: {error}{hint}") from error


def _say_what_is_waited_for(job: Job, cluster: ClusterInfo, ledger: Any) -> None:
    """Once, when no replica has started after a minute: others may hold what it needs, or its weights are large."""
    import ray

    try:
        if ray.get(ledger.report.remote(), timeout=10)[0]:
            return
        free = ray.available_resources()
    except ray.exceptions.RayError:
        return
    needs = {_RESOURCES[name]: amount for name, amount in _engine_resources(job.spec, cluster).items()}
    log.warning(
        "model %r: no replica is ready yet; one needs %s, free now: %s; it loads, or waits for others to finish",
        job.model,
        ", ".join(f"{amount:g} {name}" for name, amount in needs.items()),
        ", ".join(f"{free.get(name, 0):g} {name}" for name in needs),
    )


def run_rows(dataset: Any) -> Iterator[Any]:
    """The rows of a Ray Data pipeline as they come; what Ray raises becomes an error that names the cause.

    Raises:
        StoreError, ModelUnavailableError: as their texts say.
    """
    import ray

    try:
        yield from dataset.iter_rows()
    except ray.exceptions.RayError as error:
        raise told(error) from error


def quiet_ray_data() -> None:
    """Progress and warnings of Ray Data stay in its log files; the watcher shows progress."""
    import ray.data as rd

    context = rd.DataContext.get_current()
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    context.execution_no_progress_timeout_s = NO_PROGRESS_S
    context.target_max_block_size = 1  # every row goes on as soon as it is made: a unit is committed when answered
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    logging.getLogger("ray.data").propagate = False


def _stream(job: Job, cluster: ClusterInfo, ledger: Any, keeper: Any) -> Any:
    import ray.data as rd

    quiet_ray_data()
    replicas = _replicas(job, cluster)
    convoys = make_convoys(job.units, replicas)
    items = [{"units": json.dumps([unit.to_dict() for unit in convoy])} for convoy in convoys]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # actor options of Ray Data are deprecated without a successor until 2.64
        return (
            rd.from_items(items, override_num_blocks=len(items))
            .map_batches(
                _load,
                batch_size=1,
                batch_format="pyarrow",
                num_cpus=LOAD_CPUS,
                fn_kwargs={"spec": job.loader, "keeper": keeper},
            )
            .map_batches(
                Replica,
                batch_size=1,
                batch_format="pyarrow",
                zero_copy_batch=True,
                fn_constructor_kwargs={"model": job.model, "spec": job.spec, "ledger": ledger, "out": job.out},
                compute=rd.ActorPoolStrategy(min_size=1, max_size=replicas, initial_size=replicas),
                **_engine_resources(job.spec, cluster),
            )
            .map_batches(
                _commit,
                batch_size=1,
                batch_format="pyarrow",
                num_cpus=COMMIT_CPUS,
                fn_kwargs={"out": job.out, "lock": job.lock},
            )
        )


def _replicas(job: Job, cluster: ClusterInfo) -> int:
    """Engines that may run side by side: what the spec allows, what there is work for, and what has room."""
    wanted = min(job.spec.replicas.max, len(job.units))
    fits = wanted
    if job.spec.engine in ("transformers", "vllm") and cluster.gpus >= job.spec.tensor_parallel:
        fits = int(cluster.gpus // job.spec.tensor_parallel)
    elif not cluster.address:
        fits = int((cluster.cpus - LOAD_CPUS - COMMIT_CPUS) // ENGINE_CPUS)
    return max(1, min(wanted, fits))


def _engine_resources(spec: ModelSpec, cluster: ClusterInfo) -> dict[str, Any]:
    local = spec.engine in ("transformers", "vllm")
    if local and (spec.device == "cuda" or (spec.device == "auto" and cluster.gpus > 0)):
        return {"num_gpus": spec.tensor_parallel}
    return {"num_cpus": min(ENGINE_CPUS, max(0.1, cluster.cpus - LOAD_CPUS - COMMIT_CPUS))}


def told(error: Exception) -> Exception:
    """A Ray error as one that names the cause: the store's own words where the store was it."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, (StoreError, FencedError)):
            return StoreError(str(cause))
        if type(cause) in (DatasetError, DamagedPartError):
            return ValueError(str(cause))
        inner = getattr(cause, "cause", None)
        cause = inner if isinstance(inner, BaseException) else cause.__cause__
    lines = str(error).strip().splitlines() or [type(error).__name__]
    told = next(
        (line for line in reversed(lines) if re.match(r"\s*[\w.]+(Error|Exception|Died\w*): ", line)), lines[-1]
    )
    return ModelUnavailableError(f"the run on the cluster failed: {told.strip()}; run with -v to see Ray's own words")
