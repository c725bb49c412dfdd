"""Inputs of the small checkpoints: special tokens, chat template and processor of each architecture."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from jobs.demo.checkpoint import QWEN_TEMPLATE, QWEN_TOKENS
from tests.support.checkpoints.configs import CLIP_SIDE, SIGLIP_SIDE, pinpoints


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One architecture: its special tokens, its chat template, and its processor."""

    special: Mapping[str, str]
    """Name -> token, as the processor asks for them; `eos_token` ends a turn."""
    template: str
    processor: Callable[[Any, str], Any] | None
    """(tokenizer, template) -> processor; None for a model that reads text alone."""
    prepends_bos: bool = False
    """The tokenizer puts `bos_token` before every text, as those of models without a chat template do."""


VICUNA = (
    "{% for turn in messages %}{{ turn['role'] | upper }}: "
    "{% for part in turn['content'] %}"
    "{% if part['type'] == 'image' %}<image>\n{% elif part['type'] == 'text' %}{{ part['text'] }}{% endif %}"
    "{% endfor %}{% if turn['role'] == 'assistant' %}</s>{% else %} {% endif %}{% endfor %}"
    "{% if add_generation_prompt %}ASSISTANT:{% endif %}"
)
IDEFICS = (
    "<|begin_of_text|>{% for turn in messages %}{{ turn['role'] | capitalize }}:"
    "{% for part in turn['content'] %}"
    "{% if part['type'] == 'image' %}<image>{% elif part['type'] == 'text' %}{{ part['text'] }}{% endif %}"
    "{% endfor %}<end_of_utterance>\n{% endfor %}"
    "{% if add_generation_prompt %}Assistant:{% endif %}"
)
_LLAMA = (
    "<|begin_of_text|>{% for turn in messages %}<|start_header_id|>{{ turn['role'] }}<|end_header_id|>\n\n"
    "{{ turn['content'] | trim }}<|eot_id|>{% endfor %}"
    "{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"
)


def chatml(image: str, video: str) -> str:
    """Return Qwen's chat template with other placeholders for a picture and a clip."""
    return QWEN_TEMPLATE.replace("<|vision_start|><|image_pad|><|vision_end|>", image).replace(
        "<|vision_start|><|video_pad|><|vision_end|>", video
    )


def qwen_processor(name: str) -> Callable[[Any, str], Any]:
    """Return the factory of a processor of the Qwen2-VL family, by its class."""

    def make(tokenizer: Any, template: str) -> Any:
        import transformers

        size = {"shortest_edge": 56 * 56, "longest_edge": 28 * 28 * 1280}
        films = transformers.Qwen3VLVideoProcessor if "Qwen3" in name else transformers.Qwen2VLVideoProcessor
        return getattr(transformers, name)(
            image_processor=transformers.Qwen2VLImageProcessor(size=size),
            tokenizer=tokenizer,
            video_processor=films(size=size, patch_size=14),
            chat_template=template,
        )

    return make


def _llava_processor(tokenizer: Any, template: str) -> Any:
    from transformers import LlavaImageProcessor, LlavaProcessor

    side = {"height": CLIP_SIDE, "width": CLIP_SIDE}
    return LlavaProcessor(
        image_processor=LlavaImageProcessor(size={"shortest_edge": CLIP_SIDE}, crop_size=side),
        tokenizer=tokenizer,
        patch_size=14,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=template,
    )


def _llava_next_processor(tokenizer: Any, template: str) -> Any:
    from transformers import LlavaNextImageProcessor, LlavaNextProcessor

    return LlavaNextProcessor(
        image_processor=LlavaNextImageProcessor(
            size={"shortest_edge": CLIP_SIDE},
            crop_size={"height": CLIP_SIDE, "width": CLIP_SIDE},
            image_grid_pinpoints=pinpoints(CLIP_SIDE),
        ),
        tokenizer=tokenizer,
        patch_size=14,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=template,
    )


