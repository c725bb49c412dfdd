"""Model specifications and the engines that answer calls.

`load_models` reads the catalog and models files into `ModelSpec`s, `build_engine` loads one as an `Engine` that answers
`Call`s, `answer_requests` runs `Request`s of several `Step`s. Errors that a user can fix are `ModelError`s.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from models.catalog_loader import load_models as load_models
    from models.catalog_loader import select_models as select_models
    from models.engines import build_engine as build_engine
    from models.engines.base import Engine as Engine
    from models.engines.conversation import answer_requests as answer_requests
    from models.entry_fields import GenerationSpec as GenerationSpec
    from models.entry_fields import Limits as Limits
    from models.entry_fields import Replicas as Replicas
    from models.errors import EngineContractError as EngineContractError
    from models.errors import EngineDiedError as EngineDiedError
    from models.errors import EngineStalledError as EngineStalledError
    from models.errors import EngineUnreachableError as EngineUnreachableError
    from models.errors import MissingSecretError as MissingSecretError
    from models.errors import ModelError as ModelError
    from models.errors import ModelsFileError as ModelsFileError
    from models.errors import UnknownModelError as UnknownModelError
    from models.fingerprint import answer_fingerprint as answer_fingerprint
    from models.fingerprint import resolved_revision as resolved_revision
    from models.messages import Answer as Answer
    from models.messages import Call as Call
    from models.messages import CallReply as CallReply
    from models.messages import Failure as Failure
    from models.messages import Frames as Frames
    from models.messages import Generation as Generation
    from models.messages import Media as Media
    from models.messages import Reply as Reply
    from models.messages import Request as Request
    from models.messages import Step as Step
    from models.messages import StepOutput as StepOutput
    from models.messages import Text as Text
    from models.messages import Turn as Turn
    from models.messages import user as user
    from models.spec import ModelSpec as ModelSpec

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
__all__ = tuple(sorted(" ".join(_MODULES.values()).split()))


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names.split():
            return getattr(import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
