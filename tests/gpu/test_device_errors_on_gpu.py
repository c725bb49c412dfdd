"""An error of the device ends the process as a dead engine, and nothing else does."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from tests.bench.results import ROOT

pytestmark = pytest.mark.gpu
_PROGRAM = """
import sys, torch
from models.engines.transformers.row_errors import attempt
from models.errors import DeviceFailedError

def fail():
    if sys.argv[1] == "cpu":
        raise RuntimeError("CUDA error: device-side assert triggered")
    return torch.zeros(2, device="cuda")[torch.tensor([5], device="cuda")].cpu()

row = attempt(lambda: torch.zeros(2, device=sys.argv[1]) @ torch.zeros(3, device=sys.argv[1]), "m")
assert isinstance(row, RuntimeError), row
try:
    attempt(fail, "m")
except DeviceFailedError as error:
    print(error)
"""


def test_device_side_assert_is_a_failed_device(device: torch.device) -> None:
    """In a process of its own: the device takes no more work of that process."""
    result = subprocess.run(
        [sys.executable, "-c", _PROGRAM, device.type], capture_output=True, text=True, cwd=ROOT, timeout=300
    )
    assert result.returncode == 0, result.stderr
    assert "m: the device failed: " in result.stdout
    assert "device-side assert" in result.stdout


_PARENT = """
import torch
from models.engines.gpu_check import check_gpus
from models.engines.tensor_parallel.engine import _device
from models.spec import ModelSpec

check_gpus(ModelSpec(engine="transformers", model="m", device="auto"), ["0"])
assert _device(ModelSpec(engine="transformers", model="m", device="auto", tensor_parallel=1)) == "cuda"
print(torch.cuda.is_initialized(), flush=True)
input()
"""
MIN_CONTEXT_BYTES = 1 << 26


def test_parent_of_ranks_opens_no_context_on_a_gpu(device: torch.device) -> None:
    """It counts GPUs; a context takes memory of each, and an exclusive one would keep the ranks out."""
    if device.type == "cpu":
        pytest.skip("there is no context to open without a GPU")
    before = torch.cuda.mem_get_info()[0]
    child = subprocess.Popen(
        [sys.executable, "-c", _PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "False\n"
    assert before - torch.cuda.mem_get_info()[0] < MIN_CONTEXT_BYTES
    child.communicate("\n", timeout=60)
    assert child.returncode == 0
