"""A checkpoint that cannot be loaded: the message names it and the remedy."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from safetensors.torch import save_file

from models.engines.launch import LaunchedModel
from models.engines.transformers import checkpoint
from models.engines.transformers.engine import TransformersEngine
from models.engines.transformers.model_config import unreachable_error
from models.errors import EngineUnreachableError
from models.spec import ModelSpec
from tests.unit.models.engines.conftest import Checkpoints


@pytest.fixture(scope="module")
def folder(checkpoint_of: Checkpoints) -> Path:
    return checkpoint_of("qwen2_5_vl")


def spec_of(folder: Path | str, **more: Any) -> ModelSpec:
    return ModelSpec(engine="transformers", model=str(folder), device="cpu", **more)


def test_missing_folder_is_reported(tmp_path: Path) -> None:
    with pytest.raises(EngineUnreachableError, match=r"nothing-here.*give an existing folder or a hub id"):
        TransformersEngine(spec_of(tmp_path / "nothing-here"))


def test_empty_folder_is_reported(tmp_path: Path) -> None:
    with pytest.raises(EngineUnreachableError, match=r"cannot be loaded: .* has no config\.json"):
        TransformersEngine(spec_of(tmp_path))


def test_folder_without_safetensors_is_reported(folder: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(folder, tmp_path / "other")
    (copy / "model.safetensors").rename(copy / "pytorch_model.bin")
    with pytest.raises(EngineUnreachableError, match=r"no \*\.safetensors, and no other weights are read"):
        TransformersEngine(spec_of(copy))


def test_package_that_only_one_architecture_needs_is_named(
    checkpoint_of: Checkpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    smolvlm = checkpoint_of("smolvlm")
    monkeypatch.setattr("transformers.models.smolvlm.processing_smolvlm.num2words", None)
    with pytest.raises(EngineUnreachableError, match=r"`num2words` is required .*what SmolVLM needs is in vlmsweep"):
        TransformersEngine(spec_of(smolvlm))


def test_pickles_at_the_hub_are_refused_without_advice_that_no_entry_can_follow() -> None:
    from_transformers = OSError(
        "org/m does not appear to have a file named model.safetensors or model.safetensors.index.json and thus cannot "
        "be loaded with `safetensors`. Please do not set `use_safetensors=True`."
    )
    launched = LaunchedModel.as_named(ModelSpec(engine="transformers", model="org/m", revision="a" * 40))
    message = str(unreachable_error(launched, from_transformers))
    assert "no *.safetensors, and no other weights are read" in message
    assert "use_safetensors" not in message


def test_name_without_an_owner_may_be_a_folder_that_is_not_here() -> None:
    launched = LaunchedModel.as_named(ModelSpec(engine="transformers", model="my-checkpoint"))
    message = str(unreachable_error(launched, OSError("We couldn't connect to the hub")))
    assert (
        "no folder my-checkpoint is beside the models file or in the working directory; for a hub id check" in message
    )


def test_remote_code_is_not_run_unless_the_entry_allows_it(folder: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(folder, tmp_path / "other")
    config = json.loads((copy / "config.json").read_text())
    remote = {"model_type": "strange", "auto_map": {"AutoConfig": "code.Config", "AutoModelForCausalLM": "code.Model"}}
    (copy / "config.json").write_text(json.dumps({**config, **remote}))
    (copy / "code.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    with pytest.raises(EngineUnreachableError, match="then name the model in --trust-remote-code"):
        TransformersEngine(spec_of(copy))
    assert not (tmp_path / "ran").exists()


def test_damaged_weights_are_reported(folder: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(folder, tmp_path / "other")
    (copy / "model.safetensors").write_bytes(b"not weights")
    with pytest.raises(EngineUnreachableError, match=r"cannot be loaded: .*model\.safetensors is truncated"):
        TransformersEngine(spec_of(copy))


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("processor_config.json",), "cannot be loaded: .* has no image processor"),
        (("tokenizer.json", "tokenizer_config.json"), "cannot be loaded: .* has no tokenizer: copy"),
    ],
)
def test_missing_processor_or_tokenizer_is_reported(
    folder: Path, tmp_path: Path, names: Sequence[str], message: str
) -> None:
    copy = shutil.copytree(folder, tmp_path / "other")
    for name in names:
        (copy / name).unlink()
    with pytest.raises(EngineUnreachableError, match=message):
        TransformersEngine(spec_of(copy))


@pytest.mark.parametrize("method", ["awq", "unknown-9"])
def test_quantized_weights_of_the_hub_are_refused_as_those_of_a_folder(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    copy = shutil.copytree(folder, tmp_path / "other")
    config = {**json.loads((copy / "config.json").read_text()), "quantization_config": {"quant_method": method}}
    (copy / "config.json").write_text(json.dumps(config))
    monkeypatch.setattr(checkpoint, "check_checkpoint", lambda _model: None)  # the files of the hub are elsewhere
    with pytest.raises(EngineUnreachableError, match=rf"cannot be loaded: its weights are quantized \({method}\)"):
        TransformersEngine(spec_of(copy))


def test_tokenizer_that_transformers_makes_up_is_refused(folder: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(folder, tmp_path / "other")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (copy / name).unlink()
    (copy / "other.model").touch()  # of a name that a tokenizer may have
    with pytest.raises(EngineUnreachableError, match="cannot be loaded: it has no tokenizer"):
        TransformersEngine(spec_of(copy))


def test_unreachable_hub_is_reported_on_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers import AutoConfig

    def unreachable(**_: Any) -> None:
        raise OSError("We couldn't connect to 'https://huggingface.co'\nand more words")

    monkeypatch.setattr(AutoConfig, "from_pretrained", unreachable)
    with pytest.raises(EngineUnreachableError, match=r"org/model.*couldn't connect.*give a local folder") as caught:
        TransformersEngine(spec_of("org/model"))
    assert "more words" not in str(caught.value)


def test_unknown_dtype_is_rejected(folder: Path) -> None:
    with pytest.raises(ValidationError):
        spec_of(folder, dtype="float7")
    with pytest.raises(EngineUnreachableError, match="float7"):
        TransformersEngine(spec_of(folder).model_copy(update={"dtype": "float7"}))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_missing_gpu_is_reported(folder: Path) -> None:
    with pytest.raises(EngineUnreachableError, match="torch sees no GPU"):
        TransformersEngine(spec_of(folder).model_copy(update={"device": "cuda"}))


def test_prompt_adapter_is_rejected(folder: Path, tmp_path: Path) -> None:
    from peft import PromptTuningConfig, TaskType

    config = PromptTuningConfig(task_type=TaskType.CAUSAL_LM, num_virtual_tokens=4)
    config.save_pretrained(tmp_path)
    save_file({"w": torch.zeros(1)}, tmp_path / "adapter_model.safetensors")
    with pytest.raises(EngineUnreachableError, match="only adapters of layers"):
        TransformersEngine(spec_of(folder, adapter=str(tmp_path)))


def test_adapter_without_weights_is_reported(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(EngineUnreachableError, match=r"has no adapter_config\.json"):
        TransformersEngine(spec_of(folder, adapter=str(tmp_path)))


@pytest.mark.parametrize(("given", "threads"), [(None, 12), (3, 3)])
def test_users_number_of_threads_holds(given: int | None, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers: list[int] = []
    monkeypatch.setattr(checkpoint.os, "sched_getaffinity", lambda _: range(12))
    monkeypatch.setattr(checkpoint, "user_threads", lambda: given)
    monkeypatch.setattr(torch, "set_num_threads", numbers.append)
    checkpoint._device(ModelSpec(engine="transformers", model="m", device="cpu"))
    assert numbers == [threads]


@pytest.mark.parametrize(("cores", "visible", "nodes", "threads"), [(96, 1, 8, 6), (16, 1, 0, 8), (2, 4, 4, 1)])
def test_process_on_a_gpu_has_threads_for_pixels(
    cores: int, visible: int, nodes: int, threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(nodes):
        (tmp_path / f"0000:{number}").mkdir()
    numbers: list[int] = []
    settings: list[str] = []
    monkeypatch.setattr(checkpoint, "_MACHINE_GPUS", tmp_path)
    monkeypatch.setattr(checkpoint, "user_threads", lambda: None)
    monkeypatch.setattr(checkpoint.os, "sched_getaffinity", lambda _: range(cores))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: visible)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch, "set_num_threads", numbers.append)
    monkeypatch.setattr(torch._C, "_accelerator_setAllocatorSettings", settings.append)
    assert checkpoint._device(ModelSpec(engine="transformers", model="m")).type == "cuda"
    assert (numbers, settings) == ([threads], ["expandable_segments:True"])


def test_replica_that_shares_a_gpu_reserves_its_part(monkeypatch: pytest.MonkeyPatch) -> None:
    fractions = [1.0]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch, "set_num_threads", lambda _: None)
    monkeypatch.setattr(torch._C, "_accelerator_setAllocatorSettings", lambda _: None)
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", fractions.append)
    monkeypatch.setattr(torch.cuda, "get_per_process_memory_fraction", lambda _: fractions[-1])
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (70 << 30, 80 << 30))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _: 1 << 30)
    device = checkpoint._device(ModelSpec(engine="transformers", model="m"))
    assert (fractions, checkpoint.free_gpu_bytes(device)) == ([1.0], 70 << 30)
    device = checkpoint._device(ModelSpec(engine="transformers", model="m", replicas_per_gpu=4))
    assert (fractions[1:], checkpoint.free_gpu_bytes(device)) == ([0.23], int((0.23 * 80 - 1) * (1 << 30)))


def test_setting_of_torchs_allocator_exists() -> None:
    checkpoint.allocate_expandable(False)


@pytest.mark.parametrize(
    ("dtype", "has_instructions", "warned"),
    [
        ("bfloat16", False, True),
        ("bfloat16", True, False),
        ("float16", False, True),
        ("float32", False, False),
        ("bfloat16", None, False),
    ],
)
def test_dtype_that_the_processor_emulates_is_said(
    dtype: str, has_instructions: bool | None, warned: bool, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mkldnn = {f"_is_mkldnn_{kind}_supported": lambda: has_instructions for kind in ("bf16", "fp16")}
    if has_instructions is None:
        mkldnn = {}
    monkeypatch.setattr(torch.ops, "mkldnn", SimpleNamespace(**mkldnn))
    warnings = TransformersEngine(spec_of(folder, dtype=dtype)).warnings
    assert [f"this processor emulates torch.{dtype}" in text and "`dtype: float32`" in text for text in warnings] == (
        [True] if warned else []
    )
