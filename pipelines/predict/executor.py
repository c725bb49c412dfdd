"""Run units on Ray Data: load and decode in CPU tasks, answer in a pool of engine replicas, commit, count receipts.

Each batch of units is one row of Ray Data, so that the planner decides what is committed together.
"""

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import ExitStack, closing
from dataclasses import replace
from time import monotonic
from typing import Any

from cluster.connection import ClusterInfo
from cluster.errors import ClusterError, PostponedError, RunCancelledError
from cluster.placement import node_selectors, wait_for_capacity
from cluster.threads import in_background, run_in_thread
from models.errors import EngineUnreachableError, MissingSecretError, ShellSettingError
from models.spec import ModelSpec
from pipelines.errors import ModelUnavailableError
from pipelines.logging_context import fields_for_workers, log_context
from pipelines.plan.batches import Batches, ExclusiveGroups, batch_units
from pipelines.predict.actors import EngineActor, commit_units, load_units, read_feed
from pipelines.predict.attempts import AttemptTracker
from pipelines.predict.job_state import JobState, remote_state
from pipelines.predict.loader import Loaded
from pipelines.predict.open_units import OpenUnits
from pipelines.predict.records import Job, KeptReplicas, Receipt
from pipelines.predict.replica_board import ReplicaWatch, rows_note
from pipelines.predict.serialization import pack_batch, unpack_receipts
from pipelines.predict.unit_pipeline import UnitPipeline
from pipelines.ray_data import NO_PROGRESS_S, quiet_ray_data, run_rows

log = logging.getLogger(__name__)

LOAD_CPUS = 0.25
COMMIT_CPUS = 0.1
ENGINE_CPUS = 0.5
"""Shares for Ray's accounting, small enough that one core runs the whole pipeline; torch takes the cores it finds."""
LOADS_PER_REPLICA = 24
COMMITS_PER_REPLICA = 4
"""The most concurrent tasks: without a bound Ray Data asks the autoscaler for CPUs by the dozen near a sweep's end."""
WAITING_BYTES = 64 << 20
WAITING_BATCHES = 4
"""Most that is loaded and unanswered per replica: these bytes, or this many of the largest batches if more."""
STREAMED_CALLS = 8
"""Batches that a replica gets at once where its engine takes several units: 512 requests about pictures, at 64 each."""
CAPACITY_WAIT_S = 50.0
NODE_WAIT_S = 1800.0
"""Seconds to wait for a node that is large enough: of a standing cluster, and where the head says that some may come. A
launch that is refused is tried again by the autoscaler: no spot node now is the normal state."""
NODE_RETRY_S = 300.0  # of these, until a model that shares the cluster lets those that wait go first
_STREAM_LOCK = threading.Lock()  # settings of Ray Data belong to the process and not to the thread
_RESOURCES = {"num_gpus": "GPU", "num_cpus": "CPU"}
LOOK_S = 0.2  # between looks whether another replica has ended the run, and answers wait to be committed
MAX_PASSES = 3  # how often units that the cluster loses are sent


def run_units(
    job: Job, cluster: ClusterInfo, on_receipt: Callable[[Receipt], None], note: Callable[[str], None] = lambda _: None
) -> None:
    """Run all units of a job; `on_receipt` is called in this process for each committed one.

    `note` gets sentences on how replicas start, and how many rows of unfinished units are answered.

    Raises:
        ModelUnavailableError: the model is unavailable.
        StoreError: the store failed after retries.
    """
    if not job.units:
        return
    demand, kept = _replica_demand(job.spec, cluster), job.kept or KeptReplicas()
    _check_capacity(job, cluster, demand)
    is_waited_for = monotonic() - kept.used < NO_PROGRESS_S / 2  # Ray Data ends a pipeline that waits for all of it
    if kept.key != (job.work, cluster) or kept.count < _replicas(job, cluster) or not is_waited_for:
        kept.close()
        kept.key, kept.count = (job.work, cluster), _replicas(job, cluster)
        kept.actor = _start_job_actor(kept.count)
    if cluster.address and "GPU" not in demand:
        job = replace(job, kept=None)  # kept replicas count no CPUs: their GPUs place them, or there is one machine
    with ExitStack() as ending:
        ending.callback(kept.close)
        with ReplicaWatch(job.model, demand, kept.actor, note):
            for receipt in _receipts(job, cluster, kept):
                on_receipt(receipt)
        if job.kept:
            kept.used = monotonic()
            ending.pop_all()


