"""Build a checked `FinetuneSpec` from options."""

import sys
from dataclasses import fields
from pathlib import Path
from typing import Final

from jobs.finetune.checkpoints import VARIANTS, FinetuneSpec, Variant
from jobs.finetune.options import FinetuneOptions, MemorySettings, TrainingSettings
from jobs.shared.model_checks import ModelChecks, named_model, refuse_unable
from jobs.shared.spec_builder import checked_location
from models.environment import ray_address
from models.spec import ModelSpec
from pipelines.benchmarks import unknown_name
from pipelines.errors import UsageError

_WITHOUT_FLAG: Final = frozenset(("max_grad_norm", "adam_betas", "adam_epsilon"))


def build_finetune_spec(options: FinetuneOptions) -> FinetuneSpec:
    """Build the spec.

    Raises:
        UsageError: a name is unknown, a source is missing, or the model cannot be fine-tuned.
    """
    if options.benchmark != "vflute":
        raise unknown_name("benchmark to fine-tune for", options.benchmark, ["vflute"])
    if options.variant not in VARIANTS:
        raise unknown_name("variant", options.variant, list(VARIANTS))
    variant = VARIANTS[options.variant]
    _check_sources(options, variant)
    name, entry = named_model(options.model, options.models_file or [], "--model")
    model = _base(name, entry, options)
    refuse_unable({name: entry}, ModelChecks(place="here"))
    return FinetuneSpec(
        variant=variant,
        model_name=name,
        model=model,
        settings=_settings(options, variant),
        memory=MemorySettings(
            micro_batch_size=options.micro_batch_size, gradient_checkpointing=options.gradient_checkpointing
        ),
        data=checked_location(options.data, "--data") if options.data else None,
        evil=checked_location(options.evil, "--evil") if options.evil else None,
        out=checked_location(options.out, "--out"),
        workers=options.num_workers,
        skip_bad_rows=options.skip_bad_rows,
        eval_every=options.eval_every,
        checkpoint_every=options.checkpoint_every,
        address=options.address or ray_address(),
        command=tuple(sys.argv),
    )


def _settings(options: FinetuneOptions, variant: Variant) -> TrainingSettings:
    names = {field.name for field in fields(TrainingSettings)} - _WITHOUT_FLAG
    given = {name: getattr(options, name) for name in names}
    return TrainingSettings(**{**given, "epochs": options.epochs or variant.epochs})


def _check_sources(options: FinetuneOptions, variant: Variant) -> None:
    if variant.vflute and not options.data:
        raise UsageError(
            f"--variant {variant.name} needs --data: the folder of V-FLUTE with data/train-*.parquet, from "
            "huggingface.co/datasets/ColumbiaNLP/V-FLUTE"
        )
    if variant.evil and not options.evil:
        raise UsageError(
            f"--variant {variant.name} needs --evil: a folder with esnlive_train.csv (github.com/maximek3/e-ViL) and "
            "Flickr30k's pictures in flickr30k_images/"
        )
    if options.evil and not variant.evil:
        raise UsageError(
            f"--evil: the variant {variant.name} is not trained on e-SNLI-VE; leave it out, or take evil+vf"
        )


def _base(name: str, model: ModelSpec, options: FinetuneOptions) -> ModelSpec:
    """Return the entry as it is loaded for training; UsageError if it has no weights here or is tuned already."""
    if not model.runs_locally:
        raise UsageError(f"--model {name}: only models with weights on this machine or the hub can be fine-tuned")
    if model.adapter:
        raise UsageError(f"--model {name} has an adapter already; name its base model")
    if model.tensor_parallel > 1:
        raise UsageError(
            f"--model {name} is set to {model.tensor_parallel} GPUs a replica; a model is fine-tuned whole on each "
            "GPU: take a smaller one, or set tensor_parallel: 1 in a models file where it fits"
        )
    folder = Path(model.model).expanduser()
    path = str(folder.absolute()) if folder.is_dir() else model.model  # workers have another working directory
    return model.with_engine("transformers", model=path, dtype=options.dtype, offload=False)
