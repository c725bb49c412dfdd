"""Model specifications and the engines that answer calls.

`load_models` reads the catalog and models files into `ModelSpec`s, `build_engine` loads one as an `Engine` that answers
`Call`s, `answer_requests` runs `Request`s of several `Step`s. Errors that a user can fix are `ModelError`s.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from models.catalog_loader import load_models, select_models
    from models.engines import build_engine
    from models.engines.base import Engine
    from models.engines.conversation import answer_requests
    from models.entry_fields import GenerationSpec, Limits, Replicas
    from models.errors import (
        EngineContractError,
        EngineDiedError,
        EngineStalledError,
        EngineUnreachableError,
        MissingSecretError,
        ModelError,
        ModelsFileError,
        UnknownModelError,
    )
    from models.fingerprint import answer_fingerprint, resolved_revision
    from models.messages import (
        Answer,
        Call,
        CallReply,
        Failure,
        Frames,
        Generation,
        Media,
        Reply,
        Request,
        Step,
        StepOutput,
        Text,
        Turn,
        user,
    )
    from models.spec import ModelSpec

__all__ = [
    "Answer",
    "Call",
    "CallReply",
    "Engine",
    "EngineContractError",
    "EngineDiedError",
    "EngineStalledError",
    "EngineUnreachableError",
    "Failure",
    "Frames",
    "Generation",
    "GenerationSpec",
    "Limits",
    "Media",
    "MissingSecretError",
    "ModelError",
    "ModelSpec",
    "ModelsFileError",
    "Replicas",
    "Reply",
    "Request",
    "Step",
    "StepOutput",
    "Text",
    "Turn",
    "UnknownModelError",
    "answer_fingerprint",
    "answer_requests",
    "build_engine",
    "load_models",
    "resolved_revision",
    "select_models",
    "user",
]

_MODULES: Final = {
    "models.catalog_loader": "load_models select_models",
    "models.engines": "build_engine",
    "models.engines.base": "Engine",
    "models.engines.conversation": "answer_requests",
    "models.errors": (
        "EngineContractError EngineDiedError EngineStalledError EngineUnreachableError MissingSecretError "
        "ModelError ModelsFileError UnknownModelError"
    ),
    "models.fingerprint": "answer_fingerprint resolved_revision",
    "models.messages": (
        "Answer Call CallReply Failure Frames Generation Media Reply Request Step StepOutput Text Turn user"
    ),
    "models.entry_fields": "GenerationSpec Limits Replicas",
    "models.spec": "ModelSpec",
}
"""Module -> public names; a module is imported when one of its names is first used, which keeps imports light."""


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names.split():
            return getattr(import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
