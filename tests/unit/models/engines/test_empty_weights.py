"""Sizes that are measured on models without weights."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors import safe_open

from models.engines.empty_weights import measured_size
from models.gpu_memory import bytes_per_weight, memory_need, model_size
from models.spec import ModelSpec
from tests.support.turns import in_turns
from tests.unit.models.engines.conftest import Checkpoints


def spec_of(folder: Path, **more: object) -> ModelSpec:
    return ModelSpec.model_validate({"engine": "transformers", "model": str(folder), **more})


def stored_weights(folder: Path) -> int:
    with safe_open(folder / "model.safetensors", "pt") as file:
        return sum(file.get_tensor(name).numel() for name in file.keys())  # noqa: SIM118  no mapping


@pytest.mark.parametrize("architecture", in_turns(("qwen2_5_vl", "gemma3", "blip-2", "llama"), ("qwen2_5_vl",)))
def test_size_needs_the_configuration_alone(architecture: str, checkpoint_of: Checkpoints, tmp_path: Path) -> None:
    folder = checkpoint_of(architecture)
    shutil.copy(folder / "config.json", tmp_path)
    size = measured_size(spec_of(tmp_path))
    assert size is not None
    assert size.parameters == pytest.approx(stored_weights(folder), rel=0.01)  # buffers count here
    assert size.stored_width == 4
    assert bytes_per_weight(spec_of(tmp_path), size) == 4
    assert bytes_per_weight(spec_of(tmp_path, dtype="bfloat16"), size) == 2


def test_ranks_hold_the_vision_tower_and_share_the_language_model(checkpoint_of: Checkpoints) -> None:
    folder = checkpoint_of("qwen2_5_vl")
    size = measured_size(spec_of(folder))
    assert size is not None
    assert size.unsharded is not None
    with safe_open(folder / "model.safetensors", "pt") as file:
        tower = sum(file.get_tensor(name).numel() for name in file.keys() if "visual" in name)  # noqa: SIM118
    assert tower < size.unsharded < 1.05 * tower
    need = memory_need(spec_of(folder), size, 2)
    assert need.weights == pytest.approx(4 * (size.unsharded + (size.parameters - size.unsharded) / 2))


def test_shape_is_read_under_any_names(checkpoint_of: Checkpoints) -> None:
    folder = checkpoint_of("instructblip_t5")
    assert model_size(spec_of(folder)) is not None
    size = measured_size(spec_of(folder))
    assert size is not None
    assert size.parameters == pytest.approx(stored_weights(folder), rel=0.01)


def test_unknown_or_quantized_configuration_falls_back_to_what_is_stated(
    checkpoint_of: Checkpoints, tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "nobody_knows"}))
    stated = spec_of(tmp_path, parameters_b=2.0)
    assert measured_size(stated) == model_size(stated)
    config = json.loads((checkpoint_of("llama") / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "fp8"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert measured_size(stated) == model_size(stated)


def test_hub_id_outside_the_cache_is_planned_by_its_entry() -> None:
    entry = ModelSpec(engine="transformers", model="nobody/has-this", revision="0" * 40, parameters_b=3.0)
    assert measured_size(entry) == model_size(entry)
    assert measured_size(ModelSpec(engine="random")) is None


@pytest.mark.parametrize(
    "change",
    [{"hidden_act": 7}, {"num_hidden_layers": -1}, {"hidden_size": 0}, {"dtype": []}, {"model_type": 3}],
    ids=lambda change: next(iter(change)),
)
def test_configuration_that_its_library_rejects_is_planned_by_the_entry(
    change: dict[str, object], checkpoint_of: Checkpoints, tmp_path: Path
) -> None:
    config = json.loads((checkpoint_of("qwen2_5_vl") / "config.json").read_text())
    config["text_config"] = {**config.get("text_config", {}), **change}
    (tmp_path / "config.json").write_text(json.dumps({**config, **change}))
    stated = spec_of(tmp_path, parameters_b=2.0)
    assert measured_size(stated) == model_size(stated)


def test_stored_checkpoint_is_measured_without_torch(checkpoint_of: Checkpoints) -> None:
    """`doctor` and `--dry-run` answer at once: importing torch and transformers takes most of ten seconds."""
    program = (
        "import sys; from models.engines.empty_weights import measured_size; from models.spec import ModelSpec; "
        f"size = measured_size(ModelSpec(engine='transformers', model={str(checkpoint_of('qwen2_5_vl'))!r})); "
        "print(int(size.parameters), size.stored_width, *sorted({'torch', 'transformers'} & sys.modules.keys()))"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    assert run.stdout.split() == [str(stored_weights(checkpoint_of("qwen2_5_vl"))), "4"]
