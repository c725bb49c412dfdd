"""Layers in CPU memory or on disk: equal answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from models.engine_choice import choose_engine
from models.engines.offload import DISK_BYTES_PER_S, HOST_BYTES_PER_S, WEIGHTS_SHARE, plan_offload
from models.engines.weight_store import weights_folder
from models.engines.weights import weights_bytes
from models.spec import ModelSpec, TransformersEntry
from tests.support.turns import in_turns
from tests.unit.models.engines.conftest import Checkpoints

GB = 10**9


@pytest.mark.filterwarnings("ignore:The following device_map keys do not match:UserWarning")  # BLIP-2's queries
@pytest.mark.parametrize("architecture", in_turns(("qwen2_5_vl", "gemma3", "blip-2"), ("qwen2_5_vl",)))
def test_answers_with_disk_offload_equal_those_without(
    architecture: str, checkpoint_of: Checkpoints, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from tests.unit.models.engines.transformers import reference_answers as reference

    folder = checkpoint_of(architecture)
    calls = reference.calls_about((reference.PICTURE,), (), limits=(1, 12))
    expected = reference.texts(list(reference.engine_of(folder).generate(calls, reference.MEDIA)))
    budget = round(weights_bytes(folder) / 2 / WEIGHTS_SHARE)
    monkeypatch.setattr("models.engines.transformers.checkpoint.free_host_bytes", lambda: budget)
    monkeypatch.setattr("huggingface_hub.constants.HF_HOME", str(tmp_path))
    engine = reference.engine_of(folder, offload=True)
    devices = list(engine._checkpoint.model.hf_device_map.values())
    assert "disk" in devices
    assert "cpu" in devices
    assert engine.no_sharing_reason == "its layers are on several devices"
    assert reference.texts(list(engine.generate(calls, reference.MEDIA))) == expected
    assert [path.name.split("-")[0] for path in weights_folder().iterdir()] == ["vlmsweep"]


def test_model_that_fits_is_not_offloaded(checkpoint_of: Checkpoints) -> None:
    from tests.unit.models.engines.transformers import reference_answers as reference

    engine = reference.engine_of(checkpoint_of("llama"), offload=True)
    assert engine.no_sharing_reason is None


def test_plan_fills_the_gpu_then_memory_then_the_disk() -> None:
    fits = plan_offload(50 * GB, gpu_bytes=80 * GB, host_bytes=100 * GB)
    assert (fits.host, fits.disk, fits.seconds_per_pass) == (0, 0, 0.0)
    spread = plan_offload(150 * GB, gpu_bytes=80 * GB, host_bytes=100 * GB)
    assert (spread.host, spread.disk) == (70 * GB, 150 * GB - 56 * GB - 70 * GB)
    assert spread.seconds_per_pass == pytest.approx(70e9 / HOST_BYTES_PER_S + 24e9 / DISK_BYTES_PER_S)
    without_gpu = plan_offload(100 * GB, gpu_bytes=0, host_bytes=100 * GB)
    assert (without_gpu.host, without_gpu.disk) == (0, 30 * GB)
    assert "30.0 GB from disk" in without_gpu.summary


@pytest.mark.parametrize("more", [{"engine": "vllm"}, {"tensor_parallel": 2}, {"adapter": "a/b"}, {"engine": "random"}])
def test_offload_is_refused_where_it_cannot_work(more: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="offload: "):
        ModelSpec.model_validate({"engine": "transformers", "model": "org/name", "offload": True, **more})


def test_engine_auto_runs_an_offloaded_model_on_transformers() -> None:
    chosen = choose_engine(ModelSpec(engine="auto", model="org/name", offload=True))
    assert isinstance(chosen, TransformersEntry)
