"""Memory of GPUs by nvidia-smi: as it lists it, and unknown where it is slow, fails or is absent."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from cluster import hardware

MIB = 1 << 20


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder on the PATH; what is listed in another test is forgotten."""
    monkeypatch.setenv("PATH", str(tmp_path))
    hardware._list_gpus.cache_clear()
    return tmp_path


def write(folder: Path, lines: str) -> None:
    (folder / "nvidia-smi").write_text(f"#!/bin/sh\necho call >> {folder}/calls\n{lines}\n")
    (folder / "nvidia-smi").chmod(0o755)


def test_sizes_are_listed_and_asked_for_once(folder: Path) -> None:
    write(folder, "printf '81559\\n[N/A]\\n'")
    assert hardware.local_gpus() == [81559 * MIB, 0] == hardware.local_gpus()
    assert (folder / "calls").read_text() == "call\n"


@pytest.mark.parametrize("lines", ["/bin/sleep 30", "echo No devices were found; exit 6", "echo No devices were found"])
def test_slow_or_failing_program_leaves_sizes_unknown(
    lines: str, folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    if "sleep" in lines:
        monkeypatch.setattr(hardware, "TIMEOUT_S", 1.0)
    write(folder, f"exec {lines}" if "sleep" in lines else lines)
    assert hardware.local_gpus() == [] == hardware.local_gpus()
    assert len(caplog.messages) == (0 if lines.endswith("found") else 1)


def test_absent_program_is_no_fault(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert hardware.local_gpus() == []
    assert caplog.messages == []


@pytest.mark.parametrize("sizes", [[], [80], [80, 80, 80]])
def test_node_has_the_gpus_that_ray_may_use(sizes: list[int]) -> None:
    node = hardware._node({"Resources": {"CPU": 8.0, "GPU": 2.0}, "NodeManagerAddress": "10.0.0.1"}, sizes)
    assert node.gpu_bytes == tuple([*sizes, 0, 0][:2])


def test_slices_of_a_card_count_as_what_they_are(folder: Path) -> None:
    listing = (
        "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-a)\\n  MIG 1g.10gb     Device  0: (UUID: MIG-b)\\n"
        "  MIG 3g.40gb     Device  1: (UUID: MIG-c)\\nGPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-d)\\n"
    )
    write(folder, f"case $1 in -L) printf '{listing}';; *) printf '81559, Enabled\\n81559, Disabled\\n';; esac")
    assert hardware.local_gpus() == [10 << 30, 40 << 30, 81559 * MIB]


def test_problem_of_the_driver_is_told_where_there_are_gpus(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "driver_version", lambda: "550.1")
    monkeypatch.setattr(torch.version, "cuda", "13.2")
    assert hardware.gpu_problem() == ""
    write(folder, "printf '81559, [N/A]\\n'")
    hardware._list_gpus.cache_clear()
    assert hardware.gpu_problem().startswith("driver 550.1 is too old for CUDA 13.2")