def _receipts(job: Job, cluster: ClusterInfo, kept: KeptReplicas) -> Iterator[Receipt]:
    """Yield a receipt for every unit; units that the cluster lost are sent again."""
    open_units = {unit.part: index for index, unit in enumerate(job.units)}
    for pass_index in range(MAX_PASSES):
        units = [job.units[index] for index in open_units.values()] if pass_index else job.units
        for row in _rows(replace(job, units=units), cluster, kept):
            for receipt in unpack_receipts(row):
                if receipt.fatal:
                    raise ModelUnavailableError(f"model {job.model!r}: {receipt.fatal}")
                if open_units.pop(receipt.part, None) is not None:
                    yield receipt
            if job.kept and not open_units:
                break
        if not open_units:
            return
        kept.rows = None
        log.warning("model %r: the cluster lost %d units; resending them", job.model, len(open_units))
    raise ModelUnavailableError(f"model {job.model!r}: the cluster lost {len(open_units)} units, {MAX_PASSES} times")


def _rows(job: Job, cluster: ClusterInfo, kept: KeptReplicas) -> Iterator[Any]:
    """Return the rows of a job's pipeline; those of a kept one do not end with the job."""
    if not job.kept:
        return run_rows(_stream(job, cluster, kept.actor))
    items = _BatchItems(batch_units(job.units, kept.count))
    call = remote_state(kept.actor).feed([items[index]["batch"] for index in range(len(items))])
    kept.rows = kept.rows or run_rows(_stream(job, cluster, kept.actor, call))
    return kept.rows


