"""The model's parts: tokenizer, network, and the folder that `transformers` loads."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from jobs.demo.checkpoint import QWEN_TOKENS, SENTENCES, Dimensions, processor, qwen2_5_vl_config, train_tokenizer
from pipelines.benchmarks.mate.scene import COLORS, SHAPES
from tests.tools.demo_model.scenes import HEIGHT, WIDTH

DIMENSIONS: Final = Dimensions(
    hidden=192,
    layers=5,
    heads=6,
    kv_heads=3,
    inner=512,
    vision_hidden=128,
    vision_layers=3,
    vision_heads=4,
    vision_inner=320,
)
_WEIGHT: Final = 40
"""Times that the tokenizer reads the benchmark's words, so that each color and shape becomes one token."""


def make_tokenizer(prompts: Iterable[str]) -> Any:
    """Train the tokenizer on everyday sentences, the benchmark's words and some of its `prompts`."""
    words = [f'"{word}" {word.title()}, {word.upper()}' for word in COLORS + SHAPES]
    pairs = [f"the {color} object. the {shape}. {color}, {shape}." for color in COLORS for shape in SHAPES]
    return train_tokenizer(QWEN_TOKENS, [*SENTENCES, *([*words, *pairs, *prompts] * _WEIGHT)])


def make_model(tokenizer: Any, seed: int) -> Any:
    """Make the network with random weights; every layer of its vision tower attends to the whole picture."""
    import torch
    from transformers import AutoModelForImageTextToText

    config = qwen2_5_vl_config(DIMENSIONS, tokenizer)
    config.vision_config.fullatt_block_indexes = list(range(DIMENSIONS.vision_layers))
    torch.manual_seed(seed)
    return AutoModelForImageTextToText.from_config(config, dtype=torch.float32)


def load(folder: Path) -> tuple[Any, Any]:
    """Load a model in float32, and its tokenizer."""
    import torch
    from transformers import AutoModelForImageTextToText, AutoTokenizer

    model = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32)
    return model, AutoTokenizer.from_pretrained(folder)


def save(model: Any, tokenizer: Any, folder: Path) -> None:
    """Write the model in bfloat16 with tokenizer, processor and chat template."""
    import torch
    from transformers import GenerationConfig

    folder.mkdir(parents=True, exist_ok=True)
    processor(tokenizer, most_pixels=WIDTH * HEIGHT).save_pretrained(folder)
    model.generation_config = GenerationConfig(
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    copy.deepcopy(model).to(torch.bfloat16).save_pretrained(folder)
