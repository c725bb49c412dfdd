"""Sizes and configurations of small checkpoints, by architecture."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from jobs.demo.checkpoint import TINY, Dimensions, mrope_parameters, qwen2_5_vl_config, qwen_token_ids, text_config

Size: TypeAlias = Literal["tiny", "small"]


SIZES: Mapping[Size, Dimensions] = MappingProxyType(
    {
        "tiny": TINY,
        "small": Dimensions(
            hidden=512,
            layers=12,
            heads=8,
            kv_heads=2,
            inner=1664,
            vision_hidden=320,
            vision_layers=8,
            vision_heads=8,
            vision_inner=896,
        ),
    }
)


CLIP_SIDE = 112
SIGLIP_SIDE = 56
"""Pixels on the side of a picture, or of a part of one, that the small towers see."""


def vision_config(dims: Dimensions, **more: Any) -> dict[str, Any]:
    """Return a vision tower, by the names that CLIP's configuration uses."""
    return {
        "hidden_size": dims.vision_hidden,
        "intermediate_size": dims.vision_inner,
        "num_hidden_layers": dims.vision_layers,
        "num_attention_heads": dims.vision_heads,
        "initializer_range": float(dims.vision_hidden**-0.5),
        **more,
    }


def _qwen2_vl(dims: Dimensions, tokenizer: Any) -> Any:
    from transformers import Qwen2VLConfig

    vision = {
        "depth": dims.vision_layers,
        "embed_dim": dims.vision_hidden,
        "hidden_size": dims.hidden,
        "mlp_ratio": 2,
        "num_heads": dims.vision_heads,
        "initializer_range": float(dims.vision_hidden**-0.5),
    }
    return Qwen2VLConfig(
        text_config=text_config(dims, tokenizer, rope_parameters=mrope_parameters(dims)),
        vision_config=vision,
        **qwen_token_ids(tokenizer),
    )


def _llava(dims: Dimensions, tokenizer: Any) -> Any:
    from transformers import LlavaConfig

    return LlavaConfig(
        text_config={"model_type": "llama", **text_config(dims, tokenizer)},
        vision_config=clip_config(dims),
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
        image_seq_length=(CLIP_SIDE // 14) ** 2,
    )


def _llava_next(dims: Dimensions, tokenizer: Any) -> Any:
    from transformers import LlavaNextConfig

    return LlavaNextConfig(
        text_config={"model_type": "llama", **text_config(dims, tokenizer)},
        vision_config=clip_config(dims),
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
        image_seq_length=(CLIP_SIDE // 14) ** 2,
        image_grid_pinpoints=pinpoints(CLIP_SIDE),
    )


def clip_config(dims: Dimensions) -> dict[str, Any]:
    """Return a CLIP tower for pictures of `CLIP_SIDE`."""
    return {
        "model_type": "clip_vision_model",
        **vision_config(dims, image_size=CLIP_SIDE, patch_size=14, projection_dim=dims.vision_hidden),
    }


def pinpoints(side: int) -> list[list[int]]:
    """Return the grids (height, width) that a picture is tiled in: side by side, stacked, two by two."""
    return [[side, 2 * side], [2 * side, side], [2 * side, 2 * side]]


def _llava_onevision(dims: Dimensions, tokenizer: Any) -> Any:
    from transformers import LlavaOnevisionConfig

    vision = vision_config(dims, image_size=SIGLIP_SIDE, patch_size=14, vision_use_head=False)
    return LlavaOnevisionConfig(
        text_config={"model_type": "qwen2", **text_config(dims, tokenizer)},
        vision_config={"model_type": "siglip_vision_model", **vision},
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
        video_token_index=tokenizer.convert_tokens_to_ids("<video>"),
        image_grid_pinpoints=pinpoints(SIGLIP_SIDE),
    )


def _internvl(dims: Dimensions, tokenizer: Any) -> Any:
    from transformers import InternVLConfig

    return InternVLConfig(
        text_config={"model_type": "qwen2", **text_config(dims, tokenizer)},
        vision_config=vision_config(dims, image_size=SIGLIP_SIDE, patch_size=14),
        image_token_id=tokenizer.convert_tokens_to_ids("<IMG_CONTEXT>"),
        image_seq_length=(SIGLIP_SIDE // 28) ** 2,
        tie_word_embeddings=False,
    )


def _idefics3(dims: Dimensions, tokenizer: Any) -> Any:
    from transformers import Idefics3Config

    return Idefics3Config(
        text_config={"model_type": "llama", **text_config(dims, tokenizer)},
        vision_config=vision_config(dims, image_size=SIGLIP_SIDE, patch_size=14),
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
        scale_factor=2,
        pad_token_id=tokenizer.pad_token_id,
    )


def _llama(dims: Dimensions, tokenizer: Any) -> Any:
    from transformers import LlamaConfig

    return LlamaConfig(**text_config(dims, tokenizer))


CONFIGS: Mapping[str, Callable[[Dimensions, Any], Any]] = MappingProxyType(
    {
        "qwen2_5_vl": qwen2_5_vl_config,
        "qwen2_vl": _qwen2_vl,
        "llava": _llava,
        "llava_next": _llava_next,
        "llava_onevision": _llava_onevision,
        "internvl": _internvl,
        "idefics3": _idefics3,
        "llama": _llama,
    }
)
"""(dimensions, tokenizer) -> configuration of the whole model; `more_configs` has further ones."""
