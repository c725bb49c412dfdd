"""A model's configuration before its weights are loaded, and errors of the libraries with a remedy."""

from typing import Any

from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError

from models.checkpoints.problems import PICKLES_REFUSED
from models.engines.launch import LaunchedModel
from models.errors import EngineUnreachableError
from models.fingerprint import is_plain_path

ATTENTION_LAYERS = frozenset({"full_attention", "sliding_attention", "chunked_attention"})
"""Layers whose keys and values are all that a prefix leaves."""
STATE_LAYERS = frozenset({"linear_attention", "conv"})  # layers whose state of fixed size is all that a prefix leaves

_PYTHON_ERRORS = (OSError, ValueError, ImportError, RuntimeError, LookupError, AttributeError, TypeError)
LOAD_ERRORS = (*_PYTHON_ERRORS, ArithmeticError, AssertionError, SafetensorError, StrictDataclassError)
"""Everything that a damaged or foreign checkpoint makes the libraries raise."""


def pretrained_arguments(model: LaunchedModel) -> dict[str, Any]:
    """Return the arguments that every `from_pretrained` of a model takes."""
    return {
        "pretrained_model_name_or_path": model.source,
        "revision": model.spec.revision or "main",
        "trust_remote_code": model.spec.trust_remote_code,
    }


def load_config(model: LaunchedModel) -> Any:
    """Load the configuration; `FileNotFoundError` if the source looks like a local folder and is missing."""
    from transformers import AutoConfig

    if model.folder is None and is_plain_path(model.source):
        raise FileNotFoundError(f"there is no folder {model.source}")
    return AutoConfig.from_pretrained(**pretrained_arguments(model))


def takes_pictures(config: Any) -> bool:
    """Return whether the configuration is of a model that takes pictures."""
    return is_image_text_model(config) or getattr(config, "vision_config", None) is not None


def is_image_text_model(config: Any) -> bool:
    """Return whether transformers lists the model as image-text-to-text; it lists Phi-4 as a language model."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES

    if config.model_type in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES:
        return True
    return "AutoModelForImageTextToText" in (getattr(config, "auto_map", None) or {})


def layer_configs(text: Any) -> list[Any]:
    """Return the configuration of each layer of a language model: in Gemma 4 the width of heads differs."""
    if getattr(text, "is_heterogeneous", False):
        return list(text.per_layer_config[:])
    return [text] * (getattr(text, "num_hidden_layers", None) or 32)


def key_sources(text: Any) -> dict[int, int]:
    """Return for each layer that reuses the keys and values of an earlier one which: the last of its kind."""
    modes = getattr(text, "kv_sharing_modes", None) or ()
    kinds = layer_kinds(text)
    stores = {kinds[layer]: layer for layer, mode in enumerate(modes) if mode == "store"}
    return {layer: stores[kinds[layer]] for layer, mode in enumerate(modes) if mode == "reuse"}


def layer_kinds(text: Any) -> tuple[str, ...]:
    """Return the kind of each layer of a language model; nothing where its configuration names none."""
    return tuple(getattr(text, "layer_types", None) or ())


def heads_of(layer: Any) -> tuple[int, int, int]:
    """Return a layer's query heads, key heads and their width; (1, 1, 4096) where its configuration names none."""
    queries = getattr(layer, "num_attention_heads", None) or 1
    keys = getattr(layer, "num_key_value_heads", None) or queries
    return queries, keys, getattr(layer, "head_dim", None) or (getattr(layer, "hidden_size", None) or 4096) // queries


def empty_model(model: LaunchedModel) -> Any:
    """Return the model without weights or memory: its modules, and transformers' tensor-parallel plan."""
    from accelerate import init_empty_weights
    from transformers import AutoModelForCausalLM, AutoModelForImageTextToText

    try:
        config = load_config(model)
        auto_class = AutoModelForImageTextToText if is_image_text_model(config) else AutoModelForCausalLM
        with init_empty_weights(include_buffers=True):
            return auto_class.from_config(config, trust_remote_code=model.spec.trust_remote_code)
    except LOAD_ERRORS as error:
        raise unreachable_error(model, error) from error


def unreachable_error(model: LaunchedModel, error: Exception) -> EngineUnreachableError:
    """Return the error for a model that cannot be loaded: cause and remedy."""
    first_line = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    first_line, advice, _ = first_line.partition(" Please do not set `use_safetensors")  # no entry can set that
    if advice:
        remedy = f"the checkpoint holds no *.safetensors, and {PICKLES_REFUSED}"
    elif not model.spec.trust_remote_code and "custom code" in first_line:
        remedy = "code that comes with weights is run only where the entry says trust_remote_code: true; read it first"
    elif isinstance(error, ImportError):
        remedy = "install it where the model runs; what SmolVLM needs is in vlmsweep[smolvlm]"
    elif model.folder:
        remedy = "check that the folder is complete: config.json, *.safetensors, tokenizer and processor files"
    elif isinstance(error, FileNotFoundError):
        remedy = "give an existing folder or a hub id"
    else:
        remedy = "check that the hub is reachable and the id and revision exist, or give a local folder"
        if "/" not in model.source:
            remedy = (
                f"no folder {model.source} is beside the models file or in the working directory; for a hub id {remedy}"
            )
    return EngineUnreachableError(f"the model {model.source} cannot be loaded: {first_line} ({remedy})")
