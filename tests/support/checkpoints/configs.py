"""Sizes and configurations of small checkpoints, by architecture."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeAlias

from jobs.demo.checkpoint import TINY, Dimensions, mrope_parameters, qwen_token_ids, text_config

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
QUERIES = 8
"""Tokens that a picture becomes in models with a resampler or a query transformer."""
TILES = 2
"""Tiles that Mllama cuts a picture into, at the most."""
WINDOW = 48
"""Tokens that a layer with a sliding window sees: fewer than a prompt has, as with the released models on clips."""
_PHI_SIDE = 448
"""Phi-4's processor counts its tokens for this side alone."""


class Part(NamedTuple):
    """An object of transformers: its class, and the fields that it is made from, parts among them."""

    name: str
    fields: Mapping[str, Any]

    def build(self, **more: Any) -> Any:
        """Make it, with further fields."""
        import transformers

        fields = {key: value.build() if isinstance(value, Part) else value for key, value in self.fields.items()}
        return getattr(transformers, self.name)(**fields, **more)


def of(name: str, **fields: Any) -> Part:
    """Return a part."""
    return Part(name, fields)


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


def clip_config(dims: Dimensions) -> dict[str, Any]:
    """Return a CLIP tower for pictures of `CLIP_SIDE`."""
    return {
        "model_type": "clip_vision_model",
        **vision_config(dims, image_size=CLIP_SIDE, patch_size=14, projection_dim=dims.vision_hidden),
    }


def pinpoints(side: int) -> list[list[int]]:
    """Return the grids (height, width) that a picture is tiled in: side by side, stacked, two by two."""
    return [[side, 2 * side], [2 * side, side], [2 * side, 2 * side]]


def _phi4_multimodal(dims: Dimensions, tokenizer: Any) -> Part:
    image, audio = tokenizer.convert_tokens_to_ids(["<|endoftext10|>", "<|endoftext11|>"])
    return of(
        "Phi4MultimodalConfig",
        **text_config(dims, tokenizer),
        vision_config=vision_config(
            dims, image_size=_PHI_SIDE, crop_size=_PHI_SIDE, patch_size=14, image_token_id=image, feature_layer=-2
        ),
        audio_config={
            "hidden_size": 32,
            "intermediate_size": 32,
            "num_blocks": 1,
            "num_attention_heads": 2,
            "ext_pw_out_channel": 32,
            "depthwise_separable_out_channel": 32,
            "bias_max_distance": 8,
            "nemo_conv_channels": 8,
            "audio_token_id": audio,
        },
    )


def _queries(dims: Dimensions, tokenizer: Any) -> dict[str, Any]:
    """Return what BLIP-2 and InstructBLIP share: a vision tower and the query transformer."""
    tower_config = vision_config(dims, image_size=SIGLIP_SIDE, patch_size=14)
    return {
        "vision_config": tower_config,
        "qformer_config": {
            **tower_config,
            "num_hidden_layers": 2,
            "encoder_hidden_size": dims.vision_hidden,
            "vocab_size": len(tokenizer),
            "max_position_embeddings": 512,
        },
        "num_query_tokens": QUERIES,
        "image_token_index": tokenizer.convert_tokens_to_ids("<image>"),
        "initializer_range": dims.initializer_range,
    }


def _text_model(name: str, **more: Any) -> Callable[[Dimensions, Any], Part]:
    return lambda dims, tokenizer: of(name, **text_config(dims, tokenizer, **more))


def grid_tower(dims: Dimensions, **more: Any) -> dict[str, Any]:
    """Return a vision tower on a grid of patches, by the names of the Qwen-VL family."""
    return {
        "depth": dims.vision_layers,
        "hidden_size": dims.vision_hidden,
        "intermediate_size": dims.vision_inner,
        "num_heads": dims.vision_heads,
        "patch_size": 14,
        "out_hidden_size": dims.hidden,
        "initializer_range": float(dims.vision_hidden**-0.5),
        **more,
    }


def siglip(dims: Dimensions, side: int, **more: Any) -> dict[str, Any]:
    """Return a SigLIP tower without its head."""
    tower = vision_config(dims, image_size=side, patch_size=14, vision_use_head=False, **more)
    return {"model_type": "siglip_vision_model", **tower}


