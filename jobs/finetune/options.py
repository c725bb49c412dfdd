"""The options of `finetune`."""

from dataclasses import dataclass
from typing import Annotated, Literal

from jobs.shared.options import Address, Json, ModelsFiles
from pipelines.flags import Argument, Flag


@dataclass(frozen=True, slots=True, kw_only=True)
class FinetuneOptions:
    """Options of `finetune`; defaults are the paper's, those of LLaVA's code where marked, else usual values."""

    benchmark: Annotated[str, Argument("The benchmark whose models are trained: vflute.")]
    variant: Annotated[str, Flag("The paper's model: vf, vf-no-image, evil or evil+vf.")]
    out: Annotated[
        str, Flag("Location of the adapter: a folder that all nodes share, or s3://.", "Output", kind="location")
    ]
    data: Annotated[
        str | None,
        Flag(
            "V-FLUTE as distributed on the hub, with data/train-*.parquet; data/validation-*.parquet select the best "
            "checkpoint. A folder or s3://.",
            "Data",
            kind="location",
        ),
    ] = None
    evil: Annotated[
        str | None, Flag("e-SNLI-VE: a folder or s3:// with esnlive_train.csv and flickr30k_images/.", kind="location")
    ] = None
    model: Annotated[str, Flag("The base model: a name, a hub id or a folder.", "Models", kind="models")] = (
        "llava-1.5-7b"
    )
    epochs: Annotated[int | None, Flag("Epochs. [paper: vf 3, vf-no-image 10, evil 1, evil+vf 2]", low=1)] = None
    learning_rate: Annotated[float, Flag("Peak rate of the adapter (paper).", low=0)] = 2e-5
    projector_learning_rate: Annotated[float, Flag("Peak rate of the projector (paper).", low=0)] = 2e-5
    train_projector: Annotated[
        bool, Flag("Train the projector as a whole too (LLaVA).", name="--train-projector/--no-train-projector")
    ] = True
    batch_size: Annotated[int, Flag("Examples per step over all workers (paper: 16 on each of 4 GPUs).", low=1)] = 64
    warmup_ratio: Annotated[float, Flag("Share of steps with a rising rate; then a cosine (paper).", low=0, high=1)] = (
        0.03
    )
    weight_decay: Annotated[float, Flag("Of AdamW (paper).", low=0)] = 0.0
    lora_rank: Annotated[int, Flag("Rank of the adapter (paper).", low=1)] = 128
    lora_alpha: Annotated[int, Flag("Scale of the adapter times its rank (paper).", low=1)] = 256
    lora_dropout: Annotated[float, Flag("Dropout (LLaVA).", low=0, high=0.99)] = 0.05
    max_length: Annotated[int, Flag("Tokens of prompt and answer (LLaVA).", low=1)] = 2048
    dtype: Annotated[Literal["bfloat16", "float32"], Flag("Of base weights and computation (paper).")] = "bfloat16"
    seed: Annotated[int, Flag("Seed of weights, order and dropout (paper).", low=0, high=4294967295)] = 42
    micro_batch_size: Annotated[int, Flag("Examples per forward pass of a worker: less takes less memory.", low=1)] = 16
    gradient_checkpointing: Annotated[
        bool,
        Flag(
            "Compute activations twice instead of holding them (LLaVA).",
            name="--gradient-checkpointing/--no-gradient-checkpointing",
        ),
    ] = True
    num_workers: Annotated[
        int | None, Flag("Workers, one GPU each. [all GPUs of the cluster, or one CPU worker]", low=1)
    ] = None
    eval_every: Annotated[int | None, Flag("Steps between validations. [each epoch]", low=1)] = None
    checkpoint_every: Annotated[int, Flag("Steps between checkpoints, from which a killed run resumes.", low=1)] = 50
    skip_bad_rows: Annotated[bool, Flag("Leave out rows that cannot be used, and list them in training.json.")] = False
    models_file: ModelsFiles = None
    address: Address = None
    json: Json = False
