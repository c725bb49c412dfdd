"""Insert trainable low-rank layers into a model, and write them as an adapter of PEFT."""

import re
from pathlib import Path
from typing import Any, Final

import torch

from jobs.finetune.settings import TrainingSettings
from models.errors import TrainingStateError
from models.scratch import scratch

_PROJECTORS: Final = ("multi_modal_projector", "merger", "connector")
"""Names of the modules between vision tower and language model: LLaVA and InternVL, Qwen-VL, Idefics."""
_FILES: Final = ("adapter_config.json", "adapter_model.safetensors")


def add_lora(model: Any, settings: TrainingSettings) -> Any:
    """Freeze a model and insert trainable layers in float32; return the `PeftModel`.

    As in LLaVA's code these are low-rank layers at every linear layer of the language model, and the projector as a
    whole. The initial weights are a function of the seed.

    Raises:
        TrainingStateError: no linear layers are found.
    """
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(
        r=settings.lora_rank,
        lora_alpha=settings.lora_alpha,
        lora_dropout=settings.lora_dropout,
        target_modules=_language_layers(model),
        modules_to_save=projector_names(model) if settings.train_projector else None,
    )
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(settings.seed)
        tuned = get_peft_model(model, config)
    for parameter in tuned.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.float()  # the projector's copy has the dtype of the base
    return tuned


def projector_names(model: Any) -> list[str]:
    """Return the last part of the names of the model's projectors."""
    names = {name.rpartition(".")[2] for name, _ in model.named_modules()}
    return [name for name in _PROJECTORS if name in names]


def is_projector(parameter: str) -> bool:
    """Return whether a parameter, by its full name, belongs to a projector."""
    return any(name in parameter.split(".") for name in _PROJECTORS)


def adapter_files(tuned: Any, base: str, revision: str | None) -> dict[str, bytes]:
    """Return file name -> content of the adapter's folder; `base` is the name of the base model that it states."""
    config = tuned.peft_config["default"]
    config.base_model_name_or_path, config.revision = base, revision
    with scratch() as folder:
        tuned.save_pretrained(folder, save_embedding_layers=False)  # "auto" asks the hub about the base
        return {name: Path(folder, name).read_bytes() for name in _FILES}


def _language_layers(model: Any) -> str:
    """Return a pattern of the full names of all linear layers of the language model but its head."""
    decoder = model.get_decoder()
    prefix = next(name for name, module in model.named_modules() if module is decoder)
    linear = [name for name, module in decoder.named_modules() if isinstance(module, torch.nn.Linear)]
    if not linear:
        raise TrainingStateError(f"{type(model).__name__}: no linear layers in its language model to fine-tune")
    last_parts = sorted({re.escape(name.rpartition(".")[2]) for name in linear})
    return rf"{re.escape(prefix)}\..*\.({'|'.join(last_parts)})"
