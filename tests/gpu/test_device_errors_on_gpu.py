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
