"""The options of `finetune`, and the settings of a training with its schedule."""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from jobs.shared.options import Address, Json, ModelsFiles
from pipelines.flags import argument, flag


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


@dataclass(frozen=True, slots=True, kw_only=True)
class FinetuneOptions:
    """Options of `finetune`; defaults are the paper's, those of LLaVA's code where marked, else usual values."""

    benchmark: str = argument("The benchmark whose models are trained: vflute.")
    variant: str = flag("The paper's model: vf, vf-no-image, evil or evil+vf.", is_required=True)
    out: str = flag(
        "Location of the adapter: a folder that all nodes share, or s3://.", "Output", kind="location", is_required=True
    )
    data: str | None = flag(
        "V-FLUTE as distributed on the hub, with data/train-*.parquet; data/validation-*.parquet select the best "
        "checkpoint. A folder or s3://.",
        "Data",
        kind="location",
    )
    evil: str | None = flag(
        "e-SNLI-VE: a folder or s3:// with esnlive_train.csv and flickr30k_images/.", kind="location"
    )
    model: str = flag("The base model: a name, a hub id or a folder.", "Models", kind="models", default="llava-1.5-7b")
    epochs: int | None = flag("Epochs. [paper: vf 3, vf-no-image 10, evil 1, evil+vf 2]", low=1)
    learning_rate: float = flag("Peak rate of the adapter (paper).", low=0, default=2e-5)
    projector_learning_rate: float = flag("Peak rate of the projector (paper).", low=0, default=2e-5)
    train_projector: bool = flag(
        "Train the projector as a whole too (LLaVA).", name="--train-projector/--no-train-projector", default=True
    )
    batch_size: int = flag("Examples per step over all workers (paper: 16 on each of 4 GPUs).", low=1, default=64)
    warmup_ratio: float = flag("Share of steps with a rising rate; then a cosine (paper).", low=0, high=1, default=0.03)
    weight_decay: float = flag("Of AdamW (paper).", low=0, default=0.0)
    lora_rank: int = flag("Rank of the adapter (paper).", low=1, default=128)
    lora_alpha: int = flag("Scale of the adapter times its rank (paper).", low=1, default=256)
    lora_dropout: float = flag("Dropout (LLaVA).", low=0, high=0.99, default=0.05)
    max_length: int = flag("Tokens of prompt and answer (LLaVA).", low=1, default=2048)
    dtype: Literal["bfloat16", "float32"] = flag("Of base weights and computation (paper).", default="bfloat16")
    seed: int = flag("Seed of weights, order and dropout (paper).", low=0, high=4294967295, default=42)
    micro_batch_size: int = flag("Examples per forward pass of a worker: less takes less memory.", low=1, default=16)
    gradient_checkpointing: bool = flag(
        "Compute activations twice instead of holding them (LLaVA).",
        name="--gradient-checkpointing/--no-gradient-checkpointing",
        default=True,
    )
    num_workers: int | None = flag("Workers, one GPU each. [all GPUs of the cluster, or one CPU worker]", low=1)
    eval_every: int | None = flag("Steps between validations. [each epoch]", low=1)
    checkpoint_every: int = flag("Steps between checkpoints.", low=1, default=50)
    skip_bad_rows: bool = flag("Leave out rows that cannot be used, and list them in training.json.", default=False)
    models_file: ModelsFiles = None
    address: Address = None
    json: Json = False
