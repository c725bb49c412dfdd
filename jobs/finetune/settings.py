"""Hyperparameters of a training, and what follows from them: order of examples, batches, learning rate."""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSettings:
    """Hyperparameters that change the trained weights.

    Sources of the defaults: "paper" is V-FLUTE's appendix D, "LLaVA" the training code that the paper used, "usual" the
    optimizer's or transformers' own value.
    """

    epochs: int
    batch_size: int = 64  # examples per optimizer step over all workers; paper: 16 on each of 4 GPUs
    learning_rate: float = 2e-5  # paper
    projector_learning_rate: float = 2e-5  # paper
    warmup_ratio: float = 0.03  # share of the steps over which the learning rate rises; paper
    weight_decay: float = 0.0  # paper
    lora_rank: int = 128  # paper
    lora_alpha: int = 256  # paper
    lora_dropout: float = 0.05  # LLaVA
    train_projector: bool = True  # LLaVA: the projector between vision tower and language model, as a whole
    max_length: int = 2048  # tokens of prompt and answer together; longer answers are cut; LLaVA
    max_grad_norm: float = 1.0  # usual
    adam_betas: tuple[float, float] = (0.9, 0.999)  # usual
    adam_epsilon: float = 1e-8  # usual
    dtype: Literal["bfloat16", "float32"] = "bfloat16"  # of base weights and of computation; paper
    seed: int = 42  # paper

    def steps_per_epoch(self, examples: int) -> int:
        """Return the optimizer steps of an epoch; the last one may have fewer examples."""
        return math.ceil(examples / self.batch_size)

    def total_steps(self, examples: int) -> int:
        """Return the optimizer steps of the whole training."""
        return self.epochs * self.steps_per_epoch(examples)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySettings:
    """Settings that trade memory for time and leave the training as it is, up to rounding."""

    micro_batch_size: int = 16  # examples per forward pass of a worker; paper
    gradient_checkpointing: bool = True  # compute activations again in the backward pass; LLaVA


def learning_rate_factor(step: int, total_steps: int, warmup_ratio: float) -> float:
    """Return the factor of the learning rate at a step from 0: linear warm-up, then half a cosine down to 0.

    It is transformers' schedule `cosine`, whose first step has the factor 0 if there is a warm-up.
    """
    warmup = math.ceil(warmup_ratio * total_steps)
    if step < warmup:
        return step / warmup
    share = (step - warmup) / max(1, total_steps - warmup)
    return max(0.0, 0.5 * (1.0 + math.cos(math.pi * share)))


def epoch_order(examples: int, epoch: int, seed: int) -> list[int]:
    """Return the indices of examples in the order of an epoch, a pure function of seed and epoch."""

    def digest(index: int) -> bytes:
        return hashlib.sha256(f"{seed}|{epoch}|{index}".encode()).digest()

    return sorted(range(examples), key=digest)


def step_batch(order: Sequence[int], step_in_epoch: int, batch_size: int) -> list[int]:
    """Return the indices of examples of one optimizer step of an epoch."""
    start = step_in_epoch * batch_size
    return list(order[start : start + batch_size])
