"""Families of models: what engines do with each `model_type` of transformers, and the words that name families."""

import re
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFamily:
    """The models of one `model_type`."""

    is_verified: bool = False  # shared answers are tested to equal padded ones; others are verified on a first prompt
    unshared_reason: str = ""  # why prefixes cannot be shared
    vllm_lacks: str = ""  # what vllm 0.32 does not do, or does otherwise
    sees_pictures_whole: bool = False  # a picture's tokens see those after them; on vllm's CPU build they do not
    has_states: bool = False  # layers of linear attention or convolutions, which leave a state and no keys
    closes_pictures: bool = False  # tokens after a picture's pixels take positions inside of it
    bfloat16_on_cpus: bool = False  # linear attention, which vllm's CPU build computes in bfloat16 alone


_VERIFIED = (
    "gemma gemma3_text glm4v glm4v_moe granite4_vision idefics2 idefics3 internvl llama llama4 llava llava_next "
    "mistral mistral3 ovis2 phi4_multimodal qwen2 qwen2_5_vl qwen2_vl qwen3_vl qwen3_vl_moe"
)
FAMILIES: Mapping[str, ModelFamily] = {
    **dict.fromkeys(_VERIFIED.split(), ModelFamily(is_verified=True)),
    # The `transformers` engine formats their conversations.
    "blip-2": ModelFamily(is_verified=True, vllm_lacks="models without a chat template"),
    "instructblip": ModelFamily(
        unshared_reason="its query transformer reads the text together with the picture",
        vllm_lacks="models without a chat template",
    ),
    "mllama": ModelFamily(unshared_reason="its language model cross-attends to the picture"),
    "smolvlm": ModelFamily(is_verified=True, vllm_lacks="clips for SmolVLM"),  # it takes pictures only
    "llava_next_video": ModelFamily(is_verified=True, vllm_lacks="clips for LLaVA-NeXT-Video"),  # it ended at one
    # It cuts each of several pictures into tiles, transformers none.
    "llava_onevision": ModelFamily(is_verified=True, vllm_lacks="several pictures for LLaVA-OneVision"),
    # It tells the model that frames are half a second apart.
    "muse_glimmer": ModelFamily(is_verified=True, vllm_lacks="clips for Muse Glimmer"),
    # It reads these two from the configuration that comes with the publisher's code, which no entry runs here.
    "ernie4_5_vl_moe": ModelFamily(is_verified=True, vllm_lacks="the configuration of transformers for ERNIE 4.5 VL"),
    "molmo2": ModelFamily(is_verified=True, vllm_lacks="the configuration of transformers for Molmo2"),
    "gemma3": ModelFamily(is_verified=True, sees_pictures_whole=True),
    "gemma4": ModelFamily(sees_pictures_whole=True),
    "gemma4_unified": ModelFamily(is_verified=True, sees_pictures_whole=True),
    **dict.fromkeys(("minicpmv4_6", "qwen3_5", "qwen3_5_moe"), ModelFamily(has_states=True, bfloat16_on_cpus=True)),
    "minicpmv4_7": ModelFamily(has_states=True, bfloat16_on_cpus=True, closes_pictures=True),
    "lfm3_vl": ModelFamily(has_states=True),
}
_NAMES = (
    "aya blip claude cogvlm command deepseek falcon gemini gemma glm gpt granite idefics internlm internvl llama llava "
    "minicpm ministral mistral mixtral molmo nova olmo opt ovis paligemma phi pixtral qwen smollm smolvlm vicuna yi"
)
_BASES = {"vicuna": "llama", "mixtral": "mistral", "ministral": "mistral", "pixtral": "mistral"}


def family(model_type: str | None) -> ModelFamily:
    """Return what is known of a `model_type`."""
    return FAMILIES.get(model_type or "", ModelFamily())


def families_named(name: str) -> frozenset[str]:
    """Return the families in a model's name at its maker, else that name.

    A name such as `llava-onevision-qwen2-7b` holds two: of the model, and of the language model in it.
    """
    text = name.rstrip("/").lower()
    words = re.findall(r"[a-z]+", text.rsplit("/", 1)[-1])
    families = {*_NAMES.split()}.intersection(words) or {"gpt" for _ in re.findall(r"^o\d", text)}
    return frozenset(_BASES.get(word, word) for word in families) or frozenset({text})