CONFIGS: Mapping[str, Callable[[Dimensions, Any], Part]] = {
    "qwen2_vl": lambda dims, tokenizer: of(
        "Qwen2VLConfig",
        text_config=text_config(dims, tokenizer, rope_parameters=mrope_parameters(dims)),
        vision_config={
            "depth": dims.vision_layers,
            "embed_dim": dims.vision_hidden,
            "hidden_size": dims.hidden,
            "mlp_ratio": 2,
            "num_heads": dims.vision_heads,
            "initializer_range": float(dims.vision_hidden**-0.5),
        },
        **qwen_token_ids(tokenizer),
    ),
    "llava": lambda dims, tokenizer: of(
        "LlavaConfig",
        text_config={"model_type": "llama", **text_config(dims, tokenizer)},
        vision_config=clip_config(dims),
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
        image_seq_length=(CLIP_SIDE // 14) ** 2,
    ),
    "llava_next": lambda dims, tokenizer: of(
        "LlavaNextConfig",
        text_config={"model_type": "llama", **text_config(dims, tokenizer)},
        vision_config=clip_config(dims),
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
        image_seq_length=(CLIP_SIDE // 14) ** 2,
        image_grid_pinpoints=pinpoints(CLIP_SIDE),
    ),
    "llava_onevision": lambda dims, tokenizer: of(
        "LlavaOnevisionConfig",
        text_config={"model_type": "qwen2", **text_config(dims, tokenizer)},
        vision_config=siglip(dims, SIGLIP_SIDE),
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
        video_token_index=tokenizer.convert_tokens_to_ids("<video>"),
        image_grid_pinpoints=pinpoints(SIGLIP_SIDE),
    ),
    "internvl": lambda dims, tokenizer: of(
        "InternVLConfig",
        text_config={"model_type": "qwen2", **text_config(dims, tokenizer)},
        vision_config=vision_config(dims, image_size=SIGLIP_SIDE, patch_size=14),
        image_token_id=tokenizer.convert_tokens_to_ids("<IMG_CONTEXT>"),
        image_seq_length=(SIGLIP_SIDE // 28) ** 2,
        tie_word_embeddings=False,
    ),
    "idefics3": lambda dims, tokenizer: of(
        "Idefics3Config",
        text_config={"model_type": "llama", **text_config(dims, tokenizer)},
        vision_config=vision_config(dims, image_size=SIGLIP_SIDE, patch_size=14),
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
        scale_factor=2,
        pad_token_id=tokenizer.pad_token_id,
    ),
    "llama": lambda dims, tokenizer: of("LlamaConfig", **text_config(dims, tokenizer)),
    "llava_next_video": lambda dims, tokenizer: of(
        "LlavaNextVideoConfig",
        text_config={"model_type": "llama", **text_config(dims, tokenizer)},
        vision_config=clip_config(dims),
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
        video_token_index=tokenizer.convert_tokens_to_ids("<video>"),
        image_seq_length=(CLIP_SIDE // 14) ** 2,
        image_grid_pinpoints=pinpoints(CLIP_SIDE),
    ),
    "idefics2": lambda dims, tokenizer: of(
        "Idefics2Config",
        text_config={"model_type": "mistral", **text_config(dims, tokenizer, sliding_window=WINDOW)},
        vision_config=vision_config(dims, image_size=SIGLIP_SIDE, patch_size=14),
        perceiver_config={
            "hidden_size": dims.hidden,
            "resampler_n_latents": QUERIES,
            "resampler_depth": 1,
            "resampler_n_heads": dims.vision_heads,
            "resampler_head_dim": dims.vision_hidden // dims.vision_heads,
            "num_key_value_heads": dims.vision_heads // 2,
            "initializer_range": dims.initializer_range,
        },
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
    ),
    "smolvlm": lambda dims, tokenizer: of(
        "SmolVLMConfig",
        text_config={"model_type": "llama", **text_config(dims, tokenizer)},
        vision_config=vision_config(dims, image_size=SIGLIP_SIDE, patch_size=14),
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
        scale_factor=2,
        pad_token_id=tokenizer.pad_token_id,
    ),
    "ovis2": lambda dims, tokenizer: of(
        "Ovis2Config",
        text_config={"model_type": "qwen2", **text_config(dims, tokenizer)},
        vision_config=vision_config(dims, image_size=SIGLIP_SIDE, patch_size=14, hidden_stride=2, vocab_size=256),
        image_token_id=tokenizer.convert_tokens_to_ids("<IMG_ATOM>"),
        visual_indicator_token_ids=tokenizer.convert_tokens_to_ids(
            ["<IMG_START>", "<IMG_GRID>", "<IMG_COL>", "<IMG_ROW>", "<IMG_END>"]
        ),
        vocab_size=len(tokenizer),
        hidden_size=dims.hidden,
        tie_word_embeddings=False,
    ),
    "gemma3": lambda dims, tokenizer: of(
        "Gemma3Config",
        text_config=text_config(
            dims,
            tokenizer,
            head_dim=dims.hidden // dims.heads,
            query_pre_attn_scalar=dims.hidden // dims.heads,
            sliding_window=WINDOW,
        ),
        tie_word_embeddings=False,  # unlike the released ones: tied random weights say the last token again
        vision_config=siglip(dims, CLIP_SIDE),
        mm_tokens_per_image=(CLIP_SIDE // 28) ** 2,
        boi_token_index=tokenizer.convert_tokens_to_ids("<start_of_image>"),
        eoi_token_index=tokenizer.convert_tokens_to_ids("<end_of_image>"),
        image_token_index=tokenizer.convert_tokens_to_ids("<image_soft_token>"),
    ),
    "phi4_multimodal": _phi4_multimodal,
    "mllama": lambda dims, tokenizer: of(
        "MllamaConfig",
        text_config=text_config(dims, tokenizer, cross_attention_layers=[1, 4]),
        vision_config={
            "hidden_size": dims.vision_hidden,
            "intermediate_size": dims.vision_inner,
            "num_hidden_layers": dims.vision_layers,
            "num_global_layers": 1,
            "attention_heads": dims.vision_heads,
            "vision_output_dim": 2 * dims.vision_hidden,
            "intermediate_layers_indices": [1],
            "image_size": SIGLIP_SIDE,
            "patch_size": 14,
            "max_num_tiles": TILES,
            "supported_aspect_ratios": [[1, 1], [1, 2], [2, 1]],
            "initializer_range": float(dims.vision_hidden**-0.5),
        },
        image_token_index=tokenizer.convert_tokens_to_ids("<|image|>"),
    ),
    "blip-2": lambda dims, tokenizer: of(
        "Blip2Config",
        text_config={
            **text_config(
                dims, tokenizer, ffn_dim=dims.inner, word_embed_proj_dim=dims.hidden, init_std=dims.initializer_range
            ),
            "model_type": "opt",
            "max_position_embeddings": 1024,
        },
        **_queries(dims, tokenizer),
    ),
    "instructblip": lambda dims, tokenizer: of(
        "InstructBlipConfig",
        text_config={"model_type": "llama", **text_config(dims, tokenizer)},
        **_queries(dims, tokenizer),
    ),
    "instructblip_t5": lambda dims, tokenizer: of(
        "InstructBlipConfig",
        text_config={
            "model_type": "t5",
            "vocab_size": len(tokenizer),
            "d_model": dims.hidden,
            "d_kv": dims.hidden // dims.heads,
            "d_ff": dims.inner,
            "num_layers": dims.layers // 2,
            "num_heads": dims.heads,
            "decoder_start_token_id": tokenizer.pad_token_id,
            "eos_token_id": tokenizer.eos_token_id,
            "pad_token_id": tokenizer.pad_token_id,
            "tie_word_embeddings": False,
            "initializer_factor": 1.0,
        },
        **_queries(dims, tokenizer),
    ),
    "qwen3_vl": lambda dims, tokenizer: of(
        "Qwen3VLConfig",
        text_config=text_config(
            dims,
            tokenizer,
            rope_parameters={**mrope_parameters(dims), "mrope_interleaved": True},
            head_dim=dims.hidden // dims.heads,
        ),
        vision_config=grid_tower(dims, num_position_embeddings=64, deepstack_visual_indexes=[0, 1]),
        **qwen_token_ids(tokenizer),
    ),
    "qwen2": _text_model("Qwen2Config"),
    "mistral": _text_model("MistralConfig", sliding_window=WINDOW),
    "gemma": _text_model("GemmaConfig", head_dim=32, tie_word_embeddings=True),
    "gemma3_text": _text_model("Gemma3TextConfig", sliding_window=WINDOW, head_dim=32, query_pre_attn_scalar=32),
}
"""(dimensions, tokenizer) -> configuration of the whole model; Qwen2.5-VL's is the demo's."""
