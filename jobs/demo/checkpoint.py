"""Build the demo's checkpoint: a random Qwen2.5-VL of two million parameters, without a hub or a download.

Its answers are nonsense, but it runs through the same code, file formats and token counts as the released model.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

MAX_POSITIONS: Final = 32_768  # tokens: room for a prompt with 32 frames
TRAINED_MODEL: Final = Path(str(files("jobs.demo") / "data" / "model"))
"""The model that `python -m tests.tools.demo_model` trained: it reads colors and shapes off generated scenes."""
_VOCABULARY_SIZE: Final = 1024  # entries of the byte-pair vocabulary, special tokens not counted
_PRETOKENIZER_PATTERN: Final = r" ?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
"""Words with their leading blank, single digits, runs of punctuation, blanks."""
_NAMED_TOKENS: Final = ("bos_token", "eos_token", "pad_token")

QWEN_TOKENS: Mapping[str, str] = {
    "eos_token": "<|im_end|>",
    "pad_token": "<|endoftext|>",
    "start_token": "<|im_start|>",
    "vision_start_token": "<|vision_start|>",
    "vision_end_token": "<|vision_end|>",
    "image_token": "<|image_pad|>",
    "video_token": "<|video_pad|>",
}
QWEN_TEMPLATE: Final = (files("jobs.demo") / "data" / "chat_template.jinja").read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True, kw_only=True)
class Dimensions:
    """Widths and depths of a small model."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    inner: int
    vision_hidden: int
    vision_layers: int
    vision_heads: int
    vision_inner: int

    @property
    def initializer_range(self) -> float:
        """Return the standard deviation of the language weights that keeps the signal's size from layer to layer.

        With the usual 0.02 a narrow random model attends to hardly anything but its last token.
        """
        return float(self.hidden**-0.5)


TINY: Final = Dimensions(
    hidden=128,
    layers=6,
    heads=4,
    kv_heads=2,
    inner=448,
    vision_hidden=64,
    vision_layers=3,
    vision_heads=4,
    vision_inner=128,
)

SENTENCES = tuple(files("jobs.demo").joinpath("data/corpus.txt").read_text(encoding="utf-8").splitlines())
"""Training text of the tokenizer: everyday Italian, some English, words of the prompts."""


def build_checkpoint(folder: Path) -> Path:
    """Write the checkpoint with tokenizer, processor and chat template, as `save_pretrained` does; return `folder`."""
    import torch
    from transformers import AutoModelForImageTextToText, GenerationConfig
    from transformers.utils import logging as transformers_logging

    tokenizer = train_tokenizer(QWEN_TOKENS)
    folder.mkdir(parents=True, exist_ok=True)
    processor(tokenizer).save_pretrained(folder)
    transformers_logging.disable_progress_bar()
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(0)
        model = AutoModelForImageTextToText.from_config(qwen2_5_vl_config(TINY, tokenizer), dtype=torch.float32)
    model.generation_config = GenerationConfig(
        bos_token_id=tokenizer.bos_token_id, eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id
    )
    model.save_pretrained(folder)
    return folder


def train_tokenizer(special_tokens: Mapping[str, str], sentences: Iterable[str] = SENTENCES) -> Any:
    """Train a byte-level BPE tokenizer: a letter or digit is one token; `special_tokens` by processor name."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_PRETOKENIZER_PATTERN), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=_VOCABULARY_SIZE, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False
    )
    core.train_from_iterator(sentences, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        padding_side="left",
        clean_up_tokenization_spaces=False,
        **{name: special_tokens[name] for name in _NAMED_TOKENS if name in special_tokens},
        extra_special_tokens={name: token for name, token in special_tokens.items() if name not in _NAMED_TOKENS},
    )


def text_config(dimensions: Dimensions, tokenizer: Any, **more: Any) -> dict[str, Any]:
    """Return the configuration of a language model, by the names that Llama's uses."""
    return {
        "vocab_size": len(tokenizer),
        "hidden_size": dimensions.hidden,
        "intermediate_size": dimensions.inner,
        "num_hidden_layers": dimensions.layers,
        "num_attention_heads": dimensions.heads,
        "num_key_value_heads": dimensions.kv_heads,
        "max_position_embeddings": MAX_POSITIONS,
        "initializer_range": dimensions.initializer_range,
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
        "tie_word_embeddings": False,
        **more,
    }


def qwen2_5_vl_config(dimensions: Dimensions, tokenizer: Any) -> Any:
    """Return the configuration of a whole Qwen2.5-VL."""
    from transformers import Qwen2_5_VLConfig

    vision = {
        "depth": dimensions.vision_layers,
        "hidden_size": dimensions.vision_hidden,
        "intermediate_size": dimensions.vision_inner,
        "num_heads": dimensions.vision_heads,
        "out_hidden_size": dimensions.hidden,
        "fullatt_block_indexes": [dimensions.vision_layers - 1],
        "initializer_range": float(dimensions.vision_hidden**-0.5),
    }
    return Qwen2_5_VLConfig(
        text_config=text_config(dimensions, tokenizer, rope_parameters=mrope_parameters(dimensions)),
        vision_config=vision,
        **qwen_token_ids(tokenizer),
    )


def mrope_parameters(dimensions: Dimensions) -> dict[str, Any]:
    """Give a quarter of the rotary pairs to time, the rest to height and width, as the released models do."""
    pairs = dimensions.hidden // dimensions.heads // 2
    spatial = pairs * 3 // 8
    return {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [pairs - 2 * spatial, spatial, spatial]}


def qwen_token_ids(tokenizer: Any) -> dict[str, int]:
    """Return the ids of the tokens around and under pixels in the Qwen-VL family."""
    names = ("image_token", "video_token", "vision_start_token", "vision_end_token")
    return {f"{name}_id": tokenizer.convert_tokens_to_ids(QWEN_TOKENS[name]) for name in names}


def processor(tokenizer: Any, *, most_pixels: int = 28 * 28 * 1280) -> Any:
    """Return the processor of a Qwen2.5-VL that shrinks pictures and frames of more than `most_pixels`."""
    from transformers import Qwen2_5_VLProcessor, Qwen2VLImageProcessor, Qwen2VLVideoProcessor

    size = {"shortest_edge": 56 * 56, "longest_edge": most_pixels}
    return Qwen2_5_VLProcessor(
        image_processor=Qwen2VLImageProcessor(size=size),
        tokenizer=tokenizer,
        video_processor=Qwen2VLVideoProcessor(size=size, patch_size=14),
        chat_template=QWEN_TEMPLATE,
    )
