"""Memory of weights, known before they are loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from models.engines import weights
from models.engines.launch import LaunchedModel
from models.errors import EngineUnreachableError
from models.spec import ModelSpec
from tests.unit.models.engines.conftest import Checkpoints


def spec_of(model: Path | str, **more: Any) -> ModelSpec:
    return ModelSpec(engine="transformers", model=str(model), device="cpu", **more)


def named(model: Path | str, **more: Any) -> LaunchedModel:
    return LaunchedModel.as_named(spec_of(model, **more))


def test_weights_bytes_are_read_from_headers(checkpoint_of: Checkpoints) -> None:
    from safetensors import safe_open

    folder = checkpoint_of("llama")
    with safe_open(folder / "model.safetensors", "pt") as file:
        expected = sum(file.get_tensor(name).numel() for name in file.keys())  # noqa: SIM118  no mapping
    assert weights.weights_bytes(folder) == 4 * expected
    assert weights.weights_bytes(folder, "bfloat16") == 2 * expected


def test_check_memory_reports_the_numbers_of_a_model_that_does_not_fit(checkpoint_of: Checkpoints) -> None:
    model = named(checkpoint_of("llama"), dtype="float32", tensor_parallel=2)
    total = weights.weights_bytes(Path(model.source), "float32")
    weights.check_memory(model, total // 2, "GPU memory")
    with pytest.raises(EngineUnreachableError, match=r"does not fit: its weights take 6 MB as float32.*2 ranks"):
        weights.check_memory(model, total // 2 - 1, "GPU memory")
    weights.check_memory(named("org/on-a-hub"), 0, "memory")
    with pytest.raises(
        EngineUnreachableError, match=r"145\.2 GB as bfloat16, 18\.1 GB for each of 8 ranks, and 16\.0 GB"
    ):
        weights.check_memory(
            named("org/on-a-hub", parameters_b=72.6, dtype="bfloat16", tensor_parallel=8), 16_000_000_000, "memory"
        )


def test_checkpoint_memory_is_checked_before_loading(
    checkpoint_of: Checkpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    from models.engines.transformers.checkpoint import load_checkpoint

    monkeypatch.setattr("models.engines.transformers.checkpoint.free_host_bytes", lambda: 1000)
    with pytest.raises(EngineUnreachableError, match=r"does not fit.* 1 kB of memory are free"):
        load_checkpoint(spec_of(checkpoint_of("llama")))
