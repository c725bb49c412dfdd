"""The training loop of a worker, without Ray: resume, steps, validations, checkpoints, the adapter."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jobs.finetune.checkpoints import load_best, resume, save_best, save_checkpoint
from jobs.finetune.example_store import TRAIN, VALIDATION, ExampleSet
from jobs.finetune.records import ADAPTER, ExampleCounts, FinetuneSpec, History, TrainingEvent
from jobs.finetune.settings import TrainingSettings, epoch_order, step_batch
from models.errors import EngineUnreachableError, TrainingStateError
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