def _start_job_actor(replicas: int) -> Any:
    """Start the job's actor where no other node's end can kill it; should its process die, it restarts empty."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    this_node = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    options = {"num_cpus": 0, "max_restarts": -1, "max_task_retries": -1, "scheduling_strategy": this_node}
    return ray.remote(**options)(JobState).remote(replicas)


def _replica_demand(spec: ModelSpec, cluster: ClusterInfo) -> dict[str, float]:
    resources = _engine_resources(spec, cluster)
    return {_RESOURCES[name]: amount for name, amount in resources.items() if name in _RESOURCES}


def _check_capacity(job: Job, cluster: ClusterInfo, demand: Mapping[str, float]) -> None:
    """Check within a minute that one replica can be placed; ModelUnavailableError if not."""
    needed = {"CPU": 1.0, **demand} if "GPU" in demand else dict(demand)  # Ray Data's own default next to GPUs
    limit, waited = _node_wait_s(job, cluster), 0.0 if job.waits_since is None else monotonic() - job.waits_since
    timeout = limit if job.waits_since is None else min(limit - waited, NODE_RETRY_S)
    try:
        wait_for_capacity(needed, timeout_s=timeout, grows=bool(cluster.address), stopped=job.is_stopped)
    except RunCancelledError:
        raise
    except ClusterError as error:
        if waited + timeout < limit:
            raise PostponedError(str(error)) from error
        hint = " (tensor_parallel is the number of GPUs of one replica)" if demand.get("GPU", 0) > 1 else ""
        if job.spec.device == "auto" and demand.get("GPU") and not cluster.gpus:
            hint += "; with `device: cpu` in the models file it needs none"
        raise ModelUnavailableError(f"model {job.model!r} cannot be placed: {error}{hint}") from error


def _node_wait_s(job: Job, cluster: ClusterInfo) -> float:
    if job.wait_for_nodes_s is not None:
        return job.wait_for_nodes_s
    return NODE_WAIT_S if cluster.max_gpu_nodes or cluster.is_shared else CAPACITY_WAIT_S


def _stream(job: Job, cluster: ClusterInfo, job_actor: Any, call: int = 0) -> Any:
    import ray.data as rd

    replicas = _replicas(job, cluster)
    tasks = _max_tasks(LOADS_PER_REPLICA * replicas, cluster)
    batches = batch_units(job.units, replicas)
    items = _BatchItems(batches)
    with _STREAM_LOCK:
        quiet_ray_data()
        _limit_waiting(batches.max_media_bytes, replicas, STREAMED_CALLS if job.spec.is_streamed else WAITING_BATCHES)
        if job.kept:  # one task: Ray Data would make it one with loading if that had one too
            options = {"num_cpus": 0, "compute": rd.TaskPoolStrategy(size=1)}
            feed = {"job_actor": job_actor, "call": call}
            rows = rd.from_items([{"feed": 0}]).map_batches(read_feed, **_EACH_ROW, **options, fn_kwargs=feed)
            return _in_stages(rows, job, cluster, job_actor, max(2, tasks))
        rows = rd.from_items(items, override_num_blocks=len(items))
        return _in_stages(rows, job, cluster, job_actor, len(items))


class _BatchItems:
    """The rows of a job, one per batch. Ray Data reads each once, and copies it to the object store."""

    def __init__(self, batches: Batches) -> None:
        self._batches, self._exclusive_groups = batches, ExclusiveGroups(batches)

    def __len__(self) -> int:
        return len(self._batches)

    def __getitem__(self, index: int) -> dict[str, bytes]:
        batch = self._batches[index]
        return {"batch": pack_batch(batch, self._exclusive_groups.of(batch))}


_EACH_ROW: Mapping[str, Any] = {"batch_size": 1, "batch_format": "pyarrow"}


def _in_stages(rows: Any, job: Job, cluster: ClusterInfo, job_actor: Any, count: int) -> Any:
    """Load in tasks, answer in a pool of replicas, commit in tasks."""
    import ray.data as rd

    # The feed of kept replicas never ends, so that Ray Data starts no task beyond a share of other pipelines' CPUs.
    replicas, share = _replicas(job, cluster), 0.0 if cluster.is_shared or job.kept else 1.0
    prepares = _prepares_ahead(job.spec, cluster)
    shared = {"work": job.work, "log_fields": fields_for_workers(run=job.lock_token, model=job.model)}
    return (
        rows.map_batches(
            load_units,
            **_EACH_ROW,
            num_cpus=share * LOAD_CPUS,
            compute=rd.TaskPoolStrategy(size=min(count, _max_tasks(LOADS_PER_REPLICA * replicas, cluster))),
            fn_kwargs={**shared, "job_actor": job_actor},
        )
        .map_batches(
            EngineActor,
            **_EACH_ROW,
            zero_copy_batch=True,
            fn_constructor_kwargs={**shared, "job_actor": job_actor, "prepares": prepares},
            compute=_pool(replicas, calls=STREAMED_CALLS if job.spec.is_streamed else 2 if prepares else 1),
            **_engine_resources(job.spec, cluster) | ({"num_cpus": 0} if job.kept else {}),
        )
        .map_batches(
            commit_units,
            **_EACH_ROW,
            num_cpus=share * COMMIT_CPUS,
            compute=rd.TaskPoolStrategy(size=min(count, _max_tasks(COMMITS_PER_REPLICA * replicas, cluster))),
            fn_kwargs=shared,
        )
    )


def _prepares_ahead(spec: ModelSpec, cluster: ClusterInfo) -> bool:
    """Return whether replicas preprocess pixels while they answer: without a GPU the cores are busy."""
    return spec.prepare_ahead and spec.needs_gpu(has_gpus=cluster.has_gpus)


def _pool(replicas: int, *, calls: int) -> Any:
    """Return a pool of a fixed size, because a smaller one loads the weights again after each pause.

    With two concurrent calls a replica prepares one batch while it answers another; with more it answers several.
    """
    import ray.data as rd

    return rd.ActorPoolStrategy(
        size=replicas,
        max_tasks_in_flight_per_actor=max(2, calls),
        max_concurrent_calls_per_actor=calls,
        enable_true_multi_threading=calls > 1,
    )


def _max_tasks(tasks: int, cluster: ClusterInfo) -> int:
    """Bound concurrent tasks on one machine by its cores: each is a process, which takes seconds to start."""
    return tasks if cluster.address else min(tasks, max(2, int(cluster.cpus)))


def _limit_waiting(largest: int, replicas: int, batches: int) -> None:
    """Bound what loaders prepare before engines take it: else half of the object store fills."""
    import ray.data as rd

    limit = replicas * max(WAITING_BYTES, batches * largest)
    rd.DataContext.get_current().execution_options.resource_limits = rd.ExecutionResources.for_limits(
        object_store_memory=limit
    )


def _replicas(job: Job, cluster: ClusterInfo) -> int:
    """Return how many replicas run: limited by the spec, the work and the cluster."""
    useful = min(job.spec.replicas.max, len(job.units))
    fits, ranks = useful, job.spec.tensor_parallel
    if job.spec.can_use_gpu and cluster.max_gpu_nodes:
        fits = sum(gpus // ranks for gpus in cluster.max_gpu_nodes) * job.spec.replicas_per_gpu or useful
    elif job.spec.can_use_gpu and cluster.gpus >= ranks:
        fits = int(cluster.gpus // ranks) * job.spec.replicas_per_gpu
    elif not cluster.address:
        fits = int((cluster.cpus - LOAD_CPUS - COMMIT_CPUS) // ENGINE_CPUS)
    return max(1, min(useful, fits))


def _engine_resources(spec: ModelSpec, cluster: ClusterInfo) -> dict[str, Any]:
    if spec.needs_gpu(has_gpus=cluster.has_gpus):
        return {
            "num_gpus": spec.replica_gpus,
            **({"num_cpus": 0} if cluster.is_shared else {}),
            # Else Ray spreads small replicas over all nodes, large ones that other models are planned on among them.
            **node_selectors(cluster.node_sizes, gpus=int(cluster.gpus) if spec.replicas_per_gpu > 1 else 0),
        }
    return {"num_cpus": min(ENGINE_CPUS, max(0.1, cluster.cpus - LOAD_CPUS - COMMIT_CPUS))}


class _NotedAttempts(AttemptTracker):
    def __init__(self, note: Callable[[str], None]) -> None:
        super().__init__()
        self._note = note

    def record_rows(self, unit: str, rows: int) -> None:
        """Record the rows, and note them for people who wait."""
        super().record_rows(unit, rows)
        self._note(rows_note(self.answered_rows()))


def run_in_process(
    job: Job, on_receipt: Callable[[Receipt], None], note: Callable[[str], None] = lambda _: None
) -> None:
    """Run a job's units in this process, for an engine that can neither end nor stall it.

    A replica answers as many units at once as keep its engine busy. What is answered is committed when its unit is
    whole, at most 30 s later if it is not, or when an exception ends the run, such as an interrupt.

    `note` gets sentences on how many rows of unfinished units are answered.

    Raises:
        ModelUnavailableError: the endpoint is unavailable.
        StoreError: the store failed after retries.
    """
    exclusive_groups = ExclusiveGroups([unit] for unit in job.units)
    units, lock, attempts = iter(job.units), threading.Lock(), _NotedAttempts(note)

    def receive(receipt: Receipt) -> None:
        with lock:
            on_receipt(receipt)
            note("")

    def answer(is_stopped: Callable[[], bool]) -> None:
        with closing(UnitPipeline(job.work, "driver", attempts=attempts)) as pipeline:
            open_units = OpenUnits(pipeline, receive)
            try:
                _answer_units(pipeline, open_units, load_next, receive, is_stopped)
            except BaseException:
                open_units.give_up()
                raise

    def load_next(pipeline: UnitPipeline) -> Future[Loaded] | None:
        with lock:
            unit = next(units, None)
        if unit is None:
            return None
        with log_context(part=unit.part):
            return run_in_thread("load", pipeline.load, unit, exclusive_groups.of([unit]))

    further = range(1, min(job.spec.replicas.max, len(job.units)))
    try:
        with in_background({f"replica-{index}": answer for index in further}) as is_stopped:
            answer(is_stopped)
    except (EngineUnreachableError, MissingSecretError, ShellSettingError) as error:
        raise ModelUnavailableError(f"model {job.model!r}: {error}") from error


def _answer_units(
    pipeline: UnitPipeline,
    open_units: OpenUnits,
    load_next: Callable[[UnitPipeline], Future[Loaded] | None],
    receive: Callable[[Receipt], None],
    is_stopped: Callable[[], bool],
) -> None:
    """Load, answer and commit units in this thread's pipeline; the next one is loaded meanwhile."""
    answers = list[Future[None]]()

    def wait(condition: Callable[[], bool]) -> None:
        while not open_units.wait(condition, LOOK_S):
            if is_stopped():
                raise RunCancelledError("another replica has ended the run")
            open_units.save()
        for future in filter(Future.done, answers):
            future.result()
        answers[:] = (future for future in answers if not future.done())

    loading = load_next(pipeline)
    while loading and not is_stopped():
        wait(loading.done)
        loaded = loading.result()
        loading = load_next(pipeline)
        wait(open_units.has_room)
        answers.append(open_units.start(loaded, lambda done, counted: receive(pipeline.commit(done, counted=counted))))
    wait(lambda: open_units.is_empty)
