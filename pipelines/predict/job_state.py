"""The state that the workers of a job share, in one actor for the length of the job."""

import time
from collections.abc import Callable, Sequence
from typing import Any, cast

from cluster.scheduling.gpu_scheduler import FailedDevices
from models.spec import ModelSpec
from pipelines.predict.attempts import AttemptTracker
from pipelines.predict.replica_board import LoadProgress, ReplicaBoard


class JobState(AttemptTracker, ReplicaBoard, FailedDevices):
    """The attempts at units, the board of replicas and the GPUs that failed."""

    def __init__(self, replicas: int) -> None:
        import ray

        AttemptTracker.__init__(self)
        ReplicaBoard.__init__(self, replicas)
        FailedDevices.__init__(self, _start_holder, ray.kill, _count_gpus)
        self._fed: list[Sequence[bytes]] = []
        self._first_call = time.time_ns()  # later than all of a process before

    def board(self) -> tuple[int, int, int, list[LoadProgress]]:
        """Return replicas that load and that started, answered rows of unfinished units, and how far weights are."""
        return self.loading, self.started, self.answered_rows(), self.progress()

    def begin(self, unit: str) -> tuple[int, dict[str, str]]:
        """Count another attempt, as `AttemptTracker.begin`; GPUs did not fail where a request is the cause."""
        attempt, blamed = AttemptTracker.begin(self, unit)
        if blamed:
            self.excuse(unit)
        return attempt, blamed

    def record_start(self, replica: str) -> None:
        """Record a start, as `ReplicaBoard.record_start`: a replica that left its GPUs is elsewhere now."""
        ReplicaBoard.record_start(self, replica)
        self.release_idle()

    def feed(self, batches: Sequence[bytes]) -> int:
        """Add a job's packed batches for replicas that wait, with no attempts yet; return the number of this call."""
        AttemptTracker.__init__(self)
        self._fed.append(batches)
        return self._first_call + len(self._fed) - 1

    def fed(self, call: int) -> Sequence[bytes] | None:
        """Return what a call of `feed` added; None before it, and none if it was of a process that died."""
        index = call - self._first_call
        return () if index < 0 else self._fed[index] if index < len(self._fed) else None


class _Holder:
    """Holds GPUs and does nothing."""

    def __init__(self, job_actor: Any, name: str) -> None:
        job_actor.record_reserved.remote(name, *replica_gpus())


def replica_gpus() -> tuple[str, Sequence[str]]:
    """Return the node of this worker, and the ids of the GPUs that Ray gave it; nothing outside of Ray."""
    import ray

    if not ray.is_initialized():
        return "", []
    context = ray.get_runtime_context()
    return context.get_node_id(), context.get_accelerator_ids().get("GPU", [])


def replica_device(spec: ModelSpec, gpus: Sequence[str]) -> str:
    """Return what this worker computes on: a type of GPU as Ray names it, `cpu`, or '' for no weights."""
    import ray

    if not spec.runs_locally:
        return ""
    if not gpus or not spec.can_use_gpu:
        return "cpu"
    labels = ray.get_runtime_context().get_node_labels()
    return str(labels.get("ray.io/accelerator-type", "gpu"))


def _start_holder(node: str, gpus: int, name: str) -> Any:
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    there = NodeAffinitySchedulingStrategy(node, soft=False)
    holder = ray.remote(num_gpus=gpus, num_cpus=0, scheduling_strategy=there)(_Holder)
    return holder.remote(ray.get_runtime_context().current_actor, name)


def _count_gpus() -> float:
    import ray

    return float(ray.cluster_resources().get("GPU", 0.0))


class _RemoteState:
    def __init__(self, actor: Any) -> None:
        self._actor = actor

    def __getattr__(self, name: str) -> Callable[..., Any]:
        import ray

        method = getattr(self._actor, name)  # AttributeError where the class of the actor has none
        return lambda *args: ray.get(method.remote(*args))


def remote_state(actor: Any) -> JobState:
    """Return the state that an actor holds, as if it were here: each call waits for its result."""
    return cast("JobState", _RemoteState(actor))
