"""Sizes and configurations of small checkpoints, by architecture."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

Size: TypeAlias = Literal["tiny", "small"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """Widths and depths of one size."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    inner: int
    vision_hidden: int
    vision_layers: int
    vision_heads: int
    vision_inner: int

    @property
    def spread(self) -> float:
        """Standard deviation of the language weights that keeps the signal's size from layer to layer.

        With the usual 0.02 a narrow random model looks at hardly anything but its last token.
        """
        return float(self.hidden**-0.5)


SIZES: Mapping[Size, Measures] = MappingProxyType(
    {
        "tiny": Measures(
            hidden=128,
            layers=6,
            heads=4,
            kv_heads=2,
            inner=448,
            vision_hidden=64,
            vision_layers=3,
            vision_heads=4,
            vision_inner=128,
        ),
        "small": Measures(
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
_CONTEXT = 32_768
"""Tokens: room for 32 frames with every family."""


def text(m: Measures, tokenizer: Any, **more: Any) -> dict[str, Any]:
    """The language half, by the names that Llama's configuration uses."""
    return {
        "vocab_size": len(tokenizer),
        "hidden_size": m.hidden,
        "intermediate_size": m.inner,
        "num_hidden_layers": m.layers,
        "num_attention_heads": m.heads,
        "num_key_value_heads": m.kv_heads,
        "max_position_embeddings": _CONTEXT,
        "initializer_range": m.spread,
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
        "tie_word_embeddings": False,
        **more,
    }


def tower(m: Measures, **more: Any) -> dict[str, Any]:
    """A vision tower, by the names that CLIP's configuration uses."""
    return {
        "hidden_size": m.vision_hidden,
        "intermediate_size": m.vision_inner,
        "num_hidden_layers": m.vision_layers,
        "num_attention_heads": m.vision_heads,
        "initializer_range": float(m.vision_hidden**-0.5),
        **more,
    }


def _mrope(m: Measures) -> dict[str, Any]:
    """A quarter of the rotary pairs for time, the rest shared by height and width, as in the released models."""
    pairs = m.hidden // m.heads // 2
    side = pairs * 3 // 8
    return {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [pairs - 2 * side, side, side]}


def _qwen2_5_vl(m: Measures, tokenizer: Any) -> Any:
    from transformers import Qwen2_5_VLConfig

    vision = {
        "depth": m.vision_layers,
        "hidden_size": m.vision_hidden,
        "intermediate_size": m.vision_inner,
        "num_heads": m.vision_heads,
        "out_hidden_size": m.hidden,
        "fullatt_block_indexes": [m.vision_layers - 1],
        "initializer_range": float(m.vision_hidden**-0.5),
    }
    return Qwen2_5_VLConfig(
        text_config=text(m, tokenizer, rope_parameters=_mrope(m)),
        vision_config=vision,
        **qwen_ids(tokenizer),
    )


def _qwen2_vl(m: Measures, tokenizer: Any) -> Any:
    from transformers import Qwen2VLConfig

    vision = {
        "depth": m.vision_layers,
        "embed_dim": m.vision_hidden,
        "hidden_size": m.hidden,
        "mlp_ratio": 2,
        "num_heads": m.vision_heads,
        "initializer_range": float(m.vision_hidden**-0.5),
    }
    return Qwen2VLConfig(
        text_config=text(m, tokenizer, rope_parameters=_mrope(m)),
        vision_config=vision,
        **qwen_ids(tokenizer),
    )


def qwen_ids(tokenizer: Any) -> dict[str, int]:
    """The tokens around and under pixels in the Qwen-VL family."""
    return {
        "image_token_id": tokenizer.convert_tokens_to_ids("<|image_pad|>"),
        "video_token_id": tokenizer.convert_tokens_to_ids("<|video_pad|>"),
        "vision_start_token_id": tokenizer.convert_tokens_to_ids("<|vision_start|>"),
        "vision_end_token_id": tokenizer.convert_tokens_to_ids("<|vision_end|>"),
    }


def _llava(m: Measures, tokenizer: Any) -> Any:
    from transformers import LlavaConfig

    return LlavaConfig(
        text_config={"model_type": "llama", **text(m, tokenizer)},
        vision_config=clip(m),
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
        image_seq_length=(CLIP_SIDE // 14) ** 2,
    )


def _llava_next(m: Measures, tokenizer: Any) -> Any:
    from transformers import LlavaNextConfig

    return LlavaNextConfig(
        text_config={"model_type": "llama", **text(m, tokenizer)},
        vision_config=clip(m),
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
        image_seq_length=(CLIP_SIDE // 14) ** 2,
        image_grid_pinpoints=pinpoints(CLIP_SIDE),
    )


def clip(m: Measures) -> dict[str, Any]:
    """A CLIP tower for pictures of `CLIP_SIDE`."""
    return {
        "model_type": "clip_vision_model",
        **tower(m, image_size=CLIP_SIDE, patch_size=14, projection_dim=m.vision_hidden),
    }


def pinpoints(side: int) -> list[list[int]]:
    """Sizes (height, width) that a picture is cut into parts of: side by side, one above the other, two by two."""
    return [[side, 2 * side], [2 * side, side], [2 * side, 2 * side]]


def _llava_onevision(m: Measures, tokenizer: Any) -> Any:
    from transformers import LlavaOnevisionConfig

    vision = tower(m, image_size=SIGLIP_SIDE, patch_size=14, vision_use_head=False)
    return LlavaOnevisionConfig(
        text_config={"model_type": "qwen2", **text(m, tokenizer)},
        vision_config={"model_type": "siglip_vision_model", **vision},
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
        video_token_index=tokenizer.convert_tokens_to_ids("<video>"),
        image_grid_pinpoints=pinpoints(SIGLIP_SIDE),
    )


def _internvl(m: Measures, tokenizer: Any) -> Any:
    from transformers import InternVLConfig

    return InternVLConfig(
        text_config={"model_type": "qwen2", **text(m, tokenizer)},
        vision_config=tower(m, image_size=SIGLIP_SIDE, patch_size=14),
        image_token_id=tokenizer.convert_tokens_to_ids("<IMG_CONTEXT>"),
        image_seq_length=(SIGLIP_SIDE // 28) ** 2,
        tie_word_embeddings=False,
    )


def _idefics3(m: Measures, tokenizer: Any) -> Any:
    from transformers import Idefics3Config

    return Idefics3Config(
        text_config={"model_type": "llama", **text(m, tokenizer)},
        vision_config=tower(m, image_size=SIGLIP_SIDE, patch_size=14),
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
        scale_factor=2,
        pad_token_id=tokenizer.pad_token_id,
    )


def _llama(m: Measures, tokenizer: Any) -> Any:
    from transformers import LlamaConfig

    return LlamaConfig(**text(m, tokenizer))


CONFIGS: Mapping[str, Callable[[Measures, Any], Any]] = MappingProxyType(
    {
        "qwen2_5_vl": _qwen2_5_vl,
        "qwen2_vl": _qwen2_vl,
        "llava": _llava,
        "llava_next": _llava_next,
        "llava_onevision": _llava_onevision,
        "internvl": _internvl,
        "idefics3": _idefics3,
        "llama": _llama,
    }
)
"""(measures, tokenizer) -> configuration of the whole model; `tiny_more_configs` has further ones."""
