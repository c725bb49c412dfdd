"""Small random checkpoints of real architectures, made on the spot: no hub, no download, the same every time.

They answer nonsense, but through the same code, file formats and token counts as the released models, which is what
the demo, the tests and the timings need.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from jobs.demo.checkpoint_configs import SIZES, Size
from jobs.demo.checkpoint_families import Family
from jobs.demo.checkpoint_more_configs import ALL_CONFIGS
from jobs.demo.checkpoint_more_families import ALL_FAMILIES
from jobs.demo.checkpoint_words import SENTENCES

ARCHITECTURES: tuple[str, ...] = tuple(ALL_FAMILIES)
"""Names that `build_tiny` knows."""

_VOCABULARY = 1024
"""Entries of the byte-pair vocabulary, special tokens not counted."""
_NAMED = ("bos_token", "eos_token", "pad_token")
_BORN_ZERO = ("query_tokens", "mm_input_projection_weight", "_gate", "_img_feature_extensor", "sinks")
"""Weights that start at zero and so would keep a random model from looking at pixels."""
_WORDS = r" ?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
"""Words with their leading blank; every digit by itself; runs of signs; blanks."""


def build_tiny(
    folder: Path,
    architecture: str = "qwen2_5_vl",
    seed: int = 0,
    size: Size = "tiny",
    *,
    sentences: Iterable[str] = SENTENCES,
) -> Path:
    """Write a random checkpoint with tokenizer, processor and chat template, as `save_pretrained` does.

    Args:
        folder: made if missing; files of the same names are overwritten.
        architecture: one of `ARCHITECTURES`.
        seed: same seed, same weights, with the same version of torch.
        size: `tiny` is about 2 million parameters, `small` about 50 million.
        sentences: text that the tokenizer's merges are learnt from.

    Returns:
        The folder.

    Raises:
        ValueError: unknown architecture or size.
    """
    from transformers.utils import logging as transformers_logging

    if architecture not in ALL_FAMILIES:
        raise ValueError(f"no small checkpoint of {architecture!r}; there are {', '.join(ARCHITECTURES)}")
    if size not in SIZES:
        raise ValueError(f"size {size!r} is not one of {', '.join(SIZES)}")
    family = ALL_FAMILIES[architecture]
    tokenizer = _tokenizer(family, sentences)
    folder.mkdir(parents=True, exist_ok=True)
    if family.processor is None:
        tokenizer.chat_template = family.template
        tokenizer.save_pretrained(folder)
    else:
        family.processor(tokenizer, family.template).save_pretrained(folder)
    config = ALL_CONFIGS[architecture](SIZES[size], tokenizer)
    transformers_logging.disable_progress_bar()  # of one shard, which is written in no time
    _model(config, tokenizer, seed, sees=family.processor is not None).save_pretrained(folder)
    return folder


def _tokenizer(family: Family, sentences: Iterable[str]) -> Any:
    """A byte-level BPE tokenizer: any text can be encoded, a letter or a digit by itself is one token."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_WORDS), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=_VOCABULARY,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    core.train_from_iterator(sentences, trainer)
    special = family.special
    made = PreTrainedTokenizerFast(
        tokenizer_object=core,
        padding_side="left",
        clean_up_tokenization_spaces=False,
        **{name: special[name] for name in _NAMED if name in special},
        extra_special_tokens={name: token for name, token in special.items() if name not in _NAMED},
    )
    if family.begins:
        first = special["bos_token"]
        core = made.backend_tokenizer
        core.post_processor = processors.TemplateProcessing(
            single=f"{first} $A", special_tokens=[(first, made.bos_token_id)]
        )
    return made


def _model(config: Any, tokenizer: Any, seed: int, *, sees: bool) -> Any:
    import torch
    from transformers import AutoModelForCausalLM, AutoModelForImageTextToText, GenerationConfig

    # Phi-4 sees as well, but is listed among the language models.
    listed = type(config) in AutoModelForImageTextToText._model_mapping  # noqa: SLF001  # no public way to ask
    maker = AutoModelForImageTextToText if sees and listed else AutoModelForCausalLM
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(seed)
        model = maker.from_config(config, dtype=torch.float32)
        for name, weight in model.named_parameters():
            if name.endswith(_BORN_ZERO):
                torch.nn.init.normal_(weight, std=0.5)
    model.generation_config = GenerationConfig(
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return model
