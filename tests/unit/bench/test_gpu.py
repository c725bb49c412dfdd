"""The benchmark of GPUs runs without one; memory estimates agree with transformers' own tensor-parallel plan."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.bench import gpu
from tests.bench.shapes import DEGREES, SHAPES

pytestmark = pytest.mark.full


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


@pytest.mark.parametrize("shape", SHAPES)
def test_estimated_weights_are_within_a_twentieth_of_the_plan(shape: str, tmp_path: Path) -> None:
    out = tmp_path / "results.json"
    gpu.main(["--device", "meta", "--shape", shape, "--out", str(out)])
    memory = json.loads(out.read_text())["gpu-memory"]["shapes"][shape]
    assert memory["parameters"] / 1e9 == pytest.approx({"2b": 2.44, "7b": 8.29, "72b": 73.41}[shape], abs=0.01)
    for degree in map(str, DEGREES):
        assert memory["ranks"][degree]["estimate_over_plan"] == pytest.approx(1, abs=0.05)
