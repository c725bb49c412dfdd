"""Checkpoints as their publishers lay them out, where vLLM does not load what transformers 5 saves."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

Weights = dict[str, Any]


def as_published(architecture: str, folder: Path, copy: Path) -> Path:
    """Return a copy with the published names and shapes of weights; the folder itself where they are the same."""
    from safetensors.torch import load_file, save_file

    if architecture not in _LAYOUTS:
        return folder
    shutil.copytree(folder, copy)
    weights = _LAYOUTS[architecture](load_file(copy / "model.safetensors"))
    save_file(weights, copy / "model.safetensors", metadata={"format": "pt"})
    return copy


def _nested_tower(weights: Weights) -> Weights:
    saved, published = "vision_tower.", "vision_tower.vision_model."
    return {name.replace(saved, published, 1): weight for name, weight in weights.items()}


def _transposed_experts(weights: Weights) -> Weights:
    """Return the experts' matrices with inputs before outputs; transformers turns them while it loads."""
    return {
        name: weight.transpose(1, 2).contiguous() if ".mlp.experts." in name else weight
        for name, weight in weights.items()
    }


_LAYOUTS: Mapping[str, Callable[[Weights], Weights]] = MappingProxyType(
    {
        "llava": _nested_tower,
        "llava_next": _nested_tower,
        "llava_next_video": _nested_tower,
        "llava_onevision": _nested_tower,
        "granite4_vision": _nested_tower,
        "qwen3_vl_moe": _transposed_experts,
    }
)
