"""Engines answer calls. Each is imported only when a model needs it."""

from __future__ import annotations

import importlib

from models.engine_choice import choose_engine
from models.engines.base import Engine
from models.engines.reasoning import ReasoningEngine
from models.errors import EngineUnreachableError
from models.spec import ModelSpec, ReasoningMarkers

__all__ = ["build_engine", "with_reasoning"]

_ENGINES = {
    "openai": ("models.engines.openai.engine", "OpenAIEngine"),
    "random": ("models.engines.random_baseline", "RandomEngine"),
    "transformers": ("models.engines.transformers.engine", "TransformersEngine"),
    "vllm": ("models.engines.vllm.engine", "VLLMEngine"),
}


def build_engine(name: str, spec: ModelSpec) -> Engine:
    """Build the engine of one model in this process: load weights, read keys.

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
    return with_reasoning(engine, spec)


def with_reasoning(engine: Engine, spec: ModelSpec) -> Engine:
    """Return the engine of a reasoning model with tokens to think with; any other as it is."""
    if spec.thinking_tokens is None:
        return engine
    return ReasoningEngine(engine, spec.thinking_tokens, spec.reasoning or ReasoningMarkers())
