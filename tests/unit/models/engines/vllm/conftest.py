"""A package `vllm` in place of the real one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.support.fake_vllm import SamplingParams

_MODULES = tuple(f"models.engines.vllm.{name}" for name in ("engine", "stream", "settings"))  # these import vllm


@pytest.fixture
def vllm_module(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A package `vllm` with the names that the engine imports."""
    package = ModuleType("vllm")
    package.SamplingParams = SamplingParams  # type: ignore[attr-defined]
    loader = ModuleType("vllm.model_executor.model_loader")
    loader.get_model_cls = lambda config: config.takes  # type: ignore[attr-defined]
    platforms = ModuleType("vllm.platforms")
    platforms.current_platform = SimpleNamespace(is_cpu=lambda: False)  # type: ignore[attr-defined]
    for name, module in (
        ("vllm", package), ("vllm.model_executor", ModuleType("vllm.model_executor")),
        ("vllm.model_executor.model_loader", loader), ("vllm.platforms", platforms),
    ):  # fmt: skip
        monkeypatch.setitem(sys.modules, name, module)
    for name in _MODULES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    import models.engines.vllm.engine as module

    yield module
    for name in _MODULES:
        sys.modules.pop(name, None)
