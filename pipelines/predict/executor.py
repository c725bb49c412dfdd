"""Run units on Ray Data: load and decode on CPU tasks, answer on a pool of engine replicas, commit, count receipts.

The remote parts are in `workers`; nothing here knows what a question is. Each unit is one row, so that what
is committed together is decided by the planner and never by how blocks happen to be cut.
"""

from __future__ import annotations

import json
import logging
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from cluster.connect import ClusterInfo
from cluster.errors import ClusterError
from cluster.placement import wait_for_capacity
from models.spec import ModelSpec
from pipelines.errors import ModelUnavailableError
from pipelines.logging_context import fields_for_workers
from pipelines.media.frame_cache import FrameCacheActor, frame_cache_bytes
from pipelines.plan.batches import batch_units, exclusive_media_groups
from pipelines.plan.units import WorkUnit
from pipelines.predict.actors import EngineActor, commit_units, load_units
from pipelines.predict.attempts import AttemptTracker
from pipelines.predict.records import Job, Receipt
from pipelines.predict.startup_log import ReplicaStartupLog
from pipelines.ray_data import quiet_ray_data, run_rows

log = logging.getLogger(__name__)

LOAD_CPUS = 0.25
COMMIT_CPUS = 0.1
ENGINE_CPUS = 0.5
"""Shares for Ray's accounting, small enough that one core runs the whole pipeline; torch takes the cores it finds."""
LOADS_A_REPLICA = 24
COMMITS_A_REPLICA = 4
"""Tasks at once at the most: without a bound Ray Data asks the autoscaler for CPUs by the dozen near a sweep's end."""
WAITING_BYTES = 64 << 20
WAITING_CONVOYS = 4
"""Loaded and not answered, a replica: so many bytes, or so many of the largest convoys where those are more."""
PLACE_S = 50.0
"""Seconds to wait for a node that is large enough, where the cluster can grow and none is announced."""
_BUILDING = threading.Lock()
"""Filters of warnings are the process's and not the thread's."""
_RESOURCES = {"num_gpus": "GPU", "num_cpus": "CPU"}
LOST_TRIES = 3


def run_units(job: Job, cluster: ClusterInfo, on_receipt: Callable[[Receipt], None]) -> None:
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
    stays = _beside_this_process()
    ledger = ray.remote(**stays)(AttemptTracker).remote()
    keeper = ray.remote(**stays)(FrameCacheActor).remote(
        frame_cache_bytes(ray.cluster_resources().get("object_store_memory", 0.0))
    )
    needs = {_RESOURCES[name]: amount for name, amount in _engine_resources(job.spec, cluster).items()}
    try:
        with ReplicaStartupLog(job.model, needs, ledger):
            for receipt in _receipts(job, cluster, ledger, keeper):
                on_receipt(receipt)
        for remark in ray.get(ledger.report.remote())[1]:
            log.warning("%s", remark)
        log.debug("media of %s: %s", job.model, ray.get(keeper.counts.remote()))
    finally:
        ray.kill(ledger)
        ray.kill(keeper)


def _receipts(job: Job, cluster: ClusterInfo, ledger: Any, keeper: Any) -> Iterator[Receipt]:
    """A receipt for every unit: one that the cluster lost on the way, as its nodes came and went, is asked again.

    Raises:
        ModelUnavailableError: the model cannot be had, or units are lost again and again.
    """
    open_units = {unit.part: unit for unit in job.units}
    for _ in range(LOST_TRIES):
        for row in run_rows(_stream(replace(job, units=tuple(open_units.values())), cluster, ledger, keeper)):
            for raw in json.loads(row["receipts"]):
                if raw["fatal"]:
                    raise ModelUnavailableError(f"model {job.model!r}: {raw['fatal']}")
                if open_units.pop(raw["part"], None):
                    yield _receipt(raw)
        if not open_units:
            return
        log.warning("model %r: %d units were lost by the cluster and are asked again", job.model, len(open_units))
    raise ModelUnavailableError(f"model {job.model!r}: the cluster lost {len(open_units)} units, {LOST_TRIES} times")


def _receipt(raw: Mapping[str, Any]) -> Receipt:
    replica, began, ended = raw["span"]
    return Receipt(
        part=raw["part"],
        counts={(task, setting, status): n for task, setting, status, n in raw["counts"]},
        replica=replica,
        began=began,
        ended=ended,
        tokens=(raw["tokens"][0], raw["tokens"][1]),
        cached=raw["tokens"][2],
        failed=tuple((request_id, error) for request_id, error in raw["failed"]),
        cost_limit_reached=raw["broke"],
    )


