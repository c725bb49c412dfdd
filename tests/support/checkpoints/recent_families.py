"""Inputs of the small checkpoints of `recent_configs`: special tokens, chat templates and processors."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from jobs.demo.checkpoint import QWEN_TEMPLATE, QWEN_TOKENS
from tests.support.checkpoints.configs import CLIP_SIDE, SIGLIP_SIDE, pinpoints
from tests.support.checkpoints.families import FAMILIES, Family, qwen_processor

_MISTRAL3 = (
    "{{ bos_token }}{% for turn in messages %}"
    "{% if turn['role'] == 'system' %}[SYSTEM_PROMPT]{% elif turn['role'] == 'user' %}[INST]{% endif %}"
    "{% if turn['content'] is string %}{{ turn['content'] }}{% else %}{% for part in turn['content'] %}"
    "{% if part['type'] == 'image' %}[IMG]{% elif part['type'] == 'text' %}{{ part['text'] }}{% endif %}"
    "{% endfor %}{% endif %}"
    "{% if turn['role'] == 'system' %}[/SYSTEM_PROMPT]{% elif turn['role'] == 'user' %}[/INST]"
    "{% else %}{{ eos_token }}{% endif %}{% endfor %}"
)
_GLM = (
    "[gMASK]<sop>{% for turn in messages %}<|{{ turn['role'] }}|>\n"
    "{% if turn['content'] is string %}{{ turn['content'] }}{% else %}{% for part in turn['content'] %}"
    "{% if part['type'] == 'image' %}<|begin_of_image|><|image|><|end_of_image|>"
    "{% elif part['type'] == 'video' %}<|begin_of_video|><|video|><|end_of_video|>"
    "{% elif part['type'] == 'text' %}{{ part['text'] }}{% endif %}"
    "{% endfor %}{% endif %}{% endfor %}{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)
_GEMMA4 = (
    "{{ bos_token }}{% for turn in messages %}<|turn>{{ 'model' if turn['role'] == 'assistant' else turn['role'] }}\n"
    "{% if turn['content'] is string %}{{ turn['content'] | trim }}{% else %}{% for part in turn['content'] %}"
    "{% if part['type'] == 'image' %}<|image|>{% elif part['type'] == 'video' %}<|video|>"
    "{% elif part['type'] == 'text' %}{{ part['text'] | trim }}{% endif %}"
    "{% endfor %}{% endif %}<turn|>\n{% endfor %}{% if add_generation_prompt %}<|turn>model\n{% endif %}"
)
_LLAMA4 = (
    "{{ bos_token }}{% for turn in messages %}<|header_start|>{{ turn['role'] }}<|header_end|>\n\n"
    "{% if turn['content'] is string %}{{ turn['content'] }}{% else %}{% for part in turn['content'] %}"
    "{% if part['type'] == 'image' %}<|image|>{% elif part['type'] == 'text' %}{{ part['text'] }}{% endif %}"
    "{% endfor %}{% endif %}<|eot|>{% endfor %}"
    "{% if add_generation_prompt %}<|header_start|>assistant<|header_end|>\n\n{% endif %}"
)
_GRANITE = (
    "{% for turn in messages %}<|start_of_role|>{{ turn['role'] }}<|end_of_role|>"
    "{% if turn['content'] is string %}{{ turn['content'] }}{% else %}{% for part in turn['content'] %}"
    "{% if part['type'] == 'image' %}<image>\n{% elif part['type'] == 'text' %}{{ part['text'] }}{% endif %}"
    "{% endfor %}{% endif %}<|end_of_text|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|start_of_role|>assistant<|end_of_role|>{% endif %}"
)


def _pixtral_processor(tokenizer: Any, template: str) -> Any:
    from transformers import PixtralImageProcessor, PixtralProcessor

    return PixtralProcessor(
        image_processor=PixtralImageProcessor(size={"longest_edge": 112}, patch_size={"height": 14, "width": 14}),
        tokenizer=tokenizer,
        patch_size=14,
        spatial_merge_size=2,
        chat_template=template,
    )


def _glm_processor(tokenizer: Any, template: str) -> Any:
    import transformers

    size = {"shortest_edge": 56 * 56, "longest_edge": 28 * 28 * 1280}
    return transformers.Glm4vProcessor(
        image_processor=transformers.Glm4vImageProcessor(size=size),
        tokenizer=tokenizer,
        video_processor=transformers.Glm4vVideoProcessor(size=size),
        chat_template=template,
    )


def _gemma4_processor(tokenizer: Any, template: str) -> Any:
    import transformers

    return transformers.Gemma4Processor(
        feature_extractor=transformers.Gemma4AudioFeatureExtractor(),
        image_processor=transformers.Gemma4ImageProcessor(max_soft_tokens=70),
        tokenizer=tokenizer,
        video_processor=transformers.Gemma4VideoProcessor(),
        chat_template=template,
        image_seq_length=70,
    )


def _llama4_processor(tokenizer: Any, template: str) -> Any:
    from transformers import Llama4ImageProcessor, Llama4Processor

    side = {"height": SIGLIP_SIDE, "width": SIGLIP_SIDE}
    return Llama4Processor(
        image_processor=Llama4ImageProcessor(size=side, max_patches=4),
        tokenizer=tokenizer,
        patch_size=14,
        chat_template=template,
    )


def _lfm3_processor(tokenizer: Any, template: str) -> Any:
    import transformers

    size = {"shortest_edge": 56 * 56, "longest_edge": 28 * 28 * 1280}
    return transformers.Lfm3VlProcessor(
        image_processor=transformers.Qwen2VLImageProcessor(size=size),
        tokenizer=tokenizer,
        video_processor=transformers.Qwen3VLVideoProcessor(size=size, patch_size=14),
        chat_template=template,
    )


def _granite_processor(tokenizer: Any, template: str) -> Any:
    from transformers import Granite4VisionProcessor, LlavaNextImageProcessor

    side = {"height": CLIP_SIDE, "width": CLIP_SIDE}
    return Granite4VisionProcessor(
        image_processor=LlavaNextImageProcessor(size=side, crop_size=side, image_grid_pinpoints=pinpoints(CLIP_SIDE)),
        tokenizer=tokenizer,
        patch_size=14,
        vision_feature_select_strategy="full",
        downsample_rate="2/4",
        chat_template=template,
    )


_GLM_TOKENS = {
    "eos_token": "<|user|>",
    "pad_token": "<|endoftext|>",
    "image_token": "<|image|>",
    "video_token": "<|video|>",
    "mask_token_start": "[gMASK]",
    "start_token": "<sop>",
    "system_token": "<|system|>",
    "assistant_token": "<|assistant|>",
    **{f"{word}_{kind}_token": f"<|{word}_of_{kind}|>" for word in ("begin", "end") for kind in ("image", "video")},
}
_QWEN3_VL = Family(special=QWEN_TOKENS, template=QWEN_TEMPLATE, processor=qwen_processor("Qwen3VLProcessor"))
_GLM_FAMILY = Family(special=_GLM_TOKENS, template=_GLM, processor=_glm_processor)

RECENT_FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        "qwen3_vl_moe": _QWEN3_VL,
        "qwen3_5": _QWEN3_VL,
        "qwen3_5_moe": _QWEN3_VL,
        "mistral3": Family(
            special={
                "bos_token": "<s>",
                "eos_token": "</s>",
                "pad_token": "<pad>",
                "image_token": "[IMG]",
                "image_break_token": "[IMG_BREAK]",
                "image_end_token": "[IMG_END]",
                **{f"{name}_token": f"[{name}]" for name in ("INST", "/INST", "SYSTEM_PROMPT", "/SYSTEM_PROMPT")},
            },
            template=_MISTRAL3,
            processor=_pixtral_processor,
        ),
        "glm4v": _GLM_FAMILY,
        "glm4v_moe": _GLM_FAMILY,
        "gemma4": Family(
            special={
                "bos_token": "<bos>",
                "eos_token": "<turn|>",
                "pad_token": "<pad>",
                "start_token": "<|turn>",
                "video_token": "<|video|>",
                **{f"{kind}_token": f"<|{kind}|>" for kind in ("image", "audio")},
                **{f"bo{kind[0]}_token": f"<|{kind}>" for kind in ("image", "audio")},
                **{f"eo{kind[0]}_token": f"<{kind}|>" for kind in ("image", "audio")},
            },
            template=_GEMMA4,
            processor=_gemma4_processor,
        ),
        "llama4": Family(
            special={
                **FAMILIES["llama"].special,
                "eos_token": "<|eot|>",
                "header_start_token": "<|header_start|>",
                "header_end_token": "<|header_end|>",
                **{
                    f"{name}_token": f"<|{name}|>"
                    for name in ("image", "image_start", "image_end", "patch", "tile_x_separator", "tile_y_separator")
                },
            },
            template=_LLAMA4,
            processor=_llama4_processor,
        ),
        "lfm3_vl": Family(special=QWEN_TOKENS, template=QWEN_TEMPLATE, processor=_lfm3_processor),
        "granite4_vision": Family(
            special={
                "bos_token": "<|end_of_text|>",
                "eos_token": "<|end_of_text|>",
                "pad_token": "<|pad|>",
                "image_token": "<image>",
                "role_start_token": "<|start_of_role|>",
                "role_end_token": "<|end_of_role|>",
            },
            template=_GRANITE,
            processor=_granite_processor,
        ),
    }
)
