"""Inputs of the small checkpoints of `recent_configs`: special tokens, chat templates and processors."""

from __future__ import annotations

from collections.abc import Mapping

from jobs.demo.checkpoint import QWEN_TEMPLATE, QWEN_TOKENS
from tests.support.checkpoints.configs import CLIP_SIDE, of, pinpoints
from tests.support.checkpoints.families import CLIP, LLAMA_TOKENS, QWEN_SIZE, SIGLIP, Family, chatml, qwen_processor

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
_GEMMA4_TOKENS = {
    "bos_token": "<bos>",
    "eos_token": "<turn|>",
    "pad_token": "<pad>",
    "start_token": "<|turn>",
    "video_token": "<|video|>",
    **{f"{kind}_token": f"<|{kind}|>" for kind in ("image", "audio")},
    **{f"bo{kind[0]}_token": f"<|{kind}>" for kind in ("image", "audio")},
    **{f"eo{kind[0]}_token": f"<{kind}|>" for kind in ("image", "audio")},
}
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
_QWEN3_VL = Family(
    special=QWEN_TOKENS, template=QWEN_TEMPLATE, processor=qwen_processor("Qwen3VLProcessor", "Qwen3VLVideoProcessor")
)
_GLM_FAMILY = Family(
    special=_GLM_TOKENS,
    template=_GLM,
    processor=of(
        "Glm4vProcessor",
        image_processor=of("Glm4vImageProcessor", size=QWEN_SIZE),
        video_processor=of("Glm4vVideoProcessor", size=QWEN_SIZE),
    ),
)
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
_MINICPM_TOKENS = {
    **QWEN_TOKENS,
    **{
        f"{name}_{end}_token": f"<{slash}{name}>"
        for name in ("image", "slice", "image_id")
        for end, slash in (("start", ""), ("end", "/"))
    },
}


def _minicpm(name: str) -> Family:
    slices = {"scale_resolution": CLIP_SIDE, "max_slice_nums": 2}
    return Family(
        special=_MINICPM_TOKENS,
        template=chatml("<|image_pad|>\n", "<|video_pad|>\n"),
        processor=of(
            name,
            image_processor=of("MiniCPMV4_6ImageProcessor", **slices),
            video_processor=of("MiniCPMV4_6VideoProcessor", **slices),
        ),
    )


RECENT_FAMILIES: Mapping[str, Family] = {
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
        processor=of(
            "PixtralProcessor",
            image_processor=of(
                "PixtralImageProcessor", size={"longest_edge": 112}, patch_size={"height": 14, "width": 14}
            ),
            patch_size=14,
            spatial_merge_size=2,
        ),
    ),
    "glm4v": _GLM_FAMILY,
    "glm4v_moe": _GLM_FAMILY,
    "gemma4": Family(
        special=_GEMMA4_TOKENS,
        template=_GEMMA4,
        processor=of(
            "Gemma4Processor",
            feature_extractor=of("Gemma4AudioFeatureExtractor"),
            image_processor=of("Gemma4ImageProcessor", max_soft_tokens=70),
            video_processor=of("Gemma4VideoProcessor"),
            image_seq_length=70,
        ),
    ),
    "llama4": Family(
        special={
            **LLAMA_TOKENS,
            "eos_token": "<|eot|>",
            "header_start_token": "<|header_start|>",
            "header_end_token": "<|header_end|>",
            **{
                f"{name}_token": f"<|{name}|>"
                for name in ("image", "image_start", "image_end", "patch", "tile_x_separator", "tile_y_separator")
            },
        },
        template=_LLAMA4,
        processor=of(
            "Llama4Processor", image_processor=of("Llama4ImageProcessor", size=SIGLIP, max_patches=4), patch_size=14
        ),
    ),
    "lfm3_vl": Family(
        special=QWEN_TOKENS,
        template=QWEN_TEMPLATE,
        processor=of(
            "Lfm3VlProcessor",
            image_processor=of("Qwen2VLImageProcessor", size=QWEN_SIZE),
            video_processor=of("Qwen3VLVideoProcessor", size=QWEN_SIZE, patch_size=14),
        ),
    ),
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
        processor=of(
            "Granite4VisionProcessor",
            image_processor=of(
                "LlavaNextImageProcessor", size=CLIP, crop_size=CLIP, image_grid_pinpoints=pinpoints(CLIP_SIDE)
            ),
            patch_size=14,
            vision_feature_select_strategy="full",
            downsample_rate="2/4",
        ),
    ),
    "gemma4_unified": Family(
        special=_GEMMA4_TOKENS,
        template=_GEMMA4,
        processor=of(
            "Gemma4UnifiedProcessor",
            feature_extractor=of("Gemma4UnifiedAudioFeatureExtractor"),
            image_processor=of("Gemma4UnifiedImageProcessor", max_soft_tokens=70),
            video_processor=of("Gemma4UnifiedVideoProcessor"),
            image_seq_length=70,
        ),
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
        processor=of(
            "Ernie4_5_VLMoeProcessor",
            image_processor=of("Ernie4_5_VLMoeImageProcessor", size=QWEN_SIZE),
            # The released processor writes times on frames with a font that lies beside the weights.
            video_processor=of("Ernie4_5_VLMoeVideoProcessor", size=QWEN_SIZE, draw_on_frames=False, font=""),
        ),
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
        processor=of(
            "Molmo2Processor",
            image_processor=of("Molmo2ImageProcessor", size=CLIP, max_crops=2, overlap_margins=[1, 1]),
            video_processor=of("Molmo2VideoProcessor", size=CLIP),
        ),
    ),
    "muse_glimmer": Family(
        special={
            **LLAMA_TOKENS,
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
        template=_LLAMA4.replace("<|image|>{% elif", "<|patch|>{% elif part['type'] == 'video' %}<|video|>{% elif"),
        processor=of(
            "MuseGlimmerProcessor",
            image_processor=of("MuseGlimmerImageProcessor", max_image_tokens=16),
            video_processor=of("MuseGlimmerVideoProcessor", max_video_frame_tokens=9),
        ),
    ),
    "minicpmv4_6": _minicpm("MiniCPMV4_6Processor"),
    "minicpmv4_7": _minicpm("MiniCPMV4_7Processor"),
}
