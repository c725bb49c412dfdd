"""The wheel in an environment of its own: nothing of the repository is needed to run the demo."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from jobs.demo.main import BENCHMARKS
from tests.support.paths import ROOT

pytestmark = pytest.mark.slow

_PACKAGES = ("cluster", "jobs", "models", "pipelines")


def output_of(*command: str | Path, cwd: Path) -> str:
    """Return what a command prints; it runs without the repository on its path."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    result = subprocess.run([*map(str, command)], cwd=cwd, env=environment, capture_output=True, text=True, timeout=800)
    assert result.returncode == 0, result.stdout[-2000:] + result.stderr[-4000:]
    return result.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy of the sources: setuptools leaves files beside them."""
    source, built = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for name in _PACKAGES:
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    build = "from setuptools.build_meta import build_wheel; import sys; build_wheel(sys.argv[1])"
    output_of(sys.executable, "-c", build, built, cwd=source)
    (path,) = built.glob("*.whl")
    return path


def test_wheel_holds_all_files_of_the_packages(wheel: Path) -> None:
    tracked = subprocess.run(["git", "ls-files", *_PACKAGES], cwd=ROOT, capture_output=True, text=True, check=True)
    missing = {*tracked.stdout.splitlines()} - {*zipfile.ZipFile(wheel).namelist()}
    assert missing == set()


def test_installed_wheel_runs_the_demo(wheel: Path, tmp_path: Path) -> None:
    home = tmp_path / "environment"
    venv.create(home, with_pip=False)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(home), "platbase": str(home)}))
    # The dependencies are those of this environment; its own `.pth` files, such as the repository's, are not read.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    uv = Path(sys.executable).with_name("uv")
    python = home / "bin" / "python"
    output_of(uv, "pip", "install", "--quiet", "--offline", "--no-deps", "--python", python, wheel, cwd=tmp_path)
    assert output_of(python, "-c", "import jobs; print(jobs.__file__)", cwd=tmp_path).startswith(str(packages))
    screen = output_of(home / "bin" / "vlmsweep", "demo", "--out", tmp_path / "out", cwd=tmp_path)
    lines = screen.splitlines()
    assert len(lines) < 24
    assert {*BENCHMARKS} <= {line.split()[0] for line in lines if line}
    (report,) = (line.removeprefix("report: ") for line in lines if line.startswith("report: "))
    assert "tiny-qwen2.5-vl" in Path(report).read_text()
