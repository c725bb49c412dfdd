"""Engines answer calls. Each is imported only when a model needs it."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from models.engine_choice import choose_engine
from models.engines.base import Engine
from models.engines.frame_reduction import FrameReductionEngine
from models.engines.reasoning import ReasoningEngine
from models.engines.watchdog import WatchdogEngine
from models.entry_fields import ReasoningMarkers
from models.errors import EngineStalledError, EngineUnreachableError
from models.spec import ModelSpec

if TYPE_CHECKING:
    from models.engines.endpoints.batch_api import BatchApi

__all__ = ["build_engine", "load_engine", "open_batch_api", "wrap_engine"]

OnStall = Callable[[EngineStalledError], object]


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
    builder = spec.ranks_builder if spec.tensor_parallel > 1 and spec.ranks_builder else spec.builder
    try:
        engine: Engine = _build(builder, spec)
    except ModuleNotFoundError as error:
        if not spec.package or error.name not in (spec.package, builder.partition(":")[0]):
            raise
        raise EngineUnreachableError(
            f"model {name!r} requires {spec.package}: pip install 'vlmsweep[{spec.package}]', or set "
            "`engine: transformers` if transformers supports the model"
        ) from error
    return engine


def open_batch_api(spec: ModelSpec) -> BatchApi:
    """Open the batch endpoint of a model's provider (MissingSecretError)."""
    api: BatchApi = _build(spec.batch_builder, spec)
    return api


def _build(name: str, spec: ModelSpec) -> Any:
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(module), function)(spec)


def wrap_engine(engine: Engine, spec: ModelSpec, *, on_stall: OnStall | None = None) -> Engine:
    """Compose what surrounds an engine: a watchdog, tokens to think with, fewer frames where a clip is too long.

    With `on_stall` an engine that cannot notice a stall itself is watched: see `WatchdogEngine`.
    """
    if on_stall and not engine.has_own_timeout:
        engine = WatchdogEngine(engine, spec.stall_timeout_s, on_stall)
    if spec.thinking_tokens is not None:
        engine = ReasoningEngine(engine, spec.thinking_tokens, spec.reasoning or ReasoningMarkers())
    return FrameReductionEngine(engine)
