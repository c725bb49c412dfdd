"""The images that docker-compose.yml names: the product's by its Dockerfile, the others from programs that are here."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import requests
import yaml

from tests.containers.engine import Podman
from tests.support.paths import ROOT

__all__ = ["BASE", "CANARY", "PRODUCT", "Layer", "build_images", "copy_project", "layers"]

BASE = "localhost/python:3.11-slim-bookworm"
"""Debian's own Python in place of the image that the Dockerfile names."""
PRODUCT = "vlmsweep:cpu"
CANARY = "canary-6ff1b0c97d"
"""Text of files in the build context that must not get into an image."""
_STAND_INS = {"store": "seaweedfs", "prometheus": "prometheus"}
"""Service -> its Dockerfile in this folder."""


def copy_project(folder: Path) -> None:
    """Copy what git lists of the repository, make the secrets of compose, and lay out files that must not be sent."""
    shutil.rmtree(folder, ignore_errors=True)
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    subprocess.run(["sh", "infra/compose/secrets.sh"], cwd=folder, check=True, capture_output=True)
    for name in (".env", "jobs/.env.local", "models/server.pem", "pipelines/id.key", "notes.txt"):
        (folder / name).write_text(CANARY)


def build_images(podman: Podman, project: Path) -> None:
    """Build the product's cpu target and what stands in for the images of other services.

    Layers of an earlier run in the same folder are used again.
    """
    if not podman.has_image(BASE):
        _make_base(podman)
    arguments = {"PYTHON_IMAGE": BASE, "TORCH_INDEX": _torch_index()}
    options = [word for name, value in arguments.items() for word in ("--build-arg", f"{name}={value}")]
    podman.build(project / "infra/docker/Dockerfile", project, PRODUCT, options=[*options, "--target", "cpu"])
    context = podman.folder / "stand-ins"
    context.mkdir(exist_ok=True)
    shutil.copy2(Path(sys.executable).with_name("weed"), context / "weed")
    services = yaml.safe_load((project / "docker-compose.yml").read_text())["services"]
    for service, name in _STAND_INS.items():
        dockerfile = Path(__file__).with_name(f"{name}.Dockerfile")
        podman.build(dockerfile, context, services[service]["image"], options=["--build-arg", f"BASE={BASE}"])


def _make_base(podman: Podman) -> None:
    """Make the base image: Debian's smallest system and its Python, from the mirror that this machine uses."""
    archive = podman.folder / "base.tar"
    command = ["mmdebstrap", "--mode=root", "--variant=minbase", "--include=ca-certificates,python3-venv"]
    # The base image's Python is called `python`.
    command += ["--customize-hook=ln -s python3 $1/usr/bin/python", "bookworm", str(archive), *_mirror()]
    result = subprocess.run(command, capture_output=True, text=True, timeout=1200)
    assert result.returncode == 0, result.stderr[-4000:]
    path = "ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    podman("import", "--change", path, str(archive), BASE)
    archive.unlink()


def _mirror() -> list[str]:
    """Return the mirror of Debian 12 that apt is configured with, if any; mmdebstrap knows Debian's own."""
    sources = ["apt-get", "indextargets", "--format", "$(CODENAME) $(REPO_URI)"]
    result = subprocess.run(sources, capture_output=True, text=True, check=False)
    return [line.split()[1] for line in result.stdout.splitlines() if line.startswith("bookworm ")][:1]


def _torch_index() -> str:
    """Return the package index for torch: the Dockerfile's where it answers, else the one that pip uses here.

    The latter has torch for CUDA only, which does not load in the cpu image, where CUDA's libraries are left out.
    """
    named = re.search(r"^ARG TORCH_INDEX=(\S+)$", (ROOT / "infra/docker/Dockerfile").read_text(), re.MULTILINE)
    assert named
    try:
        if requests.get(f"{named[1]}/torch/", timeout=20).ok:
            return named[1]
    except requests.RequestException:
        pass
    command = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
    return (
        subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or "https://pypi.org/simple"
    )


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer of an image that has content."""

    size: int
    """Bytes."""
    step: str
    """The instruction that made it, as podman records it."""
    folder: Path


def layers(podman: Podman, image: str) -> list[Layer]:
    """Return the layers of an image with content, lowest first."""
    (data,) = podman.json("image", "inspect", image)
    driver = data["GraphDriver"]["Data"]
    folders = [Path(driver["UpperDir"]), *(Path(part) for part in driver.get("LowerDir", "").split(":") if part)]
    history = podman.json("history", "--no-trunc", "--format", "json", image)
    steps = [entry for entry in history if entry["size"]]
    assert len(steps) == len(folders), (steps, folders)
    entries = (Layer(entry["size"], entry["CreatedBy"], path) for entry, path in zip(steps, folders, strict=True))
    return list(reversed(list(entries)))
