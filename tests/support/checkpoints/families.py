"""Inputs of the small checkpoints: special tokens, chat template and processor of each architecture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from jobs.demo.checkpoint import QWEN_TEMPLATE, QWEN_TOKENS
from tests.support.checkpoints.configs import CLIP_SIDE, QUERIES, SIGLIP_SIDE, TILES, Part, of, pinpoints

CLIP, SIGLIP = ({"height": side, "width": side} for side in (CLIP_SIDE, SIGLIP_SIDE))
QWEN_SIZE = {"shortest_edge": 56 * 56, "longest_edge": 28 * 28 * 1280}


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One architecture: its special tokens, its chat template, and its processor."""

    special: Mapping[str, str]
    """Name -> token, as the processor asks for them; `eos_token` ends a turn."""
    template: str
    processor: Part | None
    """Without tokenizer and template; None for a model that reads text alone."""
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
_GEMMA = (
    "{{ bos_token }}{% for turn in messages %}<start_of_turn>"
    "{{ 'model' if turn['role'] == 'assistant' else turn['role'] }}\n"
    "{% if turn['content'] is string %}{{ turn['content'] | trim }}{% else %}{% for part in turn['content'] %}"
    "{% if part['type'] == 'image' %}<start_of_image>"
    "{% elif part['type'] == 'text' %}{{ part['text'] | trim }}{% endif %}"
    "{% endfor %}{% endif %}<end_of_turn>\n{% endfor %}"
    "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)
_PHI = (
    "{% for turn in messages %}<|{{ turn['role'] }}|>"
    "{% if turn['content'] is string %}{{ turn['content'] }}{% else %}{% for part in turn['content'] %}"
    "{% if part['type'] == 'image' %}<|endoftext10|>{% elif part['type'] == 'text' %}{{ part['text'] }}{% endif %}"
    "{% endfor %}{% endif %}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
_MLLAMA = (
    "{{ bos_token }}{% for turn in messages %}<|start_header_id|>{{ turn['role'] }}<|end_header_id|>\n\n"
    "{% if turn['content'] is string %}{{ turn['content'] }}{% else %}{% for part in turn['content'] %}"
    "{% if part['type'] == 'image' %}<|image|>{% elif part['type'] == 'text' %}{{ part['text'] }}{% endif %}"
    "{% endfor %}{% endif %}<|eot_id|>{% endfor %}"
    "{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"
)
_MISTRAL = (
    "{{ bos_token }}{% for turn in messages %}{% if turn['role'] == 'assistant' %}{{ turn['content'] }}{{ eos_token }}"
    "{% else %}[INST]{{ turn['content'] }}[/INST]{% endif %}{% endfor %}"
)
LLAMA_TOKENS = {
    "bos_token": "<|begin_of_text|>",
    "eos_token": "<|eot_id|>",
    "pad_token": "<|pad|>",
    "header_start_token": "<|start_header_id|>",
    "header_end_token": "<|end_header_id|>",
}
_GEMMA_TOKENS = {
    "bos_token": "<bos>",
    "eos_token": "<end_of_turn>",
    "pad_token": "<pad>",
    "start_token": "<start_of_turn>",
}
_OVIS_TOKENS = {
    "eos_token": "<|im_end|>",
    "pad_token": "<|endoftext|>",
    "start_token": "<|im_start|>",
    "image_token": "<image>",
    **{f"image_{name.lower()}": f"<IMG_{name}>" for name in ("ATOM", "START", "GRID", "COL", "ROW", "END")},
}
_BLIP_TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
"""Their processors add the picture's token by themselves."""


def chatml(image: str, video: str) -> str:
    """Return Qwen's chat template with other placeholders for a picture and a clip."""
    return QWEN_TEMPLATE.replace("<|vision_start|><|image_pad|><|vision_end|>", image).replace(
        "<|vision_start|><|video_pad|><|vision_end|>", video
    )


def qwen_processor(name: str, video: str = "Qwen2VLVideoProcessor") -> Part:
    """Return a processor of the Qwen2-VL family, by its class."""
    return of(
        name,
        image_processor=of("Qwen2VLImageProcessor", size=QWEN_SIZE),
        video_processor=of(video, size=QWEN_SIZE, patch_size=14),
    )


FAMILIES: Mapping[str, Family] = {
    "qwen2_5_vl": Family(special=QWEN_TOKENS, template=QWEN_TEMPLATE, processor=qwen_processor("Qwen2_5_VLProcessor")),
    "qwen2_vl": Family(special=QWEN_TOKENS, template=QWEN_TEMPLATE, processor=qwen_processor("Qwen2VLProcessor")),
    "llava": Family(
        special=VICUNA_TOKENS,
        template=VICUNA,
        processor=of(
            "LlavaProcessor",
            image_processor=of("LlavaImageProcessor", size={"shortest_edge": CLIP_SIDE}, crop_size=CLIP),
            patch_size=14,
            vision_feature_select_strategy="default",
            num_additional_image_tokens=1,
        ),
    ),
    "llava_next": Family(
        special=VICUNA_TOKENS,
        template=VICUNA,
        processor=of(
            "LlavaNextProcessor",
            image_processor=of(
                "LlavaNextImageProcessor",
                size={"shortest_edge": CLIP_SIDE},
                crop_size=CLIP,
                image_grid_pinpoints=pinpoints(CLIP_SIDE),
            ),
            patch_size=14,
            vision_feature_select_strategy="default",
            num_additional_image_tokens=1,
        ),
    ),
    "llava_onevision": Family(
        special={**_IM, "image_token": "<image>", "video_token": "<video>"},
        template=chatml("<image>\n", "<video>\n"),
        processor=of(
            "LlavaOnevisionProcessor",
            image_processor=of(
                "LlavaOnevisionImageProcessor", size=SIGLIP, image_grid_pinpoints=pinpoints(SIGLIP_SIDE)
            ),
            video_processor=of("LlavaOnevisionVideoProcessor", size=SIGLIP),
            num_image_tokens=(SIGLIP_SIDE // 14) ** 2,
            vision_feature_select_strategy="full",
        ),
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
        processor=of(
            "InternVLProcessor",
            image_processor=of("GotOcr2ImageProcessor", size=SIGLIP, max_patches=4),
            video_processor=of("InternVLVideoProcessor", size=SIGLIP),
            image_seq_length=(SIGLIP_SIDE // 28) ** 2,
        ),
    ),
    "idefics3": Family(
        special=IDEFICS_TOKENS,
        template=IDEFICS,
        processor=of(
            "Idefics3Processor",
            image_processor=of(
                "Idefics3ImageProcessor",
                size={"longest_edge": 2 * SIGLIP_SIDE},
                max_image_size={"longest_edge": SIGLIP_SIDE},
            ),
            image_seq_len=(SIGLIP_SIDE // 28) ** 2,
        ),
    ),
    "llama": Family(special=LLAMA_TOKENS, template=_LLAMA, processor=None),
    "llava_next_video": Family(
        special={**VICUNA_TOKENS, "video_token": "<video>"},
        template=VICUNA.replace("{% elif", "{% elif part['type'] == 'video' %}<video>\n{% elif", 1),
        processor=of(
            "LlavaNextVideoProcessor",
            image_processor=of(
                "LlavaNextImageProcessor",
                size={"shortest_edge": CLIP_SIDE},
                crop_size=CLIP,
                image_grid_pinpoints=pinpoints(CLIP_SIDE),
            ),
            video_processor=of("LlavaNextVideoVideoProcessor", size={"shortest_edge": CLIP_SIDE}, crop_size=CLIP),
            patch_size=14,
            vision_feature_select_strategy="default",
            num_additional_image_tokens=1,
        ),
    ),
    "idefics2": Family(
        special={
            "bos_token": "<s>",
            "eos_token": "<end_of_utterance>",
            "pad_token": "<pad>",
            "image_token": "<image>",
            "image_boundary_token": "<fake_token_around_image>",
        },
        template=IDEFICS.replace("<|begin_of_text|>", "<s>"),
        processor=of(
            "Idefics2Processor",
            image_processor=of(
                "Idefics2ImageProcessor",
                size={"shortest_edge": SIGLIP_SIDE // 2, "longest_edge": SIGLIP_SIDE},
                do_image_splitting=True,
            ),
            image_seq_len=QUERIES,
        ),
    ),
    "smolvlm": Family(
        special={**IDEFICS_TOKENS, "video_token": "<video>"},
        template=IDEFICS.replace("{% elif", "{% elif part['type'] == 'video' %}<video>{% elif", 1),
        processor=of(
            "SmolVLMProcessor",
            image_processor=of(
                "SmolVLMImageProcessor",
                size={"longest_edge": 2 * SIGLIP_SIDE},
                max_image_size={"longest_edge": SIGLIP_SIDE},
            ),
            video_processor=of(
                "SmolVLMVideoProcessor",
                size={"longest_edge": 2 * SIGLIP_SIDE},
                max_image_size={"longest_edge": SIGLIP_SIDE},
                num_frames=64,
                fps=1,
            ),
            image_seq_len=(SIGLIP_SIDE // 28) ** 2,
        ),
    ),
    "ovis2": Family(
        special=_OVIS_TOKENS,
        template=chatml("<image>\n", ""),
        processor=of(
            "Ovis2Processor",
            image_processor=of("Ovis2ImageProcessor", size=SIGLIP, crop_to_patches=True, max_patches=4),
            image_seq_length=(SIGLIP_SIDE // 28) ** 2,
        ),
    ),
    "gemma3": Family(
        special={
            **_GEMMA_TOKENS,
            "boi_token": "<start_of_image>",
            "eoi_token": "<end_of_image>",
            "image_token": "<image_soft_token>",
        },
        template=_GEMMA,
        processor=of(
            "Gemma3Processor",
            image_processor=of("Gemma3ImageProcessor", size=CLIP),
            image_seq_length=(CLIP_SIDE // 28) ** 2,
        ),
    ),
    "phi4_multimodal": Family(
        special={
            "bos_token": "<|endoftext|>",
            "eos_token": "<|end|>",
            "pad_token": "<|endoftext|>",
            "image_token": "<|endoftext10|>",
            "audio_token": "<|endoftext11|>",
            **{f"{role}_token": f"<|{role}|>" for role in ("system", "user", "assistant")},
        },
        template=_PHI,
        processor=of(
            "Phi4MultimodalProcessor",
            image_processor=of("Phi4MultimodalImageProcessor", dynamic_hd=2),
            audio_processor=of("Phi4MultimodalFeatureExtractor"),
        ),
    ),
    "mllama": Family(
        special={**LLAMA_TOKENS, "python_token": "<|python_tag|>", "image_token": "<|image|>"},
        template=_MLLAMA,
        processor=of("MllamaProcessor", image_processor=of("MllamaImageProcessor", size=SIGLIP, max_image_tiles=TILES)),
    ),
    "blip-2": Family(
        special={**_BLIP_TOKENS, "bos_token": "</s>"},
        template="",
        processor=of("Blip2Processor", image_processor=of("BlipImageProcessor", size=SIGLIP), num_query_tokens=QUERIES),
        prepends_bos=True,
    ),
    "instructblip": Family(
        special=_BLIP_TOKENS,
        template="",
        processor=of(
            "InstructBlipProcessor", image_processor=of("BlipImageProcessor", size=SIGLIP), num_query_tokens=QUERIES
        ),
        prepends_bos=True,
    ),
    "instructblip_t5": Family(
        special=_BLIP_TOKENS,
        template="",
        processor=of(
            "InstructBlipProcessor", image_processor=of("BlipImageProcessor", size=SIGLIP), num_query_tokens=QUERIES
        ),
    ),
    "qwen3_vl": Family(
        special=QWEN_TOKENS,
        template=QWEN_TEMPLATE,
        processor=qwen_processor("Qwen3VLProcessor", "Qwen3VLVideoProcessor"),
    ),
    "qwen2": Family(special=QWEN_TOKENS, template=QWEN_TEMPLATE, processor=None),
    "mistral": Family(
        special={"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "b": "[INST]", "e": "[/INST]"},
        template=_MISTRAL,
        processor=None,
    ),
    "gemma": Family(special=_GEMMA_TOKENS, template=_GEMMA, processor=None),
    "gemma3_text": Family(special=_GEMMA_TOKENS, template=_GEMMA, processor=None),
}
