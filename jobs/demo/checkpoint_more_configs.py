"""Configurations of the small checkpoints that are built unlike Llava: windows, cross-attention, query transformers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from jobs.demo.checkpoint_configs import (
    CLIP_SIDE,
    CONFIGS,
    SIGLIP_SIDE,
    Measures,
    clip,
    pinpoints,
    qwen_ids,
    text,
    tower,
)

QUERIES = 8
"""Tokens that a picture becomes in models with a resampler or a query transformer."""
TILES = 2
"""Tiles that Mllama cuts a picture into, at the most."""
WINDOW = 48
"""Tokens that a layer with a sliding window sees: fewer than a prompt has, as with the released models on clips."""
_PHI_SIDE = 448
"""Phi-4's processor counts its tokens for this side alone."""


def _llava_next_video(m: Measures, tokenizer: Any) -> Any:
    from transformers import LlavaNextVideoConfig

    return LlavaNextVideoConfig(
        text_config={"model_type": "llama", **text(m, tokenizer)},
        vision_config=clip(m),
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
        video_token_index=tokenizer.convert_tokens_to_ids("<video>"),
        image_seq_length=(CLIP_SIDE // 14) ** 2,
        image_grid_pinpoints=pinpoints(CLIP_SIDE),
    )


def _idefics2(m: Measures, tokenizer: Any) -> Any:
    from transformers import Idefics2Config

    return Idefics2Config(
        text_config={"model_type": "mistral", **text(m, tokenizer, sliding_window=WINDOW)},
        vision_config=tower(m, image_size=SIGLIP_SIDE, patch_size=14),
        perceiver_config={
            "hidden_size": m.hidden,
            "resampler_n_latents": QUERIES,
            "resampler_depth": 1,
            "resampler_n_heads": m.vision_heads,
            "resampler_head_dim": m.vision_hidden // m.vision_heads,
            "num_key_value_heads": m.vision_heads // 2,
            "initializer_range": m.spread,
        },
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
    )


def _smolvlm(m: Measures, tokenizer: Any) -> Any:
    from transformers import SmolVLMConfig

    return SmolVLMConfig(
        text_config={"model_type": "llama", **text(m, tokenizer)},
        vision_config=tower(m, image_size=SIGLIP_SIDE, patch_size=14),
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
        scale_factor=2,
        pad_token_id=tokenizer.pad_token_id,
    )


def _ovis2(m: Measures, tokenizer: Any) -> Any:
    from transformers import Ovis2Config

    marks = ["<IMG_START>", "<IMG_GRID>", "<IMG_COL>", "<IMG_ROW>", "<IMG_END>"]
    return Ovis2Config(
        text_config={"model_type": "qwen2", **text(m, tokenizer)},
        vision_config=tower(m, image_size=SIGLIP_SIDE, patch_size=14, hidden_stride=2, vocab_size=256),
        image_token_id=tokenizer.convert_tokens_to_ids("<IMG_ATOM>"),
        visual_indicator_token_ids=tokenizer.convert_tokens_to_ids(marks),
        vocab_size=len(tokenizer),
        hidden_size=m.hidden,
        tie_word_embeddings=False,
    )


def _gemma3(m: Measures, tokenizer: Any) -> Any:
    from transformers import Gemma3Config

    return Gemma3Config(
        text_config=text(
            m,
            tokenizer,
            head_dim=m.hidden // m.heads,
            query_pre_attn_scalar=m.hidden // m.heads,
            sliding_window=WINDOW,
        ),
        tie_word_embeddings=False,  # unlike the released ones: tied random weights say the last token again
        vision_config={
            "model_type": "siglip_vision_model",
            **tower(m, image_size=CLIP_SIDE, patch_size=14, vision_use_head=False),
        },
        mm_tokens_per_image=(CLIP_SIDE // 28) ** 2,
        boi_token_index=tokenizer.convert_tokens_to_ids("<start_of_image>"),
        eoi_token_index=tokenizer.convert_tokens_to_ids("<end_of_image>"),
        image_token_index=tokenizer.convert_tokens_to_ids("<image_soft_token>"),
    )


def _phi4_multimodal(m: Measures, tokenizer: Any) -> Any:
    from transformers import Phi4MultimodalConfig

    image, audio = tokenizer.convert_tokens_to_ids(["<|endoftext10|>", "<|endoftext11|>"])
    return Phi4MultimodalConfig(
        **text(m, tokenizer),
        vision_config=tower(
            m, image_size=_PHI_SIDE, crop_size=_PHI_SIDE, patch_size=14, image_token_id=image, feature_layer=-2
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


def _mllama(m: Measures, tokenizer: Any) -> Any:
    from transformers import MllamaConfig

    return MllamaConfig(
        text_config=text(m, tokenizer, cross_attention_layers=[1, 4]),
        vision_config={
            "hidden_size": m.vision_hidden,
            "intermediate_size": m.vision_inner,
            "num_hidden_layers": m.vision_layers,
            "num_global_layers": 1,
            "attention_heads": m.vision_heads,
            "vision_output_dim": 2 * m.vision_hidden,
            "intermediate_layers_indices": [1],
            "image_size": SIGLIP_SIDE,
            "patch_size": 14,
            "max_num_tiles": TILES,
            "supported_aspect_ratios": [[1, 1], [1, 2], [2, 1]],
            "initializer_range": float(m.vision_hidden**-0.5),
        },
        image_token_index=tokenizer.convert_tokens_to_ids("<|image|>"),
    )


def _queries(m: Measures, tokenizer: Any) -> dict[str, Any]:
    """What BLIP-2 and InstructBLIP have in common: a vision tower and the transformer that asks it."""
    tower_config = tower(m, image_size=SIGLIP_SIDE, patch_size=14)
    return {
        "vision_config": tower_config,
        "qformer_config": {
            **tower_config,
            "num_hidden_layers": 2,
            "encoder_hidden_size": m.vision_hidden,
            "vocab_size": len(tokenizer),
            "max_position_embeddings": 512,
        },
        "num_query_tokens": QUERIES,
        "image_token_index": tokenizer.convert_tokens_to_ids("<image>"),
        "initializer_range": m.spread,
    }


def _blip_2(m: Measures, tokenizer: Any) -> Any:
    from transformers import Blip2Config

    words = text(m, tokenizer, ffn_dim=m.inner, word_embed_proj_dim=m.hidden, init_std=m.spread)
    words = {**words, "model_type": "opt", "max_position_embeddings": 1024}
    return Blip2Config(text_config=words, **_queries(m, tokenizer))


def _instructblip(m: Measures, tokenizer: Any) -> Any:
    from transformers import InstructBlipConfig

    return InstructBlipConfig(text_config={"model_type": "llama", **text(m, tokenizer)}, **_queries(m, tokenizer))


def _instructblip_t5(m: Measures, tokenizer: Any) -> Any:
    from transformers import InstructBlipConfig

    words = {
        "model_type": "t5",
        "vocab_size": len(tokenizer),
        "d_model": m.hidden,
        "d_kv": m.hidden // m.heads,
        "d_ff": m.inner,
        "num_layers": m.layers // 2,
        "num_heads": m.heads,
        "decoder_start_token_id": tokenizer.pad_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
        "tie_word_embeddings": False,
        "initializer_factor": 1.0,
    }
    return InstructBlipConfig(text_config=words, **_queries(m, tokenizer))


def _qwen3_vl(m: Measures, tokenizer: Any) -> Any:
    from transformers import Qwen3VLConfig

    pairs = m.hidden // m.heads // 2
    side = pairs * 3 // 8
    rope = {
        "rope_type": "default",
        "rope_theta": 1e6,
        "mrope_section": [pairs - 2 * side, side, side],
        "mrope_interleaved": True,
    }
    vision = {
        "depth": m.vision_layers,
        "hidden_size": m.vision_hidden,
        "intermediate_size": m.vision_inner,
        "num_heads": m.vision_heads,
        "patch_size": 14,
        "out_hidden_size": m.hidden,
        "num_position_embeddings": 64,
        "deepstack_visual_indexes": [0, 1],
        "initializer_range": float(m.vision_hidden**-0.5),
    }
    return Qwen3VLConfig(
        text_config=text(m, tokenizer, rope_parameters=rope, head_dim=m.hidden // m.heads),
        vision_config=vision,
        **qwen_ids(tokenizer),
    )


def _words_alone(name: str, **more: Any) -> Callable[[Measures, Any], Any]:
    def make(m: Measures, tokenizer: Any) -> Any:
        import transformers

        return getattr(transformers, name)(**text(m, tokenizer, **more))

    return make


ALL_CONFIGS: Mapping[str, Callable[[Measures, Any], Any]] = MappingProxyType(
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
        "qwen2": _words_alone("Qwen2Config"),
        "mistral": _words_alone("MistralConfig", sliding_window=WINDOW),
        "gemma": _words_alone("GemmaConfig", head_dim=32, tie_word_embeddings=True),
        "gemma3_text": _words_alone("Gemma3TextConfig", sliding_window=WINDOW, head_dim=32, query_pre_attn_scalar=32),
    }
)
"""(measures, tokenizer) -> configuration of the whole model, for every architecture."""
