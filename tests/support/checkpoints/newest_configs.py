"""Configurations of further small checkpoints of 2026: one embedder for all media, pooled patches, sliced pictures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from jobs.demo.checkpoint import Dimensions, text_config
from tests.support.checkpoints.configs import CLIP_SIDE, vision_config
from tests.support.checkpoints.more_configs import WINDOW
from tests.support.checkpoints.recent_configs import (
    EXPERTS,
    GEMMA4_PAD,
    SOFT_TOKENS,
    expert_width,
    gemma4_tokens,
    grid_tower,
    head_dim,
    qwen3_5_text,
)


def _gemma4_unified(dims: Dimensions, tokenizer: Any) -> Any:
    from transformers import Gemma4UnifiedConfig

    return Gemma4UnifiedConfig(
        text_config=text_config(
            dims,
            tokenizer,
            head_dim=head_dim(dims),
            global_head_dim=2 * head_dim(dims),
            sliding_window=WINDOW,
            pad_token_id=GEMMA4_PAD,
            layer_types=["sliding_attention", "sliding_attention", "full_attention"] * (dims.layers // 3),
        ),
        vision_config={
            "mm_embed_dim": dims.hidden // 4,
            "output_proj_dims": dims.hidden // 4,
            "mm_posemb_size": 128,
            "num_soft_tokens": SOFT_TOKENS,
        },
        tie_word_embeddings=False,
        **gemma4_tokens(tokenizer),
    )


def _ernie4_5_vl_moe(dims: Dimensions, tokenizer: Any) -> Any:
    from transformers import Ernie4_5_VLMoeConfig

    pairs = head_dim(dims) // 2
    side = pairs * 3 // 8
    rope = {"rope_type": "default", "rope_theta": 5e5, "mrope_section": [side, side, pairs - 2 * side]}
    width = expert_width(dims) // 2 // 8 * 8
    tower = grid_tower(dims)
    del tower["out_hidden_size"]
    marks = {
        f"{kind}_{name}": tokenizer.convert_tokens_to_ids(token)
        for kind, start, pixel, end in (
            ("image", "<|IMAGE_START|>", "<|IMAGE_PLACEHOLDER|>", "<|IMAGE_END|>"),
            ("video", "<|VIDEO_START|>", "<|VIDEO_PLACEHOLDER|>", "<|VIDEO_END|>"),
        )
        for name, token in (("start_token_id", start), ("token_id", pixel), ("end_token_id", end))
    }
    return Ernie4_5_VLMoeConfig(
        text_config=text_config(
            dims,
            tokenizer,
            rope_parameters=rope,
            moe_num_experts=EXPERTS,
            moe_k=2,
            moe_num_shared_experts=1,
            moe_intermediate_size=[width, width],
        ),
        vision_config=tower,
        tie_word_embeddings=False,
        **marks,
    )


def _molmo2(dims: Dimensions, tokenizer: Any) -> Any:
    from transformers import Molmo2Config

    attention = {
        "hidden_size": dims.vision_hidden,
        "num_attention_heads": dims.vision_heads,
        "num_key_value_heads": dims.vision_heads,
        "head_dim": dims.vision_hidden // dims.vision_heads,
        "intermediate_size": dims.vision_inner,
        "initializer_range": float(dims.vision_hidden**-0.5),
    }
    marks = {
        "image_start_token_id": "<im_start>",
        "low_res_image_start_token_id": "<low_res_im_start>",
        "image_end_token_id": "<im_end>",
        "image_patch_id": "<im_patch>",
        "frame_start_token_id": "<frame_start>",
        "frame_end_token_id": "<frame_end>",
    }
    return Molmo2Config(
        text_config=text_config(dims, tokenizer, head_dim=head_dim(dims), additional_vocab_size=8),
        vision_config={**attention, "num_hidden_layers": dims.vision_layers, "image_size": [CLIP_SIDE, CLIP_SIDE]},
        adapter_config={**attention, "vision_feature_layer": [-1, -2], "text_hidden_size": dims.hidden},
        **{name: tokenizer.convert_tokens_to_ids(token) for name, token in marks.items()},
    )


def _muse_glimmer(dims: Dimensions, tokenizer: Any) -> Any:
    from transformers import MuseGlimmerConfig

    return MuseGlimmerConfig(
        text_config=text_config(dims, tokenizer, head_dim=head_dim(dims), sliding_window=WINDOW),
        vision_config={
            "hidden_size": dims.vision_hidden,
            "intermediate_size": dims.vision_inner,
            "num_hidden_layers": dims.vision_layers,
            "num_attention_heads": dims.vision_heads,
            "initializer_range": float(dims.vision_hidden**-0.5),
            # vLLM reads these two here, and takes the released model's sizes where they are absent.
            "output_dim": 4 * dims.vision_hidden,
            "adapter_dim": dims.hidden,
        },
        image_token_id=tokenizer.convert_tokens_to_ids("<|patch|>"),
        video_token_id=tokenizer.convert_tokens_to_ids("<|video|>"),
        out_hidden_size=4 * dims.vision_hidden,  # four patches are merged into a token
        projector_hidden_size=dims.hidden,
    )


def _minicpm(name: str) -> Callable[[Dimensions, Any], Any]:
    def make(dims: Dimensions, tokenizer: Any) -> Any:
        import transformers

        marks: dict[str, Any] = {}
        if name == "MiniCPMV4_7Config":
            tokens = {"image_start_id": "<image>", "image_end_id": "</image>"}
            tokens |= {"slice_start_id": "<slice>", "slice_end_id": "</slice>"}
            marks = {key: tokenizer.convert_tokens_to_ids(token) for key, token in tokens.items()}
            (marks["newline_id"],) = tokenizer("\n", add_special_tokens=False)["input_ids"]
        return getattr(transformers, name)(
            text_config={"model_type": "qwen3_5_text", **qwen3_5_text(dims, tokenizer)},
            vision_config=vision_config(dims, image_size=CLIP_SIDE, patch_size=14),
            insert_layer_id=1,
            image_size=CLIP_SIDE,
            image_token_id=tokenizer.convert_tokens_to_ids("<|image_pad|>"),
            video_token_id=tokenizer.convert_tokens_to_ids("<|video_pad|>"),
            **marks,
        )

    return make


NEWEST_CONFIGS: Mapping[str, Callable[[Dimensions, Any], Any]] = MappingProxyType(
    {
        "gemma4_unified": _gemma4_unified,
        "ernie4_5_vl_moe": _ernie4_5_vl_moe,
        "molmo2": _molmo2,
        "muse_glimmer": _muse_glimmer,
        "minicpmv4_6": _minicpm("MiniCPMV4_6Config"),
        "minicpmv4_7": _minicpm("MiniCPMV4_7Config"),
    }
)
"""(dimensions, tokenizer) -> configuration of the whole model."""
