"""Engines answer calls. Each is imported only when a model needs it."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from models.engine_choice import choose_engine
from models.engines.base import Engine
from models.engines.frame_reduction import FrameReductionEngine
from models.engines.reasoning import ReasoningEngine
from models.engines.watchdog import WatchdogEngine
from models.errors import EngineStalledError, EngineUnreachableError
from models.spec import ModelSpec, ReasoningMarkers

__all__ = ["build_engine", "load_engine", "wrap_engine"]

OnStall = Callable[[EngineStalledError], object]

_ENGINES = {
    "openai": ("models.engines.openai.engine", "OpenAIEngine"),
    "random": ("models.engines.random_baseline", "RandomEngine"),
    "transformers": ("models.engines.transformers.engine", "TransformersEngine"),
    "vllm": ("models.engines.vllm.engine", "VLLMEngine"),
}


def build_engine(name: str, spec: ModelSpec, *, on_stall: OnStall | None = None) -> Engine:
    """Load the engine of one model as `load_engine`, and wrap it as `wrap_engine`."""
    return wrap_engine(load_engine(name, spec), spec, on_stall=on_stall)


def load_engine(name: str, spec: ModelSpec) -> Engine:
    """Load the engine of one model in this process: weights, keys.

    Raises:
        EngineUnreachableError: the engine is not installed, or its model is unavailable.
        MissingSecretError: the endpoint needs a key that is not set.
    """
    spec = choose_engine(spec)
    module, cls = _ENGINES[spec.engine]
    if spec.uses_transformers and spec.tensor_parallel > 1:
        module, cls = "models.engines.tensor_parallel.engine", "open_tensor_parallel"
    try:
        engine: Engine = getattr(importlib.import_module(module), cls)(spec)
    except ModuleNotFoundError as error:
        if not spec.uses_vllm or error.name not in ("vllm", module):
            raise
        raise EngineUnreachableError(
            f"model {name!r} runs on vllm, which is not installed: pip install 'vlmsweep[vllm]'; "
            "or set `engine: transformers` where transformers runs the model"
        ) from error
    return engine


def wrap_engine(engine: Engine, spec: ModelSpec, *, on_stall: OnStall | None = None) -> Engine:
    """Compose what surrounds an engine: a watchdog, tokens to think with, fewer frames where a clip is too long.

    With `on_stall` an engine that cannot notice a stall itself is watched: see `WatchdogEngine`.
    """
    if on_stall and not engine.has_own_timeout:
        engine = WatchdogEngine(engine, spec.stall_timeout_s, on_stall)
    if spec.thinking_tokens is not None:
        engine = ReasoningEngine(engine, spec.thinking_tokens, spec.reasoning or ReasoningMarkers())
    return FrameReductionEngine(engine)
