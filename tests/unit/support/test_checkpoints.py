from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
import torch

from tests.support.checkpoints import ARCHITECTURES, build_tiny

_MOST_PARAMETERS = {
    **dict.fromkeys(("minicpmv4_6", "minicpmv4_7", "qwen3_5", "qwen3_5_moe"), 3e6),
    "granite4_vision": 4.5e6,
}
"""Those with a width as released, since vLLM runs no other: of heads of linear attention, of a projector."""


def sums(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


def test_build_tiny_writes_the_same_files_for_the_same_seed(tmp_path: Path) -> None:
    first, again, other = (build_tiny(tmp_path / name, seed=seed) for name, seed in (("a", 0), ("b", 0), ("c", 1)))
    assert sums(first) == sums(again)
    assert [name for name, digest in sums(other).items() if digest != sums(first)[name]] == ["model.safetensors"]


def test_build_tiny_keeps_the_global_random_state(tmp_path: Path) -> None:
    torch.manual_seed(7)
    expected = torch.rand(1)
    torch.manual_seed(7)
    build_tiny(tmp_path, "llama")
    assert torch.rand(1) == expected


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_checkpoint_loads_with_transformers_alone(architecture: str, tmp_path: Path) -> None:
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText, AutoTokenizer

    folder = build_tiny(tmp_path, architecture)
    config = AutoConfig.from_pretrained(folder)
    reads_images = (folder / "processor_config.json").is_file() and architecture != "phi4_multimodal"
    model_class = AutoModelForImageTextToText if reads_images else AutoModelForCausalLM
    model = model_class.from_pretrained(folder, use_safetensors=True)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert config.model_type == architecture.removesuffix("_t5")
    assert 1.4e6 < model.num_parameters() < _MOST_PARAMETERS.get(architecture, 2.2e6)
    assert len(tokenizer) == config.get_text_config().vocab_size
    for text in ("A", "B", " A", " B", *"0123456789"):
        assert len(tokenizer(text, add_special_tokens=False)["input_ids"]) == 1, text
    sentence = "Perché l'uomo entra? C'è un ombrello: sì, 32 volte! \U0001f302"
    ids = tokenizer(sentence, add_special_tokens=False)["input_ids"]
    assert tokenizer.decode(ids) == sentence
    assert len(ids) < len(sentence)


def test_small_size_has_50_million_parameters(tmp_path: Path) -> None:
    from safetensors import safe_open

    folder = build_tiny(tmp_path, size="small")
    with safe_open(folder / "model.safetensors", framework="pt") as weights:
        count = sum(weights.get_tensor(name).numel() for name in weights.keys())  # noqa: SIM118  # no mapping
    assert 40e6 < count < 60e6


def test_tokenizer_learns_from_the_given_sentences(tmp_path: Path) -> None:
    folder = build_tiny(tmp_path, "llama", sentences=["zyzzyva zyzzyva"])
    vocabulary = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    assert "zyzzyva" in vocabulary


def test_build_tiny_refuses_unknown_names(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"'bert'.*qwen2_5_vl"):
        build_tiny(tmp_path, "bert")
    with pytest.raises(ValueError, match=r"'huge'.*tiny, small"):
        build_tiny(tmp_path, size="huge")  # type: ignore[arg-type]
