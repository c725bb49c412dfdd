"""The cpu image: its size, its user, and what it must not hold."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.containers.engine import Podman
from tests.containers.images import BASE, CANARY, PRODUCT, Layer, layers
from tests.containers.services import Services

pytestmark = pytest.mark.containers

COMPILERS = (
    "cc",
    "c++",
    "gcc",
    "g++",
    "clang",
    "cpp",
    "ld",
    "as",
    "make",
    "cmake",
    "cargo",
    "rustc",
    "go",
    "nvcc",
    "git",
)
_CUDA = ("*/torch/lib/libtorch_cuda*", "*/torch/lib/libc10_cuda*", "*/torch/lib/libtorch_nvshmem*")


def run_in_image(podman: Podman, *command: str) -> subprocess.CompletedProcess[str]:
    return podman("run", "--rm", "--network", "none", "--read-only", PRODUCT, *command, check=False)


def size_of_cuda(layer: Layer) -> int:
    return sum(file.stat().st_size for pattern in _CUDA for file in layer.folder.glob(f"**/{pattern[2:]}"))


def test_image_without_cuda_code_is_smaller_than_2500_mb(podman: Podman, project: Path, figures: list[str]) -> None:
    content = layers(podman, PRODUCT)
    figures.extend(f"layer of {layer.size / 1e6:,.0f} MB: {layer.step[:90]}" for layer in content)
    whole, cuda = sum(layer.size for layer in content), sum(size_of_cuda(layer) for layer in content)
    figures.append(f"image {whole / 1e9:.2f} GB, of which {cuda / 1e9:.2f} GB are CUDA code of torch")
    assert whole - cuda < 2.5e9


def test_image_runs_the_command_line_as_its_own_user_without_network(podman: Podman, project: Path) -> None:
    result = run_in_image(podman, "sh", "-c", "id -u; id -g; touch /x /opt/x /home/x; vlmsweep list models")
    assert result.returncode == 0
    assert result.stdout.split()[:2] == ["10001", "10001"]
    assert "qwen2.5-vl-7b" in result.stdout
    assert result.stderr.count("Read-only file system") == 3


def test_image_holds_no_compiler(podman: Podman, project: Path) -> None:
    look = "for name in " + " ".join(COMPILERS) + '; do command -v "$name"; done; true'
    assert run_in_image(podman, "sh", "-c", look).stdout == ""
    assert run_in_image(podman, "sh", "-c", "command -v sh").stdout.strip().endswith("/sh")


def test_image_holds_no_programs_that_change_the_user(podman: Podman, project: Path, figures: list[str]) -> None:
    """With no-new-privileges they have no effect; what the Dockerfile adds brings none either."""
    look = "find / -xdev -perm /6000 -type f"
    ours, base = (
        set(podman("run", "--rm", "--user", "0", name, "sh", "-c", look).stdout.split()) for name in (PRODUCT, BASE)
    )
    figures.append(f"programs with set-user-id: {len(ours)}, {len(ours - base)} of them not in the base image")
    assert {Path(path).name for path in ours - base} <= {"ssh-keysign", "ssh-agent"}


def test_no_layer_holds_a_secret_or_a_file_beside_the_code(podman: Podman, project: Path, figures: list[str]) -> None:
    values = Services(podman, project).secret_values()
    patterns, control = podman.folder / "patterns", podman.folder / "control"
    patterns.write_text("\n".join([CANARY, *values.values()]) + "\n")
    control.write_text(f"{values['secret key']}")
    content = layers(podman, PRODUCT)
    grep = ["grep", "--recursive", "--text", "--files-with-matches", "--fixed-strings", f"--file={patterns}"]
    command = [*grep, *(str(layer.folder) for layer in content), str(control)]
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    assert result.stdout.split() == [str(control)]
    about = podman("image", "inspect", PRODUCT).stdout + podman("history", "--no-trunc", PRODUCT).stdout
    assert not [name for name, value in values.items() if value in about]
    figures.append(
        f"searched {len(content)} layers, inspect and history for {len(values)} secrets and a canary: nothing"
    )
