"""The flags of `finetune`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from typer import Argument, Option

from jobs.flags import Json, ModelsFiles, RayAddress


@dataclass(frozen=True, slots=True, kw_only=True)
class FinetuneFlags:
    """Flags of `finetune`; defaults are the paper's, those of LLaVA's code where marked, else usual values."""

    benchmark: Annotated[str, Argument(help="The benchmark whose models are trained: vflute.")]
    variant: Annotated[str, Option("--variant", help="The paper's model: vf, vf-no-image, evil or evil+vf.")]
    out: Annotated[str, Option("--out", help="Location of the adapter: a folder that all nodes share, or s3://.")]
    data: Annotated[
        str | None,
        Option(
            "--data",
            help="V-FLUTE as distributed on the hub, with data/train-*.parquet; data/validation-*.parquet select the "
            "best checkpoint. A folder or s3://.",
        ),
    ] = None
    evil: Annotated[
        str | None,
        Option("--evil", help="e-SNLI-VE: a folder or s3:// with esnlive_train.csv and flickr30k_images/."),
    ] = None
    model: Annotated[str, Option("--model", help="The base model, by name.")] = "llava-1.5-7b"
    epochs: Annotated[
        int | None,
        Option("--epochs", min=1, help="Epochs. [paper: vf 3, vf-no-image 10, evil 1, evil+vf 2]", show_default=False),
    ] = None
    learning_rate: Annotated[float, Option("--learning-rate", min=0, help="Peak rate of the adapter (paper).")] = 2e-5
    projector_learning_rate: Annotated[
        float, Option("--projector-learning-rate", min=0, help="Peak rate of the projector (paper).")
    ] = 2e-5
    train_projector: Annotated[
        bool, Option("--train-projector/--no-train-projector", help="Train the projector as a whole too (LLaVA).")
    ] = True
    batch_size: Annotated[
        int, Option("--batch-size", min=1, help="Examples per step over all workers (paper: 16 on each of 4 GPUs).")
    ] = 64
    warmup_ratio: Annotated[
        float, Option("--warmup-ratio", min=0, max=1, help="Share of steps with a rising rate; then a cosine (paper).")
    ] = 0.03
    weight_decay: Annotated[float, Option("--weight-decay", min=0, help="Of AdamW (paper).")] = 0.0
    lora_rank: Annotated[int, Option("--lora-rank", min=1, help="Rank of the adapter (paper).")] = 128
    lora_alpha: Annotated[int, Option("--lora-alpha", min=1, help="Scale of the adapter times its rank (paper).")] = 256
    lora_dropout: Annotated[float, Option("--lora-dropout", min=0, max=0.99, help="Dropout (LLaVA).")] = 0.05
    max_length: Annotated[int, Option("--max-length", min=1, help="Tokens of prompt and answer (LLaVA).")] = 2048
    dtype: Annotated[
        Literal["bfloat16", "float32"], Option("--dtype", help="Of base weights and computation (paper).")
    ] = "bfloat16"
    seed: Annotated[int, Option("--seed", help="Seed of weights, order and dropout (paper).")] = 42
    micro_batch_size: Annotated[
        int, Option("--micro-batch-size", min=1, help="Examples per forward pass of a worker: less takes less memory.")
    ] = 16
    gradient_checkpointing: Annotated[
        bool,
        Option(
            "--gradient-checkpointing/--no-gradient-checkpointing",
            help="Compute activations twice instead of holding them (LLaVA).",
        ),
    ] = True
    num_workers: Annotated[
        int | None,
        Option("--num-workers", min=1, help="Workers, one GPU each. [all GPUs of the cluster, or one CPU worker]"),
    ] = None
    eval_every: Annotated[int | None, Option("--eval-every", min=1, help="Steps between validations. [each epoch]")] = (
        None
    )
    checkpoint_every: Annotated[
        int, Option("--checkpoint-every", min=1, help="Steps between checkpoints, from which a killed run resumes.")
    ] = 50
    skip_bad_rows: Annotated[
        bool, Option("--skip-bad-rows", help="Leave out rows that cannot be used, and list them in training.json.")
    ] = False
    models_file: ModelsFiles = None
    address: RayAddress = None
    json: Json = False
