"""Configurations of the small checkpoints that are built unlike Llava: windows, cross-attention, query transformers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from jobs.demo.checkpoint import Dimensions, qwen_token_ids, text_config
from tests.support.checkpoints.configs import CLIP_SIDE, CONFIGS, SIGLIP_SIDE, clip_config, pinpoints, vision_config

QUERIES = 8
"""Tokens that a picture becomes in models with a resampler or a query transformer."""
TILES = 2
"""Tiles that Mllama cuts a picture into, at the most."""
WINDOW = 48
"""Tokens that a layer with a sliding window sees: fewer than a prompt has, as with the released models on clips."""
_PHI_SIDE = 448
"""Phi-4's processor counts its tokens for this side alone."""


def _llava_next_video(dims: Dimensions, tokenizer: Any) -> Any:
    from transformers import LlavaNextVideoConfig

    return LlavaNextVideoConfig(
        text_config={"model_type": "llama", **text_config(dims, tokenizer)},
        vision_config=clip_config(dims),
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
        video_token_index=tokenizer.convert_tokens_to_ids("<video>"),
        image_seq_length=(CLIP_SIDE // 14) ** 2,
        image_grid_pinpoints=pinpoints(CLIP_SIDE),
    )


def _idefics2(dims: Dimensions, tokenizer: Any) -> Any:
    from transformers import Idefics2Config

    return Idefics2Config(
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
    )


def _smolvlm(dims: Dimensions, tokenizer: Any) -> Any:
    from transformers import SmolVLMConfig

    return SmolVLMConfig(
        text_config={"model_type": "llama", **text_config(dims, tokenizer)},
        vision_config=vision_config(dims, image_size=SIGLIP_SIDE, patch_size=14),
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
        scale_factor=2,
        pad_token_id=tokenizer.pad_token_id,
    )


def _ovis2(dims: Dimensions, tokenizer: Any) -> Any:
    from transformers import Ovis2Config

    marks = ["<IMG_START>", "<IMG_GRID>", "<IMG_COL>", "<IMG_ROW>", "<IMG_END>"]
    return Ovis2Config(
        text_config={"model_type": "qwen2", **text_config(dims, tokenizer)},
        vision_config=vision_config(dims, image_size=SIGLIP_SIDE, patch_size=14, hidden_stride=2, vocab_size=256),
        image_token_id=tokenizer.convert_tokens_to_ids("<IMG_ATOM>"),
        visual_indicator_token_ids=tokenizer.convert_tokens_to_ids(marks),
        vocab_size=len(tokenizer),
        hidden_size=dims.hidden,
        tie_word_embeddings=False,
    )


def _gemma3(dims: Dimensions, tokenizer: Any) -> Any:
    from transformers import Gemma3Config

    return Gemma3Config(
        text_config=text_config(
            dims,
            tokenizer,
            head_dim=dims.hidden // dims.heads,
            query_pre_attn_scalar=dims.hidden // dims.heads,
            sliding_window=WINDOW,
        ),
        tie_word_embeddings=False,  # unlike the released ones: tied random weights say the last token again
        vision_config={
            "model_type": "siglip_vision_model",
            **vision_config(dims, image_size=CLIP_SIDE, patch_size=14, vision_use_head=False),
        },
        mm_tokens_per_image=(CLIP_SIDE // 28) ** 2,
        boi_token_index=tokenizer.convert_tokens_to_ids("<start_of_image>"),
        eoi_token_index=tokenizer.convert_tokens_to_ids("<end_of_image>"),
        image_token_index=tokenizer.convert_tokens_to_ids("<image_soft_token>"),
    )


def _phi4_multimodal(dims: Dimensions, tokenizer: Any) -> Any:
    from transformers import Phi4MultimodalConfig

    image, audio = tokenizer.convert_tokens_to_ids(["<|endoftext10|>", "<|endoftext11|>"])
    return Phi4MultimodalConfig(
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


def _mllama(dims: Dimensions, tokenizer: Any) -> Any:
    from transformers import MllamaConfig

    return MllamaConfig(
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


def _blip_2(dims: Dimensions, tokenizer: Any) -> Any:
    from transformers import Blip2Config

    text_settings = text_config(
        dims,
        tokenizer,
        ffn_dim=dims.inner,
        word_embed_proj_dim=dims.hidden,
        init_std=dims.initializer_range,
    )
    text_settings = {**text_settings, "model_type": "opt", "max_position_embeddings": 1024}
    return Blip2Config(text_config=text_settings, **_queries(dims, tokenizer))


def _instructblip(dims: Dimensions, tokenizer: Any) -> Any:
    from transformers import InstructBlipConfig

    return InstructBlipConfig(
        text_config={"model_type": "llama", **text_config(dims, tokenizer)}, **_queries(dims, tokenizer)
    )


def _instructblip_t5(dims: Dimensions, tokenizer: Any) -> Any:
    from transformers import InstructBlipConfig

    text_settings = {
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
    }
    return InstructBlipConfig(text_config=text_settings, **_queries(dims, tokenizer))


def _qwen3_vl(dims: Dimensions, tokenizer: Any) -> Any:
    from transformers import Qwen3VLConfig

    pairs = dims.hidden // dims.heads // 2
    side = pairs * 3 // 8
    rope = {
        "rope_type": "default",
        "rope_theta": 1e6,
        "mrope_section": [pairs - 2 * side, side, side],
        "mrope_interleaved": True,
    }
    vision = {
        "depth": dims.vision_layers,
        "hidden_size": dims.vision_hidden,
        "intermediate_size": dims.vision_inner,
        "num_heads": dims.vision_heads,
        "patch_size": 14,
        "out_hidden_size": dims.hidden,
        "num_position_embeddings": 64,
        "deepstack_visual_indexes": [0, 1],
        "initializer_range": float(dims.vision_hidden**-0.5),
    }
    return Qwen3VLConfig(
        text_config=text_config(dims, tokenizer, rope_parameters=rope, head_dim=dims.hidden // dims.heads),
        vision_config=vision,
        **qwen_token_ids(tokenizer),
    )


def _text_model(name: str, **more: Any) -> Callable[[Dimensions, Any], Any]:
    def make(dims: Dimensions, tokenizer: Any) -> Any:
        import transformers

        return getattr(transformers, name)(**text_config(dims, tokenizer, **more))

    return make


ALL_CONFIGS: Mapping[str, Callable[[Dimensions, Any], Any]] = MappingProxyType(
    {
        **CONFIGS,
        "llava_next_video": _llava_next_video,
        "idefics2": _idefics2,
        "smolvlm": _smolvlm,
        "ovis2": _ovis2,
        "gemma3": _gemma3,
        "phi4_multimodal": _phi4_multimodal,
        "mllama": _mllama,
        "blip-2": _blip_2,
        "instructblip": _instructblip,
        "instructblip_t5": _instructblip_t5,
        "qwen3_vl": _qwen3_vl,
        "qwen2": _text_model("Qwen2Config"),
        "mistral": _text_model("MistralConfig", sliding_window=WINDOW),
        "gemma": _text_model("GemmaConfig", head_dim=32, tie_word_embeddings=True),
        "gemma3_text": _text_model("Gemma3TextConfig", sliding_window=WINDOW, head_dim=32, query_pre_attn_scalar=32),
    }
)
"""(dimensions, tokenizer) -> configuration of the whole model, for every architecture."""
