"""Measure a model that is built without weights or memory, from its configuration alone."""

import hashlib
import logging
import math
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

from models.engines.hub import cached_folder
from models.engines.launch import LaunchedModel
from models.entry_fields import Shape
from models.errors import EngineUnreachableError
from models.gpu_memory import ModelSize, model_size
from models.guards.regular_files import read_regular
from models.spec import ModelSpec
from models.weight_headers import gguf_file

_log = logging.getLogger(__name__)


def measured_size(spec: ModelSpec) -> ModelSize | None:
    """Return a model's size from its configuration where this machine has it, else `models.gpu_memory.model_size`.

    The configuration is a local folder's or one that the hub's cache holds; nothing is fetched. Quantized checkpoints
    are measured by their files.
    """
    folder, stored = _config_folder(spec), model_size(spec)
    is_stored = stored is not None and stored.shape is not None and stored.stored_width is not None
    if folder is None or is_stored:  # the second without the seconds that importing torch takes
        return stored
    digest = hashlib.sha256(read_regular(folder / "config.json")).hexdigest()
    return _measure(str(folder), digest, spec.trust_remote_code) or stored


def _config_folder(spec: ModelSpec) -> Path | None:
    if not spec.runs_locally or gguf_file(spec.model) or spec.model.startswith("s3://"):
        return None
    folder = Path(spec.model).expanduser()
    if folder.is_dir():
        return folder if (folder / "config.json").is_file() else None
    if spec.model.count("/") != 1:
        return None
    return cached_folder(spec.model, spec.revision)


@lru_cache(maxsize=64)
def _measure(folder: str, digest: str, trusted: bool) -> ModelSize | None:  # noqa: ARG001, FBT001  a key of the cache
    from accelerate.utils import compute_module_sizes

    from models.engines.transformers.model_config import empty_model

    spec = ModelSpec(engine="transformers", model=folder, trust_remote_code=trusted)
    try:
        model = empty_model(LaunchedModel.as_named(spec))
    except EngineUnreachableError as error:
        _log.info("%s is planned by the size that its files or its entry state: %s", folder, error)
        return None
    if getattr(model.config, "quantization_config", None):
        return None
    model.tie_weights()
    import torch

    weights = compute_module_sizes(model, dtype=torch.int8)  # one byte each: bytes are weights
    sharded = sum(weights[name] for name, _ in model.named_parameters() if _is_sharded(name, model.tp_plan or {}))
    return ModelSize(
        parameters=float(weights[""]),
        shape=_shape(model.config.get_text_config()),
        unsharded=float(weights[""] - sharded),
        stored_width=getattr(model.config.dtype, "itemsize", None),
    )


def _is_sharded(parameter: str, plan: dict[str, str]) -> bool:
    """Return whether transformers' tensor-parallel plan divides a parameter among ranks."""
    name = re.sub(r"\.\d+\.", ".*.", parameter)
    return any("wise" in plan.get(key, "") for key in (name, name.rpartition(".")[0]))


def _shape(text: Any) -> Shape | None:
    """Return the shape of a language model; key heads of several widths count as so many of the mean width."""
    from models.engines.transformers.model_config import heads_of, layer_configs

    layers = [heads_of(layer) for layer in layer_configs(text)]
    queries, keys, _ = layers[0]
    sizes: dict[str, Any] = {
        "layers": len(layers),
        "hidden": getattr(text, "hidden_size", None),
        "heads": queries,
        "kv_heads": keys,
        "head_dim": math.ceil(sum(n * width for _, n, width in layers) / len(layers) / keys),
        "intermediate": getattr(text, "intermediate_size", None),
        "vocab": getattr(text, "vocab_size", None),
    }
    return Shape(**sizes) if all(isinstance(size, int) and size > 0 for size in sizes.values()) else None
