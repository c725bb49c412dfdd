"""Inputs of the small checkpoints of `newest_configs`: special tokens, chat templates and processors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from jobs.demo.checkpoint import QWEN_TOKENS
from tests.support.checkpoints.configs import CLIP_SIDE
from tests.support.checkpoints.families import FAMILIES, Family, chatml
from tests.support.checkpoints.recent_families import RECENT_FAMILIES

_ERNIE = (
    "<|begin_of_sentence|>{% for turn in messages %}{% if turn['role'] == 'assistant' %}Assistant: "
    "{% elif turn['role'] == 'user' %}User: {% endif %}"
    "{% if turn['content'] is string %}{{ turn['content'] }}{% else %}{% for part in turn['content'] %}"
    "{% if part['type'] == 'image' %}Picture:<|IMAGE_START|><|IMAGE_PLACEHOLDER|><|IMAGE_END|>"
    "{% elif part['type'] == 'video' %}Video:<|VIDEO_START|><|VIDEO_PLACEHOLDER|><|VIDEO_END|>"
    "{% elif part['type'] == 'text' %}{{ part['text'] }}{% endif %}"
    "{% endfor %}{% endif %}{{ '<|end_of_sentence|>' if turn['role'] == 'assistant' else '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}Assistant: {% endif %}"
)


def _gemma4_unified_processor(tokenizer: Any, template: str) -> Any:
    import transformers

    return transformers.Gemma4UnifiedProcessor(
        feature_extractor=transformers.Gemma4UnifiedAudioFeatureExtractor(),
        image_processor=transformers.Gemma4UnifiedImageProcessor(max_soft_tokens=70),
        tokenizer=tokenizer,
        video_processor=transformers.Gemma4UnifiedVideoProcessor(),
        chat_template=template,
        image_seq_length=70,
    )


def _ernie_processor(tokenizer: Any, template: str) -> Any:
    import transformers

    size = {"shortest_edge": 56 * 56, "longest_edge": 28 * 28 * 1280}
    return transformers.Ernie4_5_VLMoeProcessor(
        image_processor=transformers.Ernie4_5_VLMoeImageProcessor(size=size),
        tokenizer=tokenizer,
        # The released processor writes times on frames with a font that lies beside the weights.
        video_processor=transformers.Ernie4_5_VLMoeVideoProcessor(size=size, draw_on_frames=False, font=""),
        chat_template=template,
    )


def _molmo2_processor(tokenizer: Any, template: str) -> Any:
    import transformers

    size = {"height": CLIP_SIDE, "width": CLIP_SIDE}
    return transformers.Molmo2Processor(
        image_processor=transformers.Molmo2ImageProcessor(size=size, max_crops=2, overlap_margins=[1, 1]),
        tokenizer=tokenizer,
        video_processor=transformers.Molmo2VideoProcessor(size=size),
        chat_template=template,
    )


def _muse_processor(tokenizer: Any, template: str) -> Any:
    import transformers

    return transformers.MuseGlimmerProcessor(
        image_processor=transformers.MuseGlimmerImageProcessor(max_image_tokens=16),
        tokenizer=tokenizer,
        video_processor=transformers.MuseGlimmerVideoProcessor(max_video_frame_tokens=9),
        chat_template=template,
    )


def _minicpm_processor(name: str) -> Callable[[Any, str], Any]:
    def make(tokenizer: Any, template: str) -> Any:
        import transformers

        slices = {"scale_resolution": CLIP_SIDE, "max_slice_nums": 2}
        return getattr(transformers, name)(
            image_processor=transformers.MiniCPMV4_6ImageProcessor(**slices),
            video_processor=transformers.MiniCPMV4_6VideoProcessor(**slices),
            tokenizer=tokenizer,
            chat_template=template,
        )

    return make


_MINICPM_TOKENS = {
    **QWEN_TOKENS,
    **{
        f"{name}_{end}_token": f"<{slash}{name}>"
        for name in ("image", "slice", "image_id")
        for end, slash in (("start", ""), ("end", "/"))
    },
}


def _minicpm(name: str) -> Family:
    return Family(
        special=_MINICPM_TOKENS,
        template=chatml("<|image_pad|>\n", "<|video_pad|>\n"),
        processor=_minicpm_processor(name),
    )


NEWEST_FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        "gemma4_unified": Family(
            special=RECENT_FAMILIES["gemma4"].special,
            template=RECENT_FAMILIES["gemma4"].template,
            processor=_gemma4_unified_processor,
        ),
        "ernie4_5_vl_moe": Family(
            special={
                "bos_token": "<|begin_of_sentence|>",
                "eos_token": "<|end_of_sentence|>",
                "pad_token": "<unk>",
                **{
                    f"{kind}_{name}token": f"<|{kind.upper()}_{mark}|>"
                    for kind in ("image", "video")
                    for name, mark in (("", "PLACEHOLDER"), ("start_", "START"), ("end_", "END"))
                },
            },
            template=_ERNIE,
            processor=_ernie_processor,
        ),
        "molmo2": Family(
            special={
                "bos_token": "<|im_end|>",
                "eos_token": "<|im_end|>",
                "pad_token": "<|endoftext|>",
                "start_token": "<|im_start|>",
                "image_token": "<|image|>",
                "video_token": "<|video|>",
                **{
                    f"{name}_token": f"<{name}>"
                    for name in ("im_patch", "im_col", "im_start", "low_res_im_start", "im_end", "im_low")
                },
                **{f"{name}_token": f"<{name}>" for name in ("frame_start", "frame_end")},
            },
            template=chatml("<|image|>", "<|video|>"),
            processor=_molmo2_processor,
        ),
        "muse_glimmer": Family(
            special={
                **FAMILIES["llama"].special,
                "eos_token": "<|eot|>",
                "header_start_token": "<|header_start|>",
                "header_end_token": "<|header_end|>",
                "image_token": "<|patch|>",
                "video_token": "<|video|>",
                "picture_token": "<|image|>",
                **{
                    f"{name}_token": f"<|{name}|>"
                    for name in ("image_start", "image_end", "vid_start", "vid_end", "vid_frame_separator")
                },
            },
            template=RECENT_FAMILIES["llama4"].template.replace(
                "<|image|>{% elif", "<|patch|>{% elif part['type'] == 'video' %}<|video|>{% elif"
            ),
            processor=_muse_processor,
        ),
        "minicpmv4_6": _minicpm("MiniCPMV4_6Processor"),
        "minicpmv4_7": _minicpm("MiniCPMV4_7Processor"),
    }
)
