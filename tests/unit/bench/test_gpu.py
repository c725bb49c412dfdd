"""The benchmark of GPUs runs without one; memory estimates agree with transformers' own tensor-parallel plan."""

from __future__ import annotations

import argparse
import gc
import json
import sys
import weakref
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from tests.bench import gpu, gpu_page
from tests.bench.shapes import DEGREES, SHAPES

pytestmark = pytest.mark.full


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
    assert {name: way["questions"] for name, way in ways.items()} == {
        "alone": 1,
        "padded": 2,
        "shared": 4,
        **dict.fromkeys([*gpu.SWITCHES, *gpu.STEP_WAYS, *gpu.LONG_WAYS], 4),
        **dict.fromkeys(gpu.PICTURE_WAYS, gpu.PICTURES),
    }
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


def test_grouped_attention_is_counted_by_its_own_rule() -> None:
    """28 heads of queries and 4 of keys, as the 7B has: 100 rows, 100 keys, width 128, two products of 2 operations."""
    query, key = (torch.empty(1, heads, 100, 128, device="meta", dtype=torch.bfloat16) for heads in (28, 4))
    with gpu.flop_counter() as counter:
        torch.ops.aten._scaled_dot_product_flash_attention(query, key, key)
        torch.ops.aten._scaled_dot_product_efficient_attention(query, key, key, None, compute_log_sumexp=False)
    assert counter.get_total_flops() == 2 * 143_360_000


def test_way_and_shape_that_fail_are_recorded_and_the_others_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, written = tmp_path / "results.json", []
    monkeypatch.setitem(gpu.WAYS, "padded", {"share_prefix": False, "device": "cuda"})
    monkeypatch.setattr(gpu, "record", lambda _, result, file: written.append(json.loads(json.dumps(result))))
    small = ["--questions", "2", "--plain", "2", "--alone", "1", "--new", "1", "--pixels", "4000", "--runs", "1"]
    gpu.main(["--device", "cpu", "--shape", "tiny", "--out", str(out), *small])
    assert [sorted(result["shapes"]["tiny"]["ways"]) for result in written[:3]] == [
        ["alone"], ["alone", "padded"], ["alone", "padded", "shared"]
    ]  # fmt: skip
    ways = written[-1]["shapes"]["tiny"]["ways"]
    assert "device cuda is set, but torch sees no GPU" in ways["padded"]["error"]
    assert ways["shared"]["questions"] == 2
    monkeypatch.setattr(gpu, "random_model", lambda *_: 1 / 0)
    gpu.main(["--device", "cpu", "--shape", "tiny", "2b", "--out", str(out), *small])
    assert written[-1]["shapes"] == {name: {"error": "ZeroDivisionError: division by zero"} for name in ("tiny", "2b")}
    page = tmp_path / "page.md"
    page.write_text(f"before\n{gpu_page.BEGIN}old\n{gpu_page.END}after\n")
    gpu_page.write_page({"gpu": {**written[0], "shapes": {"tiny": {"ways": ways, "vllm": "not installed"}}}}, page)
    text = page.read_text()
    assert (text.startswith("before\n"), text.endswith("after\n"), "old" in text) == (True, True, False)
    assert "| tiny | padded | EngineUnreachableError: " in text
    assert "| tiny | vllm | not installed | | | | |" in text
    assert f"| tiny | shared | {ways['shared']['questions_per_second']['median']:.4g} | " in text


def test_model_is_gone_before_vllm_takes_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    models: list[Any] = []
    build, real_collect = gpu.random_model, gc.collect

    def remembered(*arguments: Any) -> Any:
        model = build(*arguments)
        models.append(weakref.ref(model))
        return model

    monkeypatch.setattr(gpu, "random_model", remembered)
    monkeypatch.setattr(gpu.gc, "collect", lambda: collected.append(real_collect()))
    collected: list[int] = []
    small = ["--questions", "2", "--plain", "2", "--alone", "1", "--new", "1", "--pixels", "4000", "--runs", "1"]
    gpu.main(["--device", "cpu", "--shape", "tiny", "--out", str(tmp_path / "results.json"), *small])
    assert collected
    assert [model() for model in models] == [None]


def test_vllm_that_fails_costs_no_other_result(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: Any) -> None:
        raise RuntimeError("no kernel for this card")

    module, engine = ModuleType("vllm"), ModuleType("models.engines.vllm.engine")
    module.LLM = fail  # type: ignore[attr-defined]
    engine.VLLMEngine = lambda spec, make: make(load_format="safetensors")  # type: ignore[attr-defined]
    monkeypatch.setattr(gpu.importlib.util, "find_spec", lambda _: argparse.Namespace())
    monkeypatch.setitem(sys.modules, "vllm", module)
    monkeypatch.setitem(sys.modules, "models.engines.vllm.engine", engine)
    result = gpu.run_vllm(None, [], None)  # type: ignore[arg-type]
    assert result == "RuntimeError: no kernel for this card"
