"""Run the training loop on Ray Train, with events of its first worker in the driver."""

import logging
import threading
from dataclasses import dataclass
from typing import Any, Final

from cluster.connection import ClusterInfo, temporary_environment
from cluster.errors import ClusterError
from jobs.finetune.records import ExampleCounts, FinetuneSpec, History, TrainingEvent, TrainingListener
from jobs.finetune.train_loop import Worker, train
from models.errors import ModelError
from models.scratch import scratch
from pipelines.errors import InternalError, ModelUnavailableError, PipelineError, UsageError

log = logging.getLogger(__name__)

_POLL_S: Final = 0.3
_START: Final = {"RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "900"}
"""Ray Train's own minute is too short for a busy machine, and for nodes that an autoscaler starts."""
_TRIES: Final = 3  # of a training whose workers die without an error of their own, from the newest checkpoint
_DETERMINISTIC: Final = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
"""What cuBLAS needs to be deterministic; it takes this setting no other way."""


def train_on_ray(
    spec: FinetuneSpec, counts: ExampleCounts, cluster: ClusterInfo, listener: TrainingListener
) -> History:
    """Train on the workers of a connected cluster; return the losses of all steps.

    Raises:
        UsageError: an embedded cluster has no room for so many workers.
        ModelUnavailableError: workers died repeatedly, or the cluster lacks their resources.
        ModelError, PipelineError: as of `train`.
    """
    import ray

    workers, use_gpu = _workers(spec, cluster)
    room = cluster.gpus if use_gpu else cluster.cpus
    if workers > room and not cluster.address:
        raise UsageError(f"--num-workers {workers}: this machine has room for {room:g}; give fewer, or --address")
    for attempt in range(1, _TRIES + 1):
        try:
            with temporary_environment(_START):
                relay = ray.remote(num_cpus=0)(_Relay).remote()
                return _Run(spec=spec, counts=counts, cluster=cluster, listener=listener, relay=relay).wait()
        except _WorkersDiedError as error:
            if attempt == _TRIES:
                raise ModelUnavailableError(
                    f"workers of the training died {_TRIES} times, last with: {error}. Run the same command again to "
                    "resume from the newest checkpoint"
                ) from error
            log.warning("a worker of the training died (%s); it goes on from the newest checkpoint", error)
    raise AssertionError("the last attempt returns or raises")


class _WorkersDiedError(Exception):
    """Workers of a training are gone, and no error of the training is the cause."""


@dataclass(slots=True, kw_only=True)
class _Run:
    """One start of the workers. Ray Train blocks, so it runs in a thread and this one shows events."""

    spec: FinetuneSpec
    counts: ExampleCounts
    cluster: ClusterInfo
    listener: TrainingListener
    relay: Any
    error: Exception | None = None
    history: History | None = None

    def wait(self) -> History:
        import ray

        with scratch() as folder:  # checkpoints are kept in --out
            thread = threading.Thread(target=self._fit, args=(str(folder),), name="ray-train", daemon=True)
            thread.start()
            while thread.is_alive():
                self._show(ray.get(self.relay.drain.remote()))
                thread.join(_POLL_S)
        if self.error is not None:
            raise _cause(self.error) from self.error
        self._show(ray.get(self.relay.drain.remote()))
        assert self.history is not None, "the first worker returned its losses"
        return self.history

    def _show(self, messages: list[TrainingEvent | History]) -> None:
        for message in messages:
            if isinstance(message, History):
                self.history = message
            else:
                self.listener.event(message)

    def _fit(self, folder: str) -> None:
        from ray.train import FailureConfig, RunConfig, ScalingConfig
        from ray.train.torch import TorchTrainer

        workers, use_gpu = _workers(self.spec, self.cluster)
        trainer = TorchTrainer(
            _train_worker,
            train_loop_config={"spec": self.spec, "counts": self.counts, "relay": self.relay},
            scaling_config=ScalingConfig(num_workers=workers, use_gpu=use_gpu),
            run_config=RunConfig(
                name="finetune",
                storage_path=folder,
                failure_config=FailureConfig(max_failures=0),
                worker_runtime_env={"env_vars": _DETERMINISTIC} if use_gpu else None,
            ),
        )
        try:
            trainer.fit()
        except Exception as error:  # noqa: BLE001  raised again in the main thread
            self.error = error


def _workers(spec: FinetuneSpec, cluster: ClusterInfo) -> tuple[int, bool]:
    """Return the number of workers, and whether each takes a GPU."""
    use_gpu = cluster.gpus > 0 and spec.model.device != "cpu"
    return spec.workers or (int(cluster.gpus) if use_gpu else 1), use_gpu


def _train_worker(config: dict[str, Any]) -> None:
    """Run the training loop in a worker of Ray Train."""
    import ray
    import torch
    from ray import train as ray_train

    torch.use_deterministic_algorithms(mode=True, warn_only=True)
    context = ray_train.get_context()
    worker = Worker(context.get_world_rank(), context.get_world_size())
    relay = config["relay"]

    def report(event: TrainingEvent) -> None:
        relay.add.remote(event)

    history = train(config["spec"], config["counts"], worker, report)
    if worker.rank == 0:
        ray.get(relay.add.remote(history))


class _Relay:
    """The actor that carries events from the first worker to the driver."""

    def __init__(self) -> None:
        self._messages: list[TrainingEvent | History] = []

    def add(self, message: TrainingEvent | History) -> None:
        self._messages.append(message)

    def drain(self) -> list[TrainingEvent | History]:
        """Return the messages since the last call."""
        messages, self._messages = self._messages, []
        return messages


def _cause(error: Exception) -> Exception:
    """Return the error of the training behind an error of Ray Train, or that its workers died."""
    failures: list[Exception] = [*getattr(error, "worker_failures", {}).values()]
    for failure in failures:
        if isinstance(failure, (ModelError, PipelineError, ClusterError)):
            return failure
    if all(_is_death(failure) for failure in failures or [error]):
        return _WorkersDiedError(str((failures or [error])[0]).strip().partition("\n")[0])
    return InternalError(str(error).strip())  # with the worker's traceback


def _is_death(failure: Exception) -> bool:
    """Return whether a worker, or the one it communicated with, is gone."""
    text = str(failure)
    return type(failure).__module__.startswith(("ray.", "torch.distributed")) or (
        isinstance(failure, RuntimeError) and ("gloo" in text or "NCCL" in text)
    )
