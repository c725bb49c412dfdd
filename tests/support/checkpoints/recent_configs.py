"""Configurations of small checkpoints of the models of 2025 and 2026: experts, linear attention, new towers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from jobs.demo.checkpoint import Dimensions, mrope_parameters, qwen_token_ids, text_config
from tests.support.checkpoints.configs import (
    CLIP_SIDE,
    SIGLIP_SIDE,
    WINDOW,
    Part,
    grid_tower,
    of,
    pinpoints,
    siglip,
    vision_config,
)

LINEAR_HEAD_DIM = 128
"""Width of a head of linear attention, as released: vLLM's kernels on CPUs refuse 32."""
SOFT_TOKENS = 70
"""Tokens of a picture in Gemma 4, at most; the released models have 280."""
GEMMA4_PAD = 0
"""Token whose per-layer embedding stands for media: vLLM takes 0, the padding of the released models, as given."""
EXPERTS = 4
"""Experts of a layer, of which a token uses two; together as wide as the dense layer."""


def head_dim(dims: Dimensions) -> int:
    return dims.hidden // dims.heads


def expert_width(dims: Dimensions) -> int:
    """Return the width of one expert: the matrix products of experts take multiples of four numbers."""
    return dims.inner // (EXPERTS + 1) // 8 * 8


def _experts(dims: Dimensions) -> dict[str, int]:
    return {"num_experts": EXPERTS, "num_experts_per_tok": 2, "moe_intermediate_size": expert_width(dims)}


