"""The real vLLM, on CPUs: run by `make test-vllm` in an environment of its own, skipped elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from models.engines.base import Engine
from models.entry_fields import Limits
from models.spec import ModelSpec
from tests.unit.models.engines.conftest import Checkpoints, checkpoint_of, reference_answers

__all__ = ["checkpoint_of", "reference_answers"]

OpenEngine = Callable[..., Engine]

_SMALL: dict[str, Any] = {"kv_cache_memory_bytes": 1 << 28, "limit_mm_per_prompt": {"image": 8, "video": 1}}
"""Settings of vLLM that shorten its start; no answer depends on them."""


@pytest.fixture(scope="module")
def open_vllm(checkpoint_of: Checkpoints) -> Iterator[OpenEngine]:
    """Return a function that opens the engine on an architecture's checkpoint; the engine before it is closed.

    With `is_shared` the engine before it is returned where it was opened in the same way.
    """
    yield from _opener(checkpoint_of)


@pytest.fixture(scope="module")
def open_vllm_here(checkpoint_of: Checkpoints) -> Iterator[OpenEngine]:
    """Return what `open_vllm` does, with vLLM's scheduler and worker in this process: it starts ten times faster."""
    registry = pytest.importorskip("vllm.model_executor.models.registry", reason="vllm is not installed here")
    with pytest.MonkeyPatch.context() as patch:
        # Each new architecture is looked at in a process of its own, which imports all of vLLM.
        patch.setattr(registry, "_run_in_subprocess", lambda inspect: inspect())
        patch.setenv("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
        patch.setenv("VLLM_CPU_OMP_THREADS_BIND", "nobind")  # tests that follow want all cores
        yield from _opener(checkpoint_of)


def _opener(checkpoint_of: Checkpoints) -> Iterator[OpenEngine]:
    vllm = pytest.importorskip("vllm", reason="vllm is not installed here: `make test-vllm`")
    from models.engines.vllm.engine import VLLMEngine

    running: list[Engine] = []
    shared: list[tuple[str | Path, dict[str, Any]]] = []

    def open_engine(architecture: str | Path, *, is_shared: bool = False, **more: Any) -> Engine:
        if is_shared and shared == [(architecture, more)]:
            return running[-1]
        shared[:] = [(architecture, more)] if is_shared else []
        while running:
            running.pop().close()
        folder = checkpoint_of(architecture) if isinstance(architecture, str) else architecture
        settings = {"dtype": "float32", "limits": Limits(max_model_len=4096), **more}
        spec = ModelSpec(engine="vllm", model=str(folder), device="cpu", **settings)
        running.append(VLLMEngine(spec, make=lambda **given: vllm.LLM(**{**given, **_SMALL})))
        return running[-1]

    yield open_engine
    while running:
        running.pop().close()
