"""The benchmark of GPUs runs without one; memory estimates agree with transformers' own tensor-parallel plan."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from tests.bench import gpu
from tests.bench.shapes import DEGREES, SHAPES


@pytest.mark.parametrize("device_name", ["NVIDIA H100 80GB HBM3", "NVIDIA H200", "NVIDIA L4", "NVIDIA L40S", "AMD"])
def test_peak_is_that_of_the_device(device_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "device_name", lambda: device_name)
    peaks = {"NVIDIA L4": 121.0, "NVIDIA L40S": 362.0, "AMD": None}
    assert gpu.peak_tflops() == peaks.get(device_name, 989.0)


def test_tiny_shape_runs_on_a_cpu_and_writes_one_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "results.json"
    small = ["--questions", "4", "--plain", "2", "--alone", "1", "--new", "2", "--pixels", "4000", "--runs", "3"]
    gpu.main(["--device", "cpu", "--shape", "tiny", "--budget-s", "0", "--out", str(out), *small])
    assert "1 of 3 runs, for the time is up" in capsys.readouterr().out
    result = json.loads(out.read_text())["gpu"]["shapes"]["tiny"]
    ways = result["ways"]
    assert {name: way["questions"] for name, way in ways.items()} == {"alone": 1, "padded": 2, "shared": 4}
    shared = ways["shared"]
    assert shared["prompt_tokens_computed"] < shared["prompt_tokens"]
    assert ways["alone"]["prompt_tokens_computed"] == ways["alone"]["prompt_tokens"]
    assert 1 < shared["flops"] / ways["alone"]["flops"] < 4, "four questions that share cost less than four alone"
    assert shared["tokens_per_second"]["median"] > 0
    assert shared["share_of_peak"] is None


def test_device_that_is_absent_is_skipped_with_a_message(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit) as end:
        gpu.main([])
    assert end.value.code == 0
    assert "no CUDA device" in capsys.readouterr().err


@pytest.mark.parametrize("shape", SHAPES)
def test_estimated_weights_are_within_a_twentieth_of_the_plan(shape: str, tmp_path: Path) -> None:
    out = tmp_path / "results.json"
    gpu.main(["--device", "meta", "--shape", shape, "--out", str(out)])
    memory = json.loads(out.read_text())["gpu-memory"]["shapes"][shape]
    assert memory["parameters"] / 1e9 == pytest.approx({"2b": 2.44, "7b": 8.29, "72b": 73.41}[shape], abs=0.01)
    for degree in map(str, DEGREES):
        assert memory["ranks"][degree]["estimate_over_plan"] == pytest.approx(1, abs=0.05)


def test_vllm_that_fails_costs_no_other_result(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: Any) -> None:
        raise RuntimeError("no kernel for this card")

    module, engine = ModuleType("vllm"), ModuleType("models.engines.vllm.engine")
    module.LLM = fail  # type: ignore[attr-defined]
    engine.VLLMEngine = lambda spec, make: make()  # type: ignore[attr-defined]
    monkeypatch.setattr(gpu.importlib.util, "find_spec", lambda _: argparse.Namespace())
    monkeypatch.setitem(sys.modules, "vllm", module)
    monkeypatch.setitem(sys.modules, "models.engines.vllm.engine", engine)
    result = gpu.run_vllm(None, [], None)  # type: ignore[arg-type]
    assert result == "RuntimeError: no kernel for this card"