def qwen3_5_text(dims: Dimensions, tokenizer: Any, **more: Any) -> dict[str, Any]:
    """Return a language model with two layers of linear attention before each layer of full attention."""
    pairs = head_dim(dims) // 8  # a quarter of a head is rotated
    rope = {
        "rope_type": "default",
        "rope_theta": 1e7,
        "partial_rotary_factor": 0.25,
        "mrope_section": [pairs - 2 * (pairs // 4), pairs // 4, pairs // 4],
        "mrope_interleaved": True,
    }
    return text_config(
        dims,
        tokenizer,
        rope_parameters=rope,
        head_dim=head_dim(dims),
        layer_types=["linear_attention", "linear_attention", "full_attention"] * (dims.layers // 3),
        linear_num_key_heads=dims.kv_heads,
        linear_num_value_heads=dims.heads,
        linear_key_head_dim=LINEAR_HEAD_DIM,
        linear_value_head_dim=LINEAR_HEAD_DIM,
        **more,
    )


def _glm_rope(dims: Dimensions) -> dict[str, Any]:
    return {**mrope_parameters(dims), "partial_rotary_factor": 1.0}


def _glm_tokens(tokenizer: Any) -> dict[str, int]:
    return {
        "image_token_id": tokenizer.convert_tokens_to_ids("<|image|>"),
        "video_token_id": tokenizer.convert_tokens_to_ids("<|video|>"),
        **{
            f"{kind}_{end}_token_id": tokenizer.convert_tokens_to_ids(f"<|{word}_of_{kind}|>")
            for kind in ("image", "video")
            for end, word in (("start", "begin"), ("end", "end"))
        },
    }


def gemma4_tokens(tokenizer: Any) -> dict[str, int]:
    names = {"boi_token_id": "<|image>", "eoi_token_id": "<image|>", "image_token_id": "<|image|>"}
    names |= {"boa_token_id": "<|audio>", "eoa_token_index": "<audio|>", "audio_token_id": "<|audio|>"}
    names["video_token_id"] = "<|video|>"
    return {name: tokenizer.convert_tokens_to_ids(token) for name, token in names.items()}


def _gemma4_text(dims: Dimensions, tokenizer: Any, **more: Any) -> dict[str, Any]:
    return text_config(
        dims,
        tokenizer,
        head_dim=head_dim(dims),
        global_head_dim=2 * head_dim(dims),
        sliding_window=WINDOW,
        pad_token_id=GEMMA4_PAD,
        layer_types=["sliding_attention", "sliding_attention", "full_attention"] * (dims.layers // 3),
        **more,
    )


def _ernie4_5_vl_moe(dims: Dimensions, tokenizer: Any) -> Part:
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
    return of(
        "Ernie4_5_VLMoeConfig",
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


def _molmo2(dims: Dimensions, tokenizer: Any) -> Part:
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
    return of(
        "Molmo2Config",
        text_config=text_config(dims, tokenizer, head_dim=head_dim(dims), additional_vocab_size=8),
        vision_config={**attention, "num_hidden_layers": dims.vision_layers, "image_size": [CLIP_SIDE, CLIP_SIDE]},
        adapter_config={**attention, "vision_feature_layer": [-1, -2], "text_hidden_size": dims.hidden},
        **{name: tokenizer.convert_tokens_to_ids(token) for name, token in marks.items()},
    )


def _minicpm(dims: Dimensions, tokenizer: Any, name: str, **marks: Any) -> Part:
    return of(
        name,
        text_config={"model_type": "qwen3_5_text", **qwen3_5_text(dims, tokenizer)},
        vision_config=vision_config(dims, image_size=CLIP_SIDE, patch_size=14),
        insert_layer_id=1,
        image_size=CLIP_SIDE,
        image_token_id=tokenizer.convert_tokens_to_ids("<|image_pad|>"),
        video_token_id=tokenizer.convert_tokens_to_ids("<|video_pad|>"),
        **marks,
    )


def _minicpm_4_7(dims: Dimensions, tokenizer: Any) -> Part:
    tokens = {"image_start_id": "<image>", "image_end_id": "</image>"}
    tokens |= {"slice_start_id": "<slice>", "slice_end_id": "</slice>"}
    marks = {key: tokenizer.convert_tokens_to_ids(token) for key, token in tokens.items()}
    (marks["newline_id"],) = tokenizer("\n", add_special_tokens=False)["input_ids"]
    return _minicpm(dims, tokenizer, "MiniCPMV4_7Config", **marks)


RECENT_CONFIGS: Mapping[str, Callable[[Dimensions, Any], Part]] = {
    "qwen3_vl_moe": lambda dims, tokenizer: of(
        "Qwen3VLMoeConfig",
        text_config=text_config(
            dims,
            tokenizer,
            rope_parameters={**mrope_parameters(dims), "mrope_interleaved": True},
            head_dim=head_dim(dims),
            norm_topk_prob=True,
            **_experts(dims),
        ),
        vision_config=grid_tower(dims, num_position_embeddings=64, deepstack_visual_indexes=[0, 1]),
        **qwen_token_ids(tokenizer),
    ),
    "qwen3_5": lambda dims, tokenizer: of(
        "Qwen3_5Config",
        text_config=qwen3_5_text(dims, tokenizer),
        vision_config=grid_tower(dims, num_position_embeddings=64),
        **qwen_token_ids(tokenizer),
    ),
    "qwen3_5_moe": lambda dims, tokenizer: of(
        "Qwen3_5MoeConfig",
        text_config=qwen3_5_text(
            dims, tokenizer, **{**_experts(dims), "shared_expert_intermediate_size": expert_width(dims)}
        ),
        vision_config=grid_tower(dims, num_position_embeddings=64),
        **qwen_token_ids(tokenizer),
    ),
    "mistral3": lambda dims, tokenizer: of(
        "Mistral3Config",
        text_config={"model_type": "mistral", **text_config(dims, tokenizer, head_dim=head_dim(dims))},
        vision_config=vision_config(
            dims,
            model_type="pixtral",
            head_dim=dims.vision_hidden // dims.vision_heads,
            image_size=112,
            patch_size=14,
        ),
        image_token_index=tokenizer.convert_tokens_to_ids("[IMG]"),
        tie_word_embeddings=False,
    ),
    "glm4v": lambda dims, tokenizer: of(
        "Glm4vConfig",
        text_config=text_config(dims, tokenizer, rope_parameters=_glm_rope(dims)),
        vision_config=grid_tower(dims, image_size=112),
        **_glm_tokens(tokenizer),
    ),
    "glm4v_moe": lambda dims, tokenizer: of(
        "Glm4vMoeConfig",
        text_config=text_config(
            dims,
            tokenizer,
            rope_parameters=_glm_rope(dims),
            head_dim=head_dim(dims),
            n_routed_experts=EXPERTS,
            n_shared_experts=1,
            num_experts_per_tok=2,
            moe_intermediate_size=expert_width(dims),
            first_k_dense_replace=1,
            use_qk_norm=False,
        ),
        vision_config=grid_tower(dims, image_size=112),
        **_glm_tokens(tokenizer),
    ),
    "gemma4": lambda dims, tokenizer: of(
        "Gemma4Config",
        text_config=_gemma4_text(
            dims,
            tokenizer,
            hidden_size_per_layer_input=16,
            vocab_size_per_layer_input=len(tokenizer),
            num_kv_shared_layers=dims.layers // 3,
        ),
        vision_config=vision_config(
            dims,
            num_key_value_heads=dims.vision_heads,
            head_dim=dims.vision_hidden // dims.vision_heads,
            patch_size=16,
            position_embedding_size=256,
            default_output_length=SOFT_TOKENS,
        ),
        tie_word_embeddings=False,
        **gemma4_tokens(tokenizer),
    ),
    "llama4": lambda dims, tokenizer: of(
        "Llama4Config",
        text_config=text_config(
            dims,
            tokenizer,
            intermediate_size=expert_width(dims),
            intermediate_size_mlp=dims.inner,
            head_dim=head_dim(dims),
            num_local_experts=EXPERTS,
        ),
        vision_config={
            **vision_config(dims, image_size=SIGLIP_SIDE, patch_size=14),
            **dict.fromkeys(("vision_output_dim", "projector_input_dim", "projector_output_dim"), dims.vision_hidden),
            "intermediate_size": 4 * dims.vision_hidden,
        },
        boi_token_index=tokenizer.convert_tokens_to_ids("<|image_start|>"),
        eoi_token_index=tokenizer.convert_tokens_to_ids("<|image_end|>"),
        image_token_index=tokenizer.convert_tokens_to_ids("<|patch|>"),
    ),
    "lfm3_vl": lambda dims, tokenizer: of(
        "Lfm3VlConfig",
        text_config={
            "model_type": "lfm3",
            **text_config(dims, tokenizer, head_dim=head_dim(dims), sliding_window=WINDOW),
        },
        vision_config=vision_config(dims, num_key_value_heads=dims.vision_heads // 2, patch_size=14),
        projector_hidden_size=dims.hidden,
        tie_word_embeddings=False,
        **qwen_token_ids(tokenizer),
    ),
    "granite4_vision": lambda dims, tokenizer: of(
        "Granite4VisionConfig",
        text_config=text_config(dims, tokenizer, attention_multiplier=head_dim(dims) ** -0.5),
        vision_config=siglip(dims, CLIP_SIDE),
        qformer_config={
            "model_type": "blip_2_qformer",
            "num_hidden_layers": 1,
            "hidden_size": dims.vision_hidden,
            "encoder_hidden_size": dims.vision_hidden,
            "num_attention_heads": max(1, dims.vision_hidden // 64),
            "intermediate_size": 3072,
            "cross_attention_frequency": 1,
            "use_qformer_text_input": False,
            "initializer_range": float(dims.vision_hidden**-0.5),
        },
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
        image_seq_length=(CLIP_SIDE // 28) ** 2,
        image_grid_pinpoints=pinpoints(CLIP_SIDE),
        vision_feature_select_strategy="full",
        downsample_rate="2/4",
        deepstack_layer_map=[[0, 0], [1, 1]],
        spatial_vision_layer=-1,
        spatial_target_layers=[2, 3, 4, 5],
    ),
    "gemma4_unified": lambda dims, tokenizer: of(
        "Gemma4UnifiedConfig",
        text_config=_gemma4_text(dims, tokenizer),
        vision_config={
            "mm_embed_dim": dims.hidden // 4,
            "output_proj_dims": dims.hidden // 4,
            "mm_posemb_size": 128,
            "num_soft_tokens": SOFT_TOKENS,
        },
        tie_word_embeddings=False,
        **gemma4_tokens(tokenizer),
    ),
    "ernie4_5_vl_moe": _ernie4_5_vl_moe,
    "molmo2": _molmo2,
    "muse_glimmer": lambda dims, tokenizer: of(
        "MuseGlimmerConfig",
        text_config=text_config(dims, tokenizer, head_dim=head_dim(dims), sliding_window=WINDOW),
        # vLLM reads two sizes here, and takes those of the released model where they are absent.
        vision_config=vision_config(dims, output_dim=4 * dims.vision_hidden, adapter_dim=dims.hidden),
        image_token_id=tokenizer.convert_tokens_to_ids("<|patch|>"),
        video_token_id=tokenizer.convert_tokens_to_ids("<|video|>"),
        out_hidden_size=4 * dims.vision_hidden,  # four patches are merged into a token
        projector_hidden_size=dims.hidden,
    ),
    "minicpmv4_6": lambda dims, tokenizer: _minicpm(dims, tokenizer, "MiniCPMV4_6Config"),
    "minicpmv4_7": _minicpm_4_7,
}
