"""Unit tests run side by side, one process a core."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """Use one thread: small models lose more by waiting for a busy second core than they gain."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "sched_getaffinity", lambda _: {0}, raising=False)  # by which engines count
        if torch := sys.modules.get("torch"):
            torch.set_num_threads(1)
        yield
