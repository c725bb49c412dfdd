"""Prometheus itself, where there is one: on the PATH, or unpacked by `make test-prometheus`."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.support.paths import ROOT

UNPACKED = ROOT / ".prometheus" / "usr" / "bin"


def _program(name: str) -> Path:
    path = shutil.which(name, path=f"{os.environ['PATH']}{os.pathsep}{UNPACKED}")
    if path is None:
        pytest.skip(f"{name} is not on the PATH: install Debian's package prometheus, or `make test-prometheus`")
    return Path(path)


@pytest.fixture(scope="session")
def prometheus() -> Path:
    return _program("prometheus")


@pytest.fixture(scope="session")
def promtool() -> Path:
    return _program("promtool")
