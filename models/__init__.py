"""Model specifications and the engines that answer calls.

`load_models(files)` reads the catalog and the user's models files (YAML, contract of the README) into `ModelSpec`s;
`build_engine(name, spec)` loads one here and now and returns an `Engine`, whose `generate` takes `Call`s made of
`Turn`s and `Media`, with `Frames` as decoded pixels. Errors that a user can fix are `ModelError`s.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from models.catalog_loader import load_models, select_models
    from models.engines import build_engine
    from models.engines.base import Engine
    from models.errors import EngineUnreachableError, ModelError
    from models.messages import Call, Failure, Frames, Generation, Media, Request, Step, Turn, user
    from models.spec import GenerationSpec, Limits, ModelSpec, Replicas

__all__ = [
    "Call",
    "Engine",
    "EngineUnreachableError",
    "Failure",
    "Frames",
    "Generation",
    "GenerationSpec",
    "Limits",
    "Media",
    "ModelError",
    "ModelSpec",
    "Replicas",
    "Request",
    "Step",
    "Turn",
    "build_engine",
    "load_models",
    "select_models",
    "user",
]

_MODULES: Final = {
    "models.catalog_loader": "load_models select_models",
    "models.engines": "build_engine",
    "models.engines.base": "Engine",
    "models.errors": "EngineUnreachableError ModelError",
    "models.messages": "Call Failure Frames Generation Media Request Step Turn user",
    "models.spec": "GenerationSpec Limits ModelSpec Replicas",
}
"""Module -> public names; a module is imported when one of its names is first used, which keeps imports light."""


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names.split():
            return getattr(import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
