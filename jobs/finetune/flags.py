"""The flags of `finetune`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class FinetuneFlags:
    """Flags of `finetune`; defaults are the paper's, those of LLaVA's code where marked, else usual values."""

    benchmark: str
    variant: str
    out: str
    data: str | None = None
    evil: str | None = None
    model: str = "llava-1.5-7b"
    epochs: int | None = None
    learning_rate: float = 2e-5
    projector_learning_rate: float = 2e-5
    train_projector: bool = True
    batch_size: int = 64
    warmup_ratio: float = 0.03
    weight_decay: float = 0.0
    lora_rank: int = 128
    lora_alpha: int = 256
    lora_dropout: float = 0.05
    max_length: int = 2048
    dtype: Literal["bfloat16", "float32"] = "bfloat16"
    seed: int = 42
    micro_batch_size: int = 16
    gradient_checkpointing: bool = True
    num_workers: int | None = None
    eval_every: int | None = None
    checkpoint_every: int = 50
    skip_bad_rows: bool = False
    models_file: list[Path] | None = None
    address: str | None = None
    json: bool = False