def _llava_onevision_processor(tokenizer: Any, template: str) -> Any:
    import transformers

    size = {"height": SIGLIP_SIDE, "width": SIGLIP_SIDE}
    return transformers.LlavaOnevisionProcessor(
        image_processor=transformers.LlavaOnevisionImageProcessor(
            size=size, image_grid_pinpoints=pinpoints(SIGLIP_SIDE)
        ),
        tokenizer=tokenizer,
        video_processor=transformers.LlavaOnevisionVideoProcessor(size=size),
        num_image_tokens=(SIGLIP_SIDE // 14) ** 2,
        vision_feature_select_strategy="full",
        chat_template=template,
    )


def _internvl_processor(tokenizer: Any, template: str) -> Any:
    import transformers

    size = {"height": SIGLIP_SIDE, "width": SIGLIP_SIDE}
    return transformers.InternVLProcessor(
        image_processor=transformers.GotOcr2ImageProcessor(size=size, max_patches=4),
        tokenizer=tokenizer,
        video_processor=transformers.InternVLVideoProcessor(size=size),
        image_seq_length=(SIGLIP_SIDE // 28) ** 2,
        chat_template=template,
    )


def _idefics3_processor(tokenizer: Any, template: str) -> Any:
    from transformers import Idefics3ImageProcessor, Idefics3Processor

    return Idefics3Processor(
        image_processor=Idefics3ImageProcessor(
            size={"longest_edge": 2 * SIGLIP_SIDE}, max_image_size={"longest_edge": SIGLIP_SIDE}
        ),
        tokenizer=tokenizer,
        image_seq_len=(SIGLIP_SIDE // 28) ** 2,
        chat_template=template,
    )


_IM = {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "start_token": "<|im_start|>"}
VICUNA_TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "image_token": "<image>"}
IDEFICS_TOKENS = {
    "bos_token": "<|begin_of_text|>",
    "eos_token": "<end_of_utterance>",
    "pad_token": "<pad>",
    "image_token": "<image>",
    "fake_image_token": "<fake_token_around_image>",
    "global_image_token": "<global-img>",
    **{f"row_{r}_col_{c}": f"<row_{r}_col_{c}>" for r in range(1, 7) for c in range(1, 7)},
}
FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        "qwen2_5_vl": Family(
            special=QWEN_TOKENS,
            template=QWEN_TEMPLATE,
            processor=qwen_processor("Qwen2_5_VLProcessor"),
        ),
        "qwen2_vl": Family(
            special=QWEN_TOKENS,
            template=QWEN_TEMPLATE,
            processor=qwen_processor("Qwen2VLProcessor"),
        ),
        "llava": Family(special=VICUNA_TOKENS, template=VICUNA, processor=_llava_processor),
        "llava_next": Family(special=VICUNA_TOKENS, template=VICUNA, processor=_llava_next_processor),
        "llava_onevision": Family(
            special={**_IM, "image_token": "<image>", "video_token": "<video>"},
            template=chatml("<image>\n", "<video>\n"),
            processor=_llava_onevision_processor,
        ),
        "internvl": Family(
            special={
                **_IM,
                "start_image_token": "<img>",
                "end_image_token": "</img>",
                "context_image_token": "<IMG_CONTEXT>",
                "video_token": "<video>",
            },
            template=chatml("<IMG_CONTEXT>\n", "<video>\n"),
            processor=_internvl_processor,
        ),
        "idefics3": Family(special=IDEFICS_TOKENS, template=IDEFICS, processor=_idefics3_processor),
        "llama": Family(
            special={
                "bos_token": "<|begin_of_text|>",
                "eos_token": "<|eot_id|>",
                "pad_token": "<|pad|>",
                "header_start_token": "<|start_header_id|>",
                "header_end_token": "<|end_header_id|>",
            },
            template=_LLAMA,
            processor=None,
        ),
    }
)
