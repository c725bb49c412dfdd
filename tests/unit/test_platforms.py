"""`pip install` resolves on the platforms that are supported: a dry resolution and a dry installation for each."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.turns import in_turns

PLATFORMS = ("x86_64-manylinux_2_28", "aarch64-manylinux_2_28", "aarch64-apple-darwin")
UNREACHABLE = re.compile(r"error sending request|failed to (fetch|connect)|dns error|timed? ?out", re.IGNORECASE)


def uv(*arguments: str) -> str:
    """Run uv for packages of this Python, with the system's certificates; skip where no index can be reached."""
    command = [str(Path(sys.executable).with_name("uv")), *arguments, "--quiet", "--native-tls"]
    environment = {**os.environ, "MACOSX_DEPLOYMENT_TARGET": "14.0"}  # the oldest macOS that PyAV has wheels for
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    if result.returncode and UNREACHABLE.search(result.stderr):
        pytest.skip(f"no package index can be reached: {result.stderr.strip().splitlines()[0]}")
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize("platform", in_turns(PLATFORMS, ()))
def test_dependencies_resolve_to_wheels(platform: str) -> None:
    requirements = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    names = {re.match(r"[\w.-]+", text)[0] for text in requirements}
    wheels = [flag for name in sorted(names) for flag in ("--only-binary", name)]
    text = uv(
        *("pip", "compile", "pyproject.toml", "--extra", "gcp", "--extra", "gguf", "--python-version", "3.11"),
        *("--python-platform", platform, "--no-header", *wheels),
    )
    resolved = set(re.findall(r"^([\w.-]+)==", text, re.MULTILINE))
    assert {"av", "decord2", "ray", "torch", "transformers"} <= resolved


@pytest.mark.parametrize("platform", in_turns(PLATFORMS, PLATFORMS[:1]))
def test_lock_can_be_installed(platform: str, tmp_path: Path) -> None:
    uv(
        *("pip", "install", "--dry-run", "--target", str(tmp_path / "packages"), "--python", sys.executable),
        *("--python-platform", platform, "--no-deps", "--require-hashes", "-r", "requirements.lock"),
    )


def test_lock_of_the_vllm_image_can_be_installed(tmp_path: Path) -> None:
    uv(
        *("pip", "install", "--dry-run", "--target", str(tmp_path / "packages"), "--python", sys.executable),
        *("--python-platform", PLATFORMS[0], "--no-deps", "--require-hashes", "-r", "infra/docker/vllm.lock"),
    )
