"""A checkpoint or adapter whose tensors are not those of the model is refused, with their names."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from models.engines.launch import LaunchedModel
from models.engines.transformers.checkpoint import check_files, load_checkpoint
from models.errors import EngineUnreachableError
from models.spec import ModelSpec
from tests.unit.models.engines.conftest import Checkpoints

pytestmark = [
    pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated:FutureWarning"),  # peft's
]
Tensors = dict[str, Tensor]
LAYER = ".layers.1."


def spec_of(folder: Path, **more: Any) -> ModelSpec:
    return ModelSpec(engine="transformers", model=str(folder), device="cpu", **more)


def changed(folder: Path, file: str, target: Path, change: Callable[[Tensors], Tensors]) -> Path:
    shutil.copytree(folder, target)
    tensors = change(load_file(folder / file))
    save_file({name: tensor.clone() for name, tensor in tensors.items()}, target / file, metadata={"format": "pt"})
    return target


def without(part: str) -> Callable[[Tensors], Tensors]:
    return lambda tensors: {name: tensor for name, tensor in tensors.items() if part not in name}


def prefixed(tensors: Tensors) -> Tensors:
    return {f"module.{name}": tensor for name, tensor in tensors.items()}


def with_another_layer(tensors: Tensors) -> Tensors:
    return {**tensors, **{k.replace(LAYER, ".layers.7."): tensor for k, tensor in tensors.items() if LAYER in k}}


@pytest.mark.parametrize("architecture", ["qwen2_5_vl", "llama"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (prefixed, r"missing .*weight.* more; unexpected module\..* more"),
        (without(LAYER), r"missing .*layers\.1\..* more"),
        (without("lm_head"), r"missing lm_head\.weight"),
        (with_another_layer, r"unexpected .*layers\.7\."),
        (lambda tensors: {name: tensor[:1] for name, tensor in tensors.items()}, "mismatched"),
    ],
    ids=["prefixed", "layer absent", "head absent", "layer too many", "other shapes"],
)
def test_checkpoint_of_another_model_is_refused(
    checkpoint_of: Checkpoints, tmp_path: Path, architecture: str, change: Callable[[Tensors], Tensors], message: str
) -> None:
    folder = checkpoint_of(architecture)
    if "lm_head.weight" not in load_file(folder / "model.safetensors"):
        pytest.skip("its head is tied")
    copy = changed(folder, "model.safetensors", tmp_path / "copy", change)
    with pytest.raises(EngineUnreachableError, match=message):
        load_checkpoint(spec_of(copy))


def test_tied_head_may_be_absent(checkpoint_of: Checkpoints, tmp_path: Path) -> None:
    copy = changed(checkpoint_of("qwen2_5_vl"), "model.safetensors", tmp_path / "copy", without("lm_head"))
    config = json.loads((copy / "config.json").read_text())
    config["tie_word_embeddings"] = config.get("text_config", config)["tie_word_embeddings"] = True
    (copy / "config.json").write_text(json.dumps(config))
    model = load_checkpoint(spec_of(copy)).model
    assert model.get_output_embeddings().weight is model.get_input_embeddings().weight


def test_tensors_that_no_model_uses_are_logged(
    checkpoint_of: Checkpoints, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    extra = {"value_head.bias": torch.zeros(1)}
    copy = changed(checkpoint_of("qwen2_5_vl"), "model.safetensors", tmp_path / "copy", lambda tensors: tensors | extra)
    load_checkpoint(spec_of(copy))
    assert "the checkpoint holds value_head.bias that nothing uses" in caplog.text


@pytest.fixture(scope="module")
def adapter(checkpoint_of: Checkpoints, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from peft import LoraConfig, get_peft_model

    folder = tmp_path_factory.mktemp("adapter")
    config = LoraConfig(r=2, target_modules=["q_proj", "down_proj"], init_lora_weights=False)
    get_peft_model(load_checkpoint(spec_of(checkpoint_of("qwen2_5_vl"))).model, config).save_pretrained(folder)
    return folder


def test_adapter_of_the_model_is_loaded(checkpoint_of: Checkpoints, adapter: Path) -> None:
    model = load_checkpoint(spec_of(checkpoint_of("qwen2_5_vl"), adapter=str(adapter))).model
    assert any("lora_A" in name for name, _ in model.named_parameters())


@pytest.mark.parametrize(
    "change",
    [
        prefixed,
        without(LAYER),
        lambda tensors: {name.replace("base_model.model.", ""): tensor for name, tensor in tensors.items()},
        lambda tensors: {name.replace("language_model.", ""): tensor for name, tensor in tensors.items()},
        with_another_layer,
    ],
    ids=["prefixed", "part of the layers", "prefix dropped", "part of a name dropped", "layer too many"],
)
def test_adapter_of_another_model_is_refused(
    checkpoint_of: Checkpoints, adapter: Path, tmp_path: Path, change: Callable[[Tensors], Tensors]
) -> None:
    copy = changed(adapter, "adapter_model.safetensors", tmp_path / "copy", change)
    with pytest.raises(EngineUnreachableError, match=r"adapter .* is not for this model.*(missing|unexpected) .*lora_"):
        load_checkpoint(spec_of(checkpoint_of("qwen2_5_vl"), adapter=str(copy)))


def test_files_are_checked_without_reading_a_tensor(checkpoint_of: Checkpoints, adapter: Path, tmp_path: Path) -> None:
    """What vLLM loads by itself is checked by the same rules first."""

    def launched(folder: Path, adapter: Path) -> LaunchedModel:
        return LaunchedModel.as_named(spec_of(folder, adapter=str(adapter), tensor_parallel=2))

    folder = checkpoint_of("qwen2_5_vl")
    check_files(launched(folder, adapter))
    short = changed(folder, "model.safetensors", tmp_path / "short", without(LAYER))
    with pytest.raises(EngineUnreachableError, match=r"missing .*layers\.1\."):
        check_files(launched(short, adapter))
    partial = changed(adapter, "adapter_model.safetensors", tmp_path / "partial", without(LAYER))
    with pytest.raises(EngineUnreachableError, match=r"adapter .* is not for this model.*missing .*lora_"):
        check_files(launched(folder, partial))