def _beside_this_process() -> dict[str, Any]:
    """Options of an actor that no other node's end may take along; should its process die, it begins again, empty."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    return {"num_cpus": 0, "max_restarts": -1, "max_task_retries": -1, "scheduling_strategy": here}


def _find_place(job: Job, cluster: ClusterInfo) -> None:
    """See that one replica can be placed, within a minute.

    Raises:
        ModelUnavailableError: it cannot; says what is lacking.
    """
    demand = {_RESOURCES[name]: amount for name, amount in _engine_resources(job.spec, cluster).items()}
    if "GPU" in demand:
        demand.setdefault("CPU", 1.0)  # Ray Data's own default beside GPUs
    try:
        wait_for_capacity(demand, patience_s=PLACE_S, grows=bool(cluster.address), stopped=job.is_stopped)
    except ClusterError as error:
        hint = " (tensor_parallel is the number of GPUs of one replica)" if demand.get("GPU", 0) > 1 else ""
        if job.spec.device == "auto" and demand.get("GPU") and not cluster.gpus:
            hint += "; with `device: cpu` in the models file it asks for none"
        raise ModelUnavailableError(f"model {job.model!r} cannot be placed: {error}{hint}") from error


def _stream(job: Job, cluster: ClusterInfo, ledger: Any, keeper: Any) -> Any:
    import ray.data as rd

    replicas, lines = _replicas(job, cluster), fields_for_workers(run=job.lock_token, model=job.model)
    convoys = batch_units(job.units, replicas)
    alone = exclusive_media_groups(convoys)
    items = [
        {"units": json.dumps([unit.to_dict() for unit in convoy]), "alone": json.dumps(own)}
        for convoy, own in zip(convoys, alone, strict=True)
    ]
    with _BUILDING, warnings.catch_warnings():
        quiet_ray_data()
        _bound_what_waits(convoys, replicas)
        warnings.simplefilter("ignore")  # actor options of Ray Data are deprecated without a successor until 2.64
        return (
            rd.from_items(items, override_num_blocks=len(items))
            .map_batches(
                load_units,
                batch_size=1,
                batch_format="pyarrow",
                num_cpus=LOAD_CPUS,
                compute=rd.TaskPoolStrategy(size=min(len(items), LOADS_A_REPLICA * replicas)),
                fn_kwargs={"spec": job.loader, "keeper": keeper, "ledger": ledger, "lines": lines},
            )
            .map_batches(
                EngineActor,
                batch_size=1,
                batch_format="pyarrow",
                zero_copy_batch=True,
                fn_constructor_kwargs={
                    "model": job.model,
                    "spec": job.spec,
                    "ledger": ledger,
                    "out": job.out,
                    "lines": lines,
                },
                compute=rd.ActorPoolStrategy(min_size=1, max_size=replicas, initial_size=replicas),
                **_engine_resources(job.spec, cluster),
            )
            .map_batches(
                commit_units,
                batch_size=1,
                batch_format="pyarrow",
                num_cpus=COMMIT_CPUS,
                compute=rd.TaskPoolStrategy(size=min(len(items), COMMITS_A_REPLICA * replicas)),
                fn_kwargs={"out": job.out, "lock": job.lock_token, "lines": lines},
            )
        )


def _bound_what_waits(convoys: Sequence[Sequence[WorkUnit]], replicas: int) -> None:
    """Loaders stop when so much waits for engines: else they run ahead until half of the object store is full.

    What waits is held by the store or, where it is small, by the driver's own memory.
    """
    import ray.data as rd

    largest = max((sum(unit.media_bytes for unit in convoy) for convoy in convoys), default=0)
    limit = replicas * max(WAITING_BYTES, WAITING_CONVOYS * largest)
    rd.DataContext.get_current().execution_options.resource_limits = rd.ExecutionResources.for_limits(
        object_store_memory=limit
    )


def _replicas(job: Job, cluster: ClusterInfo) -> int:
    """Engines that may run side by side: what the spec allows, what there is work for, and what has room."""
    wanted = min(job.spec.replicas.max, len(job.units))
    fits, ranks = wanted, job.spec.tensor_parallel
    if job.spec.runs_locally and cluster.max_gpu_nodes:
        fits = sum(gpus // ranks for gpus in cluster.max_gpu_nodes) or wanted
    elif job.spec.runs_locally and cluster.gpus >= ranks:
        fits = int(cluster.gpus // ranks)
    elif not cluster.address:
        fits = int((cluster.cpus - LOAD_CPUS - COMMIT_CPUS) // ENGINE_CPUS)
    return max(1, min(wanted, fits))


def _engine_resources(spec: ModelSpec, cluster: ClusterInfo) -> dict[str, Any]:
    if spec.needs_gpu(has_gpus=cluster.has_gpus):
        return {"num_gpus": spec.tensor_parallel}
    return {"num_cpus": min(ENGINE_CPUS, max(0.1, cluster.cpus - LOAD_CPUS - COMMIT_CPUS))}
