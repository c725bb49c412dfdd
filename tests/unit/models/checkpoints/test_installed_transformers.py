"""What the installed transformers needs for quantized checkpoints, compared with what it says itself."""

from __future__ import annotations

import importlib.metadata
from typing import Any

import pytest

from models.checkpoints.installed_transformers import (
    ONLY_ON_GPUS,
    QUANTIZERS,
    missing_packages,
    transformers_classes,
    transformers_version,
)

_NOT_LOADED = {"nvfp4": "packed ones are refused", "gguf": "a GGUF file is converted, and no folder names it"}


def test_every_method_of_transformers_is_known() -> None:
    from transformers.quantizers.auto import AUTO_QUANTIZER_MAPPING

    methods = {method.removesuffix("_4bit").removesuffix("_8bit") for method in AUTO_QUANTIZER_MAPPING}
    assert methods - QUANTIZERS.keys() == _NOT_LOADED.keys()
    assert QUANTIZERS.keys() <= methods
    assert QUANTIZERS.keys() >= ONLY_ON_GPUS


@pytest.mark.parametrize("method", sorted(QUANTIZERS.keys() - {"sinq"}))  # 5.23 takes its missing package for there
def test_packages_are_missing_exactly_where_transformers_refuses(method: str) -> None:
    config = {"quant_method": method, **_EXAMPLES.get(method, {})}
    can_load = not missing_packages(method) and method not in ONLY_ON_GPUS
    assert _validated(config) == can_load


_EXAMPLES: dict[str, dict[str, Any]] = {
    "bitsandbytes": {"load_in_4bit": True},
    "gptq": {"bits": 4},
    "awq": {"bits": 4, "group_size": 128, "zero_point": True},
    "higgs": {"bits": 4},
    "torchao": {"quant_type": {"default": {}}},
}


def _validated(config: dict[str, Any]) -> bool:
    """Return whether transformers accepts a method on this machine, which has no GPU."""
    from transformers.quantizers.auto import AutoHfQuantizer

    try:
        AutoHfQuantizer.from_config(config, pre_quantized=True).validate_environment(device_map=None)
    except (ImportError, RuntimeError, ValueError, TypeError):
        return False
    return True


@pytest.mark.parametrize(("version", "expected"), [("0.46.0", ["bitsandbytes>=0.46.1"]), ("0.49.0", [])])
def test_old_version_of_a_package_does_not_count(
    monkeypatch: pytest.MonkeyPatch, version: str, expected: list[str]
) -> None:
    monkeypatch.setattr(importlib.metadata, "version", {"bitsandbytes": version}.__getitem__)
    assert missing_packages("bitsandbytes") == expected


def test_classes_are_those_of_the_installed_version() -> None:
    assert "Qwen2_5_VLForConditionalGeneration" in transformers_classes()["qwen2_5_vl"]
    assert "LlamaForCausalLM" in transformers_classes()["llama"]
    assert transformers_version() == importlib.metadata.version("transformers")
