"""Images and services in podman, made once; run by `make test-containers` alone, since they take many minutes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.containers.engine import Podman, unavailable_reason
from tests.containers.images import build_images, copy_project
from tests.containers.services import Services, running_services

FIGURES: list[str] = []
"""Lines of the summary."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--containers", type=Path, metavar="FOLDER", help="run tests/containers with images in this folder"
    )
    parser.addoption("--keep-images", action="store_true", help="keep that folder for the next run")


@pytest.fixture(scope="session")
def podman(request: pytest.FixtureRequest) -> Iterator[Podman]:
    folder = request.config.getoption("--containers", default=None)
    if folder is None:
        pytest.skip("takes many minutes and 15 GB of disk: run by `make test-containers`")
    if reason := unavailable_reason():
        pytest.skip(reason)
    podman = Podman(Path(folder).absolute())
    podman.prepare()
    podman.clear()
    yield podman
    if not request.config.getoption("--keep-images"):
        podman.remove()


@pytest.fixture(scope="session")
def project(podman: Podman) -> Path:
    """Return a copy of the repository, with secrets of its own and the images of its compose file built."""
    folder = podman.folder / "project"
    copy_project(folder)
    build_images(podman, folder)
    return folder


@pytest.fixture(scope="session")
def services(podman: Podman, project: Path) -> Iterator[Services]:
    """Yield the services that can run here: all but Grafana, whose program no package registry has."""
    with running_services(podman, project) as services:
        for name in ("store", "prometheus", "head"):
            services.start(name)
        services.start("worker", scale=2)
        yield services


@pytest.fixture(scope="session")
def figures() -> list[str]:
    """Return the lines to which a test adds what it measured."""
    return FIGURES


@pytest.fixture
def outside(services: Services, tmp_path: Path) -> dict[str, str]:
    """Return the environment of a user's own machine that knows the token's file."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "AWS_"))}
    return {
        **inherited,
        "HOME": str(tmp_path),
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(services.secret("ray_token")),
    }


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if FIGURES:
        terminalreporter.section("measured")
        terminalreporter.write_line("\n".join(FIGURES))
