"""Random checkpoints of real architectures with the file formats and token counts of the released models."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from jobs.demo.checkpoint import SENTENCES, qwen2_5_vl_config, train_tokenizer
from tests.support.checkpoints.configs import CONFIGS, SIZES, Size
from tests.support.checkpoints.families import FAMILIES, Family
from tests.support.checkpoints.recent_configs import RECENT_CONFIGS
from tests.support.checkpoints.recent_families import RECENT_FAMILIES

_FAMILIES = {**FAMILIES, **RECENT_FAMILIES}
_CONFIGS = {**CONFIGS, **RECENT_CONFIGS}
ARCHITECTURES: tuple[str, ...] = tuple(_FAMILIES)
"""Names that `build_tiny` accepts."""
RECENT_ARCHITECTURES: tuple[str, ...] = tuple(RECENT_FAMILIES)
"""Those of 2025 and 2026, which no paper used."""

_ZERO_INITIALIZED = ("query_tokens", "mm_input_projection_weight", "_gate", "_img_feature_extensor", "sinks")
"""Weights that start at zero, so that a random model would ignore the pixels."""
_DECAY = "linear_attn.A_log"
_SLOW_DECAY = -4.0
"""Natural logarithm of the decay of linear attention: random values would forget a prompt within a few tokens."""


def build_tiny(
    folder: Path,
    architecture: str = "qwen2_5_vl",
    seed: int = 0,
    size: Size = "tiny",
    *,
    sentences: Iterable[str] = SENTENCES,
) -> Path:
    """Write a random checkpoint with tokenizer, processor and chat template, as `save_pretrained` does.

    Args:
        folder: made if missing; files of the same names are overwritten.
        architecture: one of `ARCHITECTURES`.
        seed: same seed, same weights, with the same version of torch.
        size: `tiny` is about 2 million parameters, `small` about 50 million.
        sentences: text that the tokenizer's merges are learnt from.

    Returns:
        The folder.

    Raises:
        ValueError: unknown architecture or size.
    """
    from transformers.utils import logging as transformers_logging

    if architecture not in _FAMILIES:
        raise ValueError(f"no small checkpoint of {architecture!r}; there are {', '.join(ARCHITECTURES)}")
    if size not in SIZES:
        raise ValueError(f"size {size!r} is not one of {', '.join(SIZES)}")
    family = _FAMILIES[architecture]
    tokenizer = _tokenizer(family, sentences)
    folder.mkdir(parents=True, exist_ok=True)
    if family.processor is None:
        tokenizer.chat_template = family.template
        tokenizer.save_pretrained(folder)
    else:
        more = {"chat_template": family.template} if family.template else {}
        if family.processor.name == "InstructBlipProcessor":
            more["qformer_tokenizer"] = copy.deepcopy(tokenizer)
        family.processor.build(tokenizer=tokenizer, **more).save_pretrained(folder)
    dims = SIZES[size]
    part = None if architecture == "qwen2_5_vl" else _CONFIGS[architecture](dims, tokenizer)
    config = part.build() if part else qwen2_5_vl_config(dims, tokenizer)
    transformers_logging.disable_progress_bar()
    _model(config, tokenizer, seed, reads_images=family.processor is not None).save_pretrained(folder)
    return folder


def _tokenizer(family: Family, sentences: Iterable[str]) -> Any:
    from tokenizers import processors

    tokenizer = train_tokenizer(family.special, sentences)
    if family.prepends_bos:
        bos = family.special["bos_token"]
        tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{bos} $A", special_tokens=[(bos, tokenizer.bos_token_id)]
        )
    return tokenizer


def _model(config: Any, tokenizer: Any, seed: int, *, reads_images: bool) -> Any:
    import torch
    from transformers import AutoModelForCausalLM, AutoModelForImageTextToText, GenerationConfig

    # Phi-4 reads images, but transformers lists it among the language models.
    is_image_text = type(config) in AutoModelForImageTextToText._model_mapping  # there is no public API
    model_class = AutoModelForImageTextToText if reads_images and is_image_text else AutoModelForCausalLM
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(seed)
        model = model_class.from_config(config, dtype=torch.float32)
        for name, weight in model.named_parameters():
            if name.endswith(_ZERO_INITIALIZED):
                torch.nn.init.normal_(weight, std=0.5)
            if name.endswith(_DECAY):
                torch.nn.init.constant_(weight, _SLOW_DECAY)
    model.generation_config = GenerationConfig(
        bos_token_id=tokenizer.bos_token_id, eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id
    )
    return model
