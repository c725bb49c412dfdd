from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save_file

from models.catalog_loader import load_models
from models.gpu_memory import DEGREES, BatchShape, ModelSize, model_size, need, plan_placement
from models.spec import ModelSpec, Shape

SEVEN_B = ModelSize(
    8.3e9, Shape(layers=28, hidden=3584, heads=28, kv_heads=4, head_dim=128, intermediate=18944, vocab=152064)
)
GB = 10**9


def spec(**settings: object) -> ModelSpec:
    return ModelSpec.model_validate({"engine": "transformers", "model": "org/name", "dtype": "bfloat16", **settings})


def test_weights_and_cache_of_a_known_model() -> None:
    alone = need(spec(), SEVEN_B, 1)
    assert alone.weights == 16_600_000_000
    # keys and values, 28 layers, 4 heads of 128 numbers of two bytes
    assert alone.cache_a_token == 2 * 28 * 4 * 128 * 2 == 57_344
    assert need(spec(dtype="float32"), SEVEN_B, 1).weights == 2 * alone.weights


def test_ranks_share_weights_but_for_the_embeddings_and_cut_the_cache_by_heads() -> None:
    embedding = 152064 * 3584 * 2
    two, eight = need(spec(), SEVEN_B, 2), need(spec(), SEVEN_B, 8)
    assert two.weights == embedding + (16_600_000_000 - embedding) // 2
    assert two.cache_a_token == 57_344 // 2
    assert eight.cache_a_token == 57_344  # four heads cannot be cut in eight


@pytest.mark.parametrize(
    ("name", "card", "degree"),
    [
        ("qwen2.5-vl-7b", 80, 1),
        ("qwen2.5-vl-7b", 24, 1),
        ("qwen2.5-vl-7b", 16, 2),
        ("qwen2.5-vl-72b", 80, 4),
        ("qwen2.5-vl-72b", 141, 2),
        ("llava-1.6-34b", 141, 1),
    ],
)
def test_proposals_for_real_models_and_cards(name: str, card: int, degree: int) -> None:
    one = load_models()[name]
    size = model_size(one)
    assert size
    found = plan_placement(one, size, [card * GB] * 8)
    assert (found.fits, found.tensor_parallel) == (True, degree)
    assert found.replicas == 8 // degree
    assert found.bytes_a_card <= card * GB


def test_what_the_user_says_goes_before_the_arithmetic() -> None:
    own = spec(tensor_parallel=4, batch_size=3, replicas={"max": 2})
    found = plan_placement(own, SEVEN_B, [80 * GB] * 16, tensor_parallel=own.tensor_parallel)
    assert (found.tensor_parallel, found.batch_size, found.replicas, found.gpus) == (4, 3, 2, 8)


@pytest.mark.parametrize(
    ("cards", "degree", "said"),
    [
        ([8 * GB], None, "needs 2"),
        ([80 * GB] * 2, 4, "tensor_parallel 4 needs as many GPUs a replica, and there are 2"),
    ],
)
def test_what_does_not_fit_says_what_it_lacks(cards: list[int], degree: int | None, said: str) -> None:
    found = plan_placement(spec(), SEVEN_B, cards, tensor_parallel=degree)
    assert not found.fits
    assert said in found.why
    assert found.replicas == 0


@given(
    parameters=st.floats(1e6, 1e12),
    cards=st.lists(st.integers(1 * GB, 200 * GB), min_size=1, max_size=16),
    prefix=st.integers(0, 100_000),
    own=st.integers(1, 5_000),
    shaped=st.booleans(),
)
def test_what_is_said_to_fit_fits(parameters: float, cards: list[int], prefix: int, own: int, shaped: bool) -> None:
    load = BatchShape(prefix_tokens=prefix, own_tokens=own)
    found = plan_placement(
        spec(replicas={"max": 99}), ModelSize(parameters, SEVEN_B.shape if shaped else None), cards, load=load
    )
    assert found.tensor_parallel in DEGREES
    if found.fits:
        assert found.need.total(load, found.batch_size) == found.bytes_a_card <= min(cards)
        assert 1 <= found.gpus <= len(cards)
        assert found.why == ""
    else:
        assert found.why


@pytest.mark.parametrize("place_of_text", ["text_config", "llm_config", None])
def test_a_folder_tells_its_own_size(place_of_text: str | None, tmp_path: Path) -> None:
    text = {
        "num_hidden_layers": 2,
        "hidden_size": 64,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "intermediate_size": 96,
        "vocab_size": 300,
    }
    (tmp_path / "config.json").write_text(json.dumps({place_of_text: text} if place_of_text else text))
    save_file({"a": np.zeros((300, 64), np.float32), "b": np.zeros(7, np.float32)}, tmp_path / "1.safetensors")
    save_file({"c": np.zeros((2, 3, 4), np.float16)}, tmp_path / "2.safetensors")
    expected = Shape(layers=2, hidden=64, heads=4, kv_heads=2, head_dim=16, intermediate=96, vocab=300)
    assert model_size(spec(model=str(tmp_path), parameters_b=99.0)) == ModelSize(300 * 64 + 7 + 24, expected)


@pytest.mark.parametrize("damage", [b"", b"\xff" * 100, b"\x02\0\0\0\0\0\0\0{}"])
def test_a_damaged_folder_is_sized_by_its_entry(damage: bytes, tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(damage)
    assert model_size(spec(model=str(tmp_path), parameters_b=2.0)) == ModelSize(2e9, None)
    assert model_size(spec(model=str(tmp_path))) is None
    assert model_size(ModelSpec(engine="random")) is None
