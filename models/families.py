"""Families of models: what engines do with each `model_type` of transformers, and the words that name families."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Final

from models.strict_yaml import read_yaml


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


_FILE: Final = read_yaml(Path(str(files("models") / "families.yaml")), "file", is_shipped=True)[0]
FAMILIES: Final[Mapping[str, ModelFamily]] = {
    name: ModelFamily(**fields) for names, fields in _FILE["families"].items() for name in names.split()
}


def family(model_type: str | None) -> ModelFamily:
    """Return what is known of a `model_type`."""
    return FAMILIES.get(model_type or "", ModelFamily())


def families_named(name: str) -> frozenset[str]:
    """Return the families in a model's name at its maker, else that name.

    A name such as `llava-onevision-qwen2-7b` holds two: of the model, and of the language model in it.
    """
    text = name.rstrip("/").lower()
    words = re.findall(r"[a-z]+", text.rsplit("/", 1)[-1])
    families = {*_FILE["names"].split()}.intersection(words) or {"gpt" for _ in re.findall(r"^o\d", text)}
    return frozenset(_FILE["bases"].get(word, word) for word in families) or frozenset({text})
