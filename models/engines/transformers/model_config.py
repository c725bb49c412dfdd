"""TODO doc."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from models.errors import EngineUnreachableError
from models.spec import ModelSpec


def _source(spec: ModelSpec) -> dict[str, Any]:
    return {
        "pretrained_model_name_or_path": spec.model,
        "revision": spec.revision or "main",
        "trust_remote_code": spec.trust_remote_code,
    }


def _config(spec: ModelSpec) -> Any:
    from transformers import AutoConfig

    folder = Path(spec.model)
    if not folder.is_dir() and (folder.is_absolute() or spec.model.startswith((".", "~"))):
        raise FileNotFoundError(f"there is no folder {spec.model}")
    return AutoConfig.from_pretrained(**_source(spec))


def _sees(config: Any) -> bool:
    """Whether the configuration is of a model that takes pictures."""
    return _listed(config) or getattr(config, "vision_config", None) is not None


def _listed(config: Any) -> bool:
    """Whether the model is found among those that take pictures; Phi-4 is found among the language models."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES

    if config.model_type in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES:
        return True
    return "AutoModelForImageTextToText" in (getattr(config, "auto_map", None) or {})


def empty_model(spec: ModelSpec) -> Any:
    """The model without weights or memory: what it is made of, and how transformers would divide it.

    Raises:
        EngineUnreachableError: its configuration cannot be had.
    """
    from transformers import AutoModelForCausalLM, AutoModelForImageTextToText

    try:
        config = _config(spec)
        maker = AutoModelForImageTextToText if _listed(config) else AutoModelForCausalLM
        with torch.device("meta"):
            return maker.from_config(config, trust_remote_code=spec.trust_remote_code)
    except _LOAD_ERRORS as error:
        raise EngineUnreachableError(_advice(spec, error)) from error


def _load_errors() -> tuple[type[Exception], ...]:
    from safetensors import SafetensorError

    return (OSError, ValueError, ImportError, RuntimeError, KeyError, AttributeError, TypeError, SafetensorError)


_LOAD_ERRORS = _load_errors()
"""Whatever a damaged or foreign checkpoint makes the libraries raise."""


def _advice(spec: ModelSpec, error: Exception) -> str:
    first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    local = Path(spec.model).is_dir()
    if local and not any(Path(spec.model).glob("*.safetensors")):
        what = (
            "the folder holds no *.safetensors, and no other weights are read: convert them where you trust them, with "
            "AutoModel....from_pretrained(folder).save_pretrained(new_folder)"
        )
    elif not spec.trust_remote_code and "custom code" in first:
        what = "code that comes with weights is run only where the entry says trust_remote_code: true; read it first"
    elif local:
        what = "see that the folder is complete: config.json, *.safetensors, tokenizer and processor files"
    elif isinstance(error, FileNotFoundError):
        what = "give an existing folder or a hub id"
    else:
        what = "see that the hub can be reached and the id and revision exist, or give a local folder"
    return f"the model {spec.model} cannot be loaded: {first} ({what})"
