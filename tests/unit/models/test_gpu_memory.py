from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save_file

from models.catalog_loader import load_models
from models.entry_fields import Shape
from models.gpu_memory import DEGREES, BatchShape, ModelSize, format_bytes, memory_need, model_size, plan_placement
from models.spec import ModelSpec

SEVEN_B = ModelSize(
    8.3e9, Shape(layers=28, hidden=3584, heads=28, kv_heads=4, head_dim=128, intermediate=18944, vocab=152064)
)
GB = 10**9


def spec(**settings: object) -> ModelSpec:
    return ModelSpec.model_validate({"engine": "transformers", "model": "org/name", "dtype": "bfloat16", **settings})


def test_memory_need_of_a_known_model() -> None:
    single = memory_need(spec(), SEVEN_B, 1)
    assert single.weights == 16_600_000_000
    # keys and values, 28 layers, 4 heads of 128 numbers of two bytes
    assert single.cache_per_token == 2 * 28 * 4 * 128 * 2 == 57_344
    assert memory_need(spec(dtype="float32"), SEVEN_B, 1).weights == 2 * single.weights


def test_memory_need_shards_the_language_model_and_the_cache_by_heads() -> None:
    layers = 28 * (2 * 3584 * (28 + 4) * 128 + 3 * 3584 * 18944)
    tower = 2 * (8_300_000_000 - layers - 2 * 152064 * 3584)
    two, eight = memory_need(spec(), SEVEN_B, 2), memory_need(spec(), SEVEN_B, 8)
    assert two.weights == tower + (16_600_000_000 - tower) // 2
    assert two.cache_per_token == 57_344 // 2
    assert eight.cache_per_token == 57_344 // 4  # a key head in each rank
    assert memory_need(spec(), SEVEN_B, 3).cache_per_token == 57_344


def test_experts_are_sharded() -> None:
    experts = ModelSize(60e9, SEVEN_B.shape)
    assert memory_need(spec(), experts, 8).weights < 1.1 * 120 * GB / 8


@pytest.mark.parametrize(
    ("name", "gpu_gb", "degree"),
    [
        ("qwen2.5-vl-7b", 80, 1),
        ("qwen2.5-vl-7b", 24, 1),
        ("qwen2.5-vl-7b", 16, 2),
        ("qwen2.5-vl-72b", 80, 4),
        ("qwen2.5-vl-72b", 141, 2),
        ("llava-1.6-34b", 141, 1),
    ],
)
def test_plan_placement_of_real_models(name: str, gpu_gb: int, degree: int) -> None:
    entry = load_models()[name]
    size = model_size(entry)
    assert size
    placement = plan_placement(entry, size, [gpu_gb * GB] * 8)
    assert (placement.fits, placement.tensor_parallel) == (True, degree)
    assert placement.replicas == 8 // degree
    assert placement.bytes_per_gpu <= gpu_gb * GB


def test_plan_placement_prefers_explicit_settings() -> None:
    custom = spec(tensor_parallel=4, batch_size=3, replicas={"max": 2})
    placement = plan_placement(custom, SEVEN_B, [80 * GB] * 16, tensor_parallel=custom.tensor_parallel)
    assert (placement.tensor_parallel, placement.batch_size, placement.replicas, placement.gpus) == (4, 3, 2, 8)


@pytest.mark.parametrize(
    ("gpus", "degree", "reason"),
    [
        ([8 * GB], None, "needs 2"),
        ([80 * GB] * 2, 4, "tensor_parallel 4 needs as many GPUs per replica, and there are 2"),
    ],
)
def test_plan_placement_names_what_is_missing(gpus: list[int], degree: int | None, reason: str) -> None:
    placement = plan_placement(spec(), SEVEN_B, gpus, tensor_parallel=degree)
    assert not placement.fits
    assert reason in placement.reason
    assert placement.replicas == 0


@given(
    parameters=st.floats(1e6, 1e12),
    gpus=st.lists(st.integers(1 * GB, 200 * GB), min_size=1, max_size=16),
    prefix=st.integers(0, 100_000),
    own_tokens=st.integers(1, 5_000),
    shaped=st.booleans(),
)
def test_placement_that_fits_needs_no_more_than_its_gpus(
    parameters: float, gpus: list[int], prefix: int, own_tokens: int, shaped: bool
) -> None:
    batch = BatchShape(prefix_tokens=prefix, own_tokens=own_tokens)
    placement = plan_placement(
        spec(replicas={"max": 99}), ModelSize(parameters, SEVEN_B.shape if shaped else None), gpus, batch=batch
    )
    assert placement.tensor_parallel in DEGREES
    if placement.fits:
        assert placement.need.total(batch, placement.batch_size) == placement.bytes_per_gpu <= min(gpus)
        assert 1 <= placement.gpus <= len(gpus)
        assert placement.reason == ""
    else:
        assert placement.reason


@pytest.mark.parametrize("text_key", ["text_config", "llm_config", None])
def test_model_size_reads_a_checkpoint_folder(text_key: str | None, tmp_path: Path) -> None:
    text = {
        "num_hidden_layers": 2,
        "hidden_size": 64,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "intermediate_size": 96,
        "vocab_size": 300,
    }
    (tmp_path / "config.json").write_text(json.dumps({text_key: text} if text_key else text))
    save_file({"a": np.zeros((300, 64), np.float32), "b": np.zeros(7, np.float32)}, tmp_path / "1.safetensors")
    save_file({"c": np.zeros((2, 3, 4), np.float16)}, tmp_path / "2.safetensors")
    expected = Shape(layers=2, hidden=64, heads=4, kv_heads=2, head_dim=16, intermediate=96, vocab=300)
    size = ModelSize(300 * 64 + 7 + 24, expected, unsharded=7, stored_width=4)
    assert model_size(spec(model=str(tmp_path), parameters_b=99.0)) == size


@pytest.mark.parametrize("damage", [b"", b"\xff" * 100, b"\x02\0\0\0\0\0\0\0{}"])
def test_model_size_of_a_damaged_folder_comes_from_its_entry(damage: bytes, tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(damage)
    assert model_size(spec(model=str(tmp_path), parameters_b=2.0)) == ModelSize(2e9, None)
    assert model_size(spec(model=str(tmp_path))) is None
    assert model_size(ModelSpec(engine="random")) is None


def test_replicas_that_share_a_gpu_share_its_memory() -> None:
    shared = spec(replicas={"max": 99}, replicas_per_gpu=4)
    placement = plan_placement(shared, ModelSize(1e9, None), [80 * GB] * 2)
    assert (placement.gpu_bytes, placement.replicas, placement.gpus) == (20 * GB, 8, 2)
    large = plan_placement(shared, SEVEN_B, [80 * GB] * 8)
    assert large.tensor_parallel == 1
    assert "which 4 replicas share" in plan_placement(shared, SEVEN_B, [24 * GB]).reason


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 bytes"), (999, "999 bytes"), (9000, "9 kB"), (35_200_000, "35 MB"), (14.04e9, "14.0 GB")],
)
def test_sizes_have_the_unit_in_which_they_are_not_zero(count: float, text: str) -> None:
    assert format_bytes(count) == text
