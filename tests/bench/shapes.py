"""Models of published sizes with random weights, made on their device: no checkpoint of full size is ever written.

All have Qwen2.5-VL's architecture, and the small checkpoint's tokenizer and processor; the vocabulary is full-sized.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from models.engines.transformers.engine import TransformersEngine
from models.entry_fields import Shape
from models.gpu_memory import ModelSize, memory_need
from models.spec import ModelSpec
from tests.support.checkpoints import build_tiny

VOCAB = 152_064
HEAD_WIDTH = 128
SHAPES: dict[str, dict[str, int]] = {
    "2b": {"layers": 28, "hidden": 1536, "inner": 8960, "heads": 12, "kv_heads": 2, "vision_inner": 3420},
    "7b": {"layers": 28, "hidden": 3584, "inner": 18_944, "heads": 28, "kv_heads": 4, "vision_inner": 3420},
    "72b": {"layers": 80, "hidden": 8192, "inner": 29_568, "heads": 64, "kv_heads": 8, "vision_inner": 3456},
}
"""As published for Qwen2-VL 2B (whose embeddings are tied, unlike here) and Qwen2.5-VL 7B and 72B."""
DEGREES = (1, 2, 4, 8)


def write_config(folder: Path, shape: str) -> Any:
    """Write the small checkpoint, with the configuration of a shape; return that configuration."""
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(build_tiny(folder, "qwen2_5_vl"))
    if shape == "tiny":
        return config
    numbers = SHAPES[shape]
    text = {
        "vocab_size": VOCAB,
        "num_hidden_layers": numbers["layers"],
        "hidden_size": numbers["hidden"],
        "intermediate_size": numbers["inner"],
        "num_attention_heads": numbers["heads"],
        "num_key_value_heads": numbers["kv_heads"],
        "max_position_embeddings": 128_000,
        "layer_types": ["full_attention"] * numbers["layers"],
    }
    vision = {
        "depth": 32,
        "hidden_size": 1280,
        "intermediate_size": numbers["vision_inner"],
        "num_heads": 16,
        "out_hidden_size": numbers["hidden"],
        "fullatt_block_indexes": [7, 15, 23, 31],
        "window_size": 112,
    }
    for part, values in ((config.text_config, text), (config.vision_config, vision)):
        for name, value in values.items():
            setattr(part, name, value)
    for name in ("rope_parameters", "rope_scaling"):
        rope = getattr(config.text_config, name, None)
        if isinstance(rope, dict) and "mrope_section" in rope:
            rope["mrope_section"] = [HEAD_WIDTH // 8, HEAD_WIDTH * 3 // 16, HEAD_WIDTH * 3 // 16]
    config.save_pretrained(folder)
    return config


def random_model(config: Any, device: str, dtype: str) -> Any:
    """Return a model with random weights on a device; on `meta`, with shapes alone."""
    from transformers import AutoModelForImageTextToText

    torch.manual_seed(0)
    with torch.device(device):
        return AutoModelForImageTextToText.from_config(config, dtype=getattr(torch, dtype))


@contextmanager
def engine_on(model: Any, spec: ModelSpec) -> Iterator[TransformersEngine]:
    """Build the engine as for a checkpoint, with a model that is loaded already; several engines may share one."""
    with mock.patch("models.engines.transformers.checkpoint._load_weights", return_value=model):
        engine = TransformersEngine(spec)
    try:
        yield engine
    finally:
        engine.close()


def rank_bytes(model: Any, degree: int) -> int:
    """Return the bytes of weights that one of `degree` ranks holds by transformers' own tensor-parallel plan."""
    total = 0
    for name, weight in model.named_parameters():
        module, _, kind = re.sub(r"\.\d+\.", ".*.", name).rpartition(".")
        style = next((style for pattern, style in model.tp_plan.items() if module.endswith(pattern)), None)
        is_whole = style is None or (kind == "bias" and "rowwise" in style)
        total += weight.nbytes // (1 if is_whole else degree)
    return total


def memory_by_degree(config: Any, dtype: str) -> dict[str, Any]:
    """Return a model's size, and what each rank holds by the plan and by the product's estimate, from shapes alone."""
    model = random_model(config, "meta", dtype)
    parameters = sum(weight.numel() for weight in model.parameters())
    text = config.text_config
    shape = Shape(
        layers=text.num_hidden_layers,
        hidden=text.hidden_size,
        heads=text.num_attention_heads,
        kv_heads=text.num_key_value_heads,
        head_dim=text.hidden_size // text.num_attention_heads,
        intermediate=text.intermediate_size,
        vocab=text.vocab_size,
    )
    spec = ModelSpec(engine="transformers", model="random", dtype=dtype)
    ranks = {}
    for degree in DEGREES:
        need, planned = memory_need(spec, ModelSize(float(parameters), shape), degree), rank_bytes(model, degree)
        ranks[str(degree)] = {
            "weights_by_plan": planned,
            "weights_estimated": need.weights,
            "estimate_over_plan": need.weights / planned,
            "cache_per_token": need.cache_per_token,
            "without_cache": need.without_cache,
        }
    return {"parameters": parameters, "shape": shape.model_dump(), "ranks": ranks}
