"""Inputs of the small checkpoints of `more_configs`: special tokens, chat templates and processors."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from jobs.demo.checkpoint import QWEN_TEMPLATE, QWEN_TOKENS
from tests.support.checkpoints.configs import CLIP_SIDE, SIGLIP_SIDE, pinpoints
from tests.support.checkpoints.families import (
    FAMILIES,
    IDEFICS,
    IDEFICS_TOKENS,
    VICUNA,
    VICUNA_TOKENS,
    Family,
    chatml,
    qwen_processor,
)
from tests.support.checkpoints.more_configs import QUERIES, TILES

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


def _llava_next_video_processor(tokenizer: Any, template: str) -> Any:
    import transformers

    side = {"height": CLIP_SIDE, "width": CLIP_SIDE}
    return transformers.LlavaNextVideoProcessor(
        image_processor=transformers.LlavaNextImageProcessor(
            size={"shortest_edge": CLIP_SIDE}, crop_size=side, image_grid_pinpoints=pinpoints(CLIP_SIDE)
        ),
        tokenizer=tokenizer,
        video_processor=transformers.LlavaNextVideoVideoProcessor(size={"shortest_edge": CLIP_SIDE}, crop_size=side),
        patch_size=14,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=template,
    )


def _idefics2_processor(tokenizer: Any, template: str) -> Any:
    from transformers import Idefics2ImageProcessor, Idefics2Processor

    size = {"shortest_edge": SIGLIP_SIDE // 2, "longest_edge": SIGLIP_SIDE}
    return Idefics2Processor(
        image_processor=Idefics2ImageProcessor(size=size, do_image_splitting=True),
        tokenizer=tokenizer,
        image_seq_len=QUERIES,
        chat_template=template,
    )


def _smolvlm_processor(tokenizer: Any, template: str) -> Any:
    import transformers

    size = {"longest_edge": 2 * SIGLIP_SIDE}
    part = {"longest_edge": SIGLIP_SIDE}
    return transformers.SmolVLMProcessor(
        image_processor=transformers.SmolVLMImageProcessor(size=size, max_image_size=part),
        tokenizer=tokenizer,
        video_processor=transformers.SmolVLMVideoProcessor(size=size, max_image_size=part, num_frames=64, fps=1),
        image_seq_len=(SIGLIP_SIDE // 28) ** 2,
        chat_template=template,
    )


def _ovis2_processor(tokenizer: Any, template: str) -> Any:
    from transformers import Ovis2ImageProcessor, Ovis2Processor

    return Ovis2Processor(
        image_processor=Ovis2ImageProcessor(
            size={"height": SIGLIP_SIDE, "width": SIGLIP_SIDE}, crop_to_patches=True, max_patches=4
        ),
        tokenizer=tokenizer,
        image_seq_length=(SIGLIP_SIDE // 28) ** 2,
        chat_template=template,
    )


def _gemma3_processor(tokenizer: Any, template: str) -> Any:
    from transformers import Gemma3ImageProcessor, Gemma3Processor

    return Gemma3Processor(
        image_processor=Gemma3ImageProcessor(size={"height": CLIP_SIDE, "width": CLIP_SIDE}),
        tokenizer=tokenizer,
        image_seq_length=(CLIP_SIDE // 28) ** 2,
        chat_template=template,
    )


def _phi4_processor(tokenizer: Any, template: str) -> Any:
    import transformers

    return transformers.Phi4MultimodalProcessor(
        image_processor=transformers.Phi4MultimodalImageProcessor(dynamic_hd=2),
        audio_processor=transformers.Phi4MultimodalFeatureExtractor(),
        tokenizer=tokenizer,
        chat_template=template,
    )


def _mllama_processor(tokenizer: Any, template: str) -> Any:
    from transformers import MllamaImageProcessor, MllamaProcessor

    return MllamaProcessor(
        image_processor=MllamaImageProcessor(size={"height": SIGLIP_SIDE, "width": SIGLIP_SIDE}, max_image_tiles=TILES),
        tokenizer=tokenizer,
        chat_template=template,
    )


def _blip_2_processor(tokenizer: Any, _: str) -> Any:
    from transformers import Blip2Processor, BlipImageProcessor

    return Blip2Processor(
        image_processor=BlipImageProcessor(size={"height": SIGLIP_SIDE, "width": SIGLIP_SIDE}),
        tokenizer=tokenizer,
        num_query_tokens=QUERIES,
    )


def _instructblip_processor(tokenizer: Any, _: str) -> Any:
    from transformers import BlipImageProcessor, InstructBlipProcessor

    return InstructBlipProcessor(
        image_processor=BlipImageProcessor(size={"height": SIGLIP_SIDE, "width": SIGLIP_SIDE}),
        tokenizer=tokenizer,
        qformer_tokenizer=copy.deepcopy(tokenizer),
        num_query_tokens=QUERIES,
    )


_LLAMA_TOKENS = FAMILIES["llama"].special
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

_MORE = {
    "llava_next_video": Family(
        special={**VICUNA_TOKENS, "video_token": "<video>"},
        template=VICUNA.replace("{% elif", "{% elif part['type'] == 'video' %}<video>\n{% elif", 1),
        processor=_llava_next_video_processor,
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
        processor=_idefics2_processor,
    ),
    "smolvlm": Family(
        special={**IDEFICS_TOKENS, "video_token": "<video>"},
        template=IDEFICS.replace("{% elif", "{% elif part['type'] == 'video' %}<video>{% elif", 1),
        processor=_smolvlm_processor,
    ),
    "ovis2": Family(special=_OVIS_TOKENS, template=chatml("<image>\n", ""), processor=_ovis2_processor),
    "gemma3": Family(
        special={
            **_GEMMA_TOKENS,
            "boi_token": "<start_of_image>",
            "eoi_token": "<end_of_image>",
            "image_token": "<image_soft_token>",
        },
        template=_GEMMA,
        processor=_gemma3_processor,
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
        processor=_phi4_processor,
    ),
    "mllama": Family(
        special={**_LLAMA_TOKENS, "python_token": "<|python_tag|>", "image_token": "<|image|>"},
        template=_MLLAMA,
        processor=_mllama_processor,
    ),
    "blip-2": Family(
        special={**_BLIP_TOKENS, "bos_token": "</s>"}, template="", processor=_blip_2_processor, prepends_bos=True
    ),
    "instructblip": Family(special=_BLIP_TOKENS, template="", processor=_instructblip_processor, prepends_bos=True),
    "instructblip_t5": Family(special=_BLIP_TOKENS, template="", processor=_instructblip_processor),
    "qwen3_vl": Family(special=QWEN_TOKENS, template=QWEN_TEMPLATE, processor=qwen_processor("Qwen3VLProcessor")),
    "qwen2": Family(special=QWEN_TOKENS, template=QWEN_TEMPLATE, processor=None),
    "mistral": Family(
        special={"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "b": "[INST]", "e": "[/INST]"},
        template=_MISTRAL,
        processor=None,
    ),
    "gemma": Family(special=_GEMMA_TOKENS, template=_GEMMA, processor=None),
    "gemma3_text": Family(special=_GEMMA_TOKENS, template=_GEMMA, processor=None),
}

ALL_FAMILIES: Mapping[str, Family] = MappingProxyType({**FAMILIES, **_MORE})
