"""The training loop of one worker, and its run on Ray Train with events of the first worker in the driver."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from cluster.connection import ClusterInfo, temporary_environment
from cluster.errors import ClusterError
from jobs.finetune.checkpoints import (
    ADAPTER,
    ExampleCounts,
    FinetuneSpec,
    History,
    TrainingEvent,
    TrainingListener,
    load_best,
    resume,
    save_best,
    save_checkpoint,
)
from jobs.finetune.example_store import TRAIN, VALIDATION, ExampleSet
from jobs.finetune.options import TrainingSettings, epoch_order, step_batch
from models.errors import EngineUnreachableError, ModelError, TrainingStateError
from models.scratch import scratch
from pipelines.errors import InternalError, ModelUnavailableError, PipelineError, UsageError
from pipelines.storage.store import Store

if TYPE_CHECKING:
    from jobs.finetune.examples import EncodedExample, ExampleEncoder
    from jobs.finetune.trainer import Trainer


Report = Callable[[TrainingEvent], None]


@dataclass(frozen=True, slots=True)
class Worker:
    """Rank of a worker among all."""

    rank: int = 0
    count: int = 1


def train(spec: FinetuneSpec, counts: ExampleCounts, worker: Worker, report: Report) -> History:
    """Train from the newest checkpoint to the end and write the adapter; return the losses of all steps.

    Raises:
        EngineUnreachableError: the base model cannot be loaded, or memory ran out.
        TrainingDataError: an example cannot be encoded.
        TrainingStateError: the checkpoint belongs to another training, or a loss is not finite.
    """
    from models.engines.transformers.row_errors import is_out_of_memory

    try:
        return _train(spec, counts, worker, report)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        cause = str(error).strip().partition("\n")[0]
        raise EngineUnreachableError(
            f"{spec.model_name}: memory ran out in the training ({cause}); lower --micro-batch-size "
            f"({spec.memory.micro_batch_size} now) and run the same command again to resume, or use devices with more "
            "memory"
        ) from error


def _train(spec: FinetuneSpec, counts: ExampleCounts, worker: Worker, report: Report) -> History:
    from jobs.finetune.examples import ExampleEncoder
    from jobs.finetune.trainer import Trainer
    from models.engines.transformers.checkpoint import load_checkpoint

    out = Store(spec.out)
    checkpoint = load_checkpoint(spec.model)
    trainer = Trainer(checkpoint, spec.settings, spec.memory, rank=worker.rank, workers=worker.count)
    encoder = ExampleEncoder(checkpoint, spec.model, spec.settings.max_length)
    # One thread for all encoding: the process that decodes pictures ends with the thread that started it.
    with ThreadPoolExecutor(1) as pool:
        loop = _Loop(
            spec=spec,
            out=out,
            trainer=trainer,
            encoder=encoder,
            worker=worker,
            report=report,
            pool=pool,
            examples=ExampleSet(out, TRAIN),
            validation=ExampleSet(out, VALIDATION) if counts.validation else None,
            history=resume(out, trainer),
        )
        loop.run()
    return loop.history


@dataclass(slots=True, kw_only=True)
class _Loop:
    spec: FinetuneSpec
    out: Store
    trainer: Trainer
    encoder: ExampleEncoder
    worker: Worker
    report: Report
    pool: ThreadPoolExecutor
    examples: ExampleSet
    validation: ExampleSet | None
    history: History

    @property
    def settings(self) -> TrainingSettings:
        return self.spec.settings

    @property
    def total_steps(self) -> int:
        return self.settings.total_steps(len(self.examples))

    @property
    def epoch_steps(self) -> int:
        return self.settings.steps_per_epoch(len(self.examples))

    def run(self) -> None:
        total = self.total_steps
        for batch in self._encoded(self.examples, self._step_shares()):
            loss = self.trainer.train_step(batch, total)
            self._check_finite("the loss", loss)
            self.history.losses.append(loss)
            self._report(loss)
            step = self.trainer.step
            if self.validation and (step % (self.spec.eval_every or self.epoch_steps) == 0 or step == total):
                self._validate(self.validation)
            if self.worker.rank == 0 and (step % self.spec.checkpoint_every == 0 or step == total):
                save_checkpoint(self.out, self.trainer, self.history)
        if self.worker.rank == 0:
            self._write_adapter()

    def _step_shares(self) -> Iterator[list[int]]:
        """Yield this worker's indices of each step that is left."""
        epoch, order = -1, list[int]()
        for step in range(self.trainer.step, self.total_steps):
            if step // self.epoch_steps != epoch:
                epoch = step // self.epoch_steps
                order = epoch_order(len(self.examples), epoch, self.settings.seed)
            batch = step_batch(order, step % self.epoch_steps, self.settings.batch_size)
            yield batch[self.worker.rank :: self.worker.count]

    def _encoded(self, examples: ExampleSet, shares: Iterator[list[int]]) -> Iterator[list[EncodedExample]]:
        """Yield the encoded examples of each share; the next one is encoded while the present one is computed."""

        def encode(indices: Sequence[int]) -> list[EncodedExample]:
            return self.encoder.encode(*examples.get(indices))

        following = next(shares, None)
        pending = None if following is None else self.pool.submit(encode, following)
        while pending is not None:
            batch = pending.result()
            following = next(shares, None)
            pending = None if following is None else self.pool.submit(encode, following)
            yield batch

    def _validate(self, validation: ExampleSet) -> None:
        """Compute the validation loss; keep the weights if it is the lowest so far."""
        indices = range(self.worker.rank, len(validation), self.worker.count)
        size = self.spec.memory.micro_batch_size
        shares = iter([list(indices[start : start + size]) for start in range(0, len(indices), size)])
        total, tokens = 0.0, 0
        for batch in self._encoded(validation, shares):
            loss, count = self.trainer.loss_sum(batch)
            total, tokens = total + loss, tokens + count
        mean = self.trainer.mean_over_workers(total, tokens)
        self._check_finite("the validation loss", mean)
        self.history.validation.append((self.trainer.step, mean))
        self._report(mean, is_validation=True)
        if self.history.best_loss is None or mean < self.history.best_loss:
            self.history.best_step, self.history.best_loss = self.trainer.step, mean
            if self.worker.rank == 0:
                save_best(self.out, self.trainer)

    def _check_finite(self, name: str, loss: float) -> None:
        if not math.isfinite(loss):
            raise TrainingStateError(
                f"{name} at step {self.trainer.step} is {loss}: the training diverged; lower --learning-rate or take "
                "--dtype float32, and another --out"
            )

    def _report(self, loss: float, *, is_validation: bool = False) -> None:
        step = self.trainer.step
        event = TrainingEvent(
            step=step,
            total_steps=self.total_steps,
            epoch=(step - 1) // self.epoch_steps + 1,
            epochs=self.settings.epochs,
            loss=loss,
            is_validation=is_validation,
        )
        if self.worker.rank == 0:
            self.report(event)

    def _write_adapter(self) -> None:
        if self.history.best_loss is not None:
            load_best(self.out, self.trainer, self.history.best_step)
        base = self.spec.model
        for name, content in self.trainer.adapter(base.model, base.revision).items():
            self.out.put(f"{ADAPTER}/{name}", content)


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
