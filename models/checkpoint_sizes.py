"""How large a model is: from its folder's own files where it lies here, else from its entry. Loads no weights."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from models.gpu_memory import Size
from models.spec import ModelSpec, Shape


def size_of(spec: ModelSpec) -> Size | None:
    """The size of a model that runs here; None when neither its folder nor its entry tells."""
    if spec.engine not in ("transformers", "vllm"):
        return None
    folder = Path(spec.model).expanduser()
    if folder.is_dir():
        parameters = sum(_parameters(path) for path in sorted(folder.glob("*.safetensors")))
        if parameters:
            return Size(float(parameters), _shape(folder / "config.json") or spec.shape)
    return Size(spec.parameters_b * 1e9, spec.shape) if spec.parameters_b else None


def _parameters(path: Path) -> int:
    """Numbers in one safetensors file, from the head that names its tensors; 0 when that cannot be read."""
    try:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            head = json.loads(file.read(min(length, 100 << 20)))
        return sum(math.prod(one["shape"]) for name, one in head.items() if name != "__metadata__")
    except (OSError, ValueError, struct.error, KeyError, TypeError, AttributeError):
        return 0


def _shape(path: Path) -> Shape | None:
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        text = next((config[key] for key in ("text_config", "llm_config") if config.get(key)), config)
        return _shape_of(text)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None  # a configuration in other words: the entry's own numbers, or a guess, must do


def _shape_of(text: Mapping[str, Any]) -> Shape:
    heads, hidden = int(text["num_attention_heads"]), int(text["hidden_size"])
    return Shape(
        layers=text["num_hidden_layers"],
        hidden=hidden,
        heads=heads,
        kv_heads=text.get("num_key_value_heads") or heads,
        head_dim=text.get("head_dim") or hidden // heads,
        intermediate=text["intermediate_size"],
        vocab=text["vocab_size"],
    )
