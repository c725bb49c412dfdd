"""Tests and benchmark of a GPU machine run on its versions, without Ray and what else it lacks, on the CPU."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT

pytestmark = [pytest.mark.gpu_stack, pytest.mark.timeout(3600)]
PINNED = ("torch==2.11.0", "torchvision==0.26.0", "transformers==5.17.0", "accelerate==1.15.0")
MACHINE = (*PINNED, "numpy", "pillow", "pytest")
ABSENT = ("ray", "pyarrow", "av", "decord", "duckdb", "hypothesis", "tabulate", "boto3")


@pytest.fixture(scope="module")
def python(request: pytest.FixtureRequest) -> Path:
    """Python 3.12 with what a GPU machine has, and the wheels that the README names; kept between runs."""
    if "gpu_stack" not in str(request.config.getoption("-m")):
        pytest.skip("installs 5 GB: run by `make test-gpu-stack`")
    uv, folder = Path(sys.executable).with_name("uv"), ROOT / ".venv-gpu"
    wheels = re.findall(r"^\| `([\w-]+)` \| ([\d.]+) \|$", (ROOT / "tests/gpu/README.md").read_text(), re.MULTILINE)
    assert len(wheels) <= 5
    pip = [uv, "pip", "install", "--quiet", "--native-tls", "--python", folder / "bin" / "python"]
    for command in (
        [uv, "venv", "--quiet", "--clear", "--no-python-downloads", "--python", "3.12", folder],
        [*pip, *MACHINE],
        [*pip, "--no-deps", *(f"{name}=={version}" for name, version in wheels)],
    ):
        result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode:
            pytest.skip(f"the versions of a GPU machine cannot be installed: {result.stderr.strip()[-300:]}")
    return folder / "bin" / "python"


def run(python: Path, *arguments: str, home: Path) -> str:
    env = {"PATH": os.environ["PATH"], "HOME": str(home)}
    result = subprocess.run([python, "-m", *arguments], cwd=ROOT, env=env, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_machine_lacks_what_its_tests_do_without(python: Path) -> None:
    code = f"import importlib.util as u; print([n for n in {ABSENT} if u.find_spec(n)])"
    assert subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"


def test_tests_of_a_gpu_pass_on_the_cpu(python: Path, tmp_path: Path) -> None:
    output = run(python, "pytest", "tests/gpu", "--device", "cpu", "-p", "no:cacheprovider", home=tmp_path)
    assert re.search(r"\d+ passed", output)
    assert output.count("SKIPPED") == output.count("without a GPU") == 2


def test_benchmark_runs_and_grouped_attention_is_counted(python: Path, tmp_path: Path) -> None:
    out = tmp_path / "results.json"
    run(python, "tests.bench.gpu", "--device", "cpu", "--shape", "tiny", "--out", str(out), home=tmp_path)
    ways = json.loads(out.read_text())["gpu"]["shapes"]["tiny"]["ways"]
    assert all("error" not in way for way in ways.values())
    assert {name for name, way in ways.items() if way["flops"]} == {"alone", "padded", "shared"}
    code = (
        "import torch; from tests.bench.gpu import flop_counter\n"
        "q, k = (torch.empty(1, h, 100, 128, device='meta', dtype=torch.bfloat16) for h in (28, 4))\n"
        "with flop_counter() as c: torch.ops.aten._scaled_dot_product_flash_attention(q, k, k)\n"
        "print(c.get_total_flops())"
    )
    counted = subprocess.run([python, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert counted.strip() == "143360000"
