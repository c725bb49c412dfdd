"""Errors of the models package, each with the command line's exit code."""

import difflib
from collections.abc import Collection
from typing import ClassVar

_MAX_NAMES = 40  # names that a message lists; a catalog has more


class ModelError(Exception):
    """A model, its entry or its engine cannot be used."""

    exit_code: ClassVar[int] = 2


class YamlFileError(ModelError):
    """A YAML file cannot be read, is not valid, or repeats a key. The message begins with the file."""


class ModelsFileError(ModelError):
    """A models file cannot be used. The message names the file, the line if known, and the remedy."""


class UnknownModelError(ModelError):
    """No such model in the catalog or the models files."""


class UnknownRevisionError(ModelError):
    """The hub has no such model, or no such revision of it."""


class HubUnreachableError(ModelError):
    """The hub cannot be reached, and the cache has no answer."""

    exit_code = 3


class MissingSecretError(ModelError):
    """A variable that must hold a key is unset, empty, or holds no valid key."""


class ScratchError(ModelError, PermissionError):
    """No temporary folder of this user can be made. The message names the place, and the remedy."""

    exit_code = 3


class ShellSettingError(ModelError):
    """A variable of the shell keeps a client from working. The message names it, and the remedy."""


class EngineUnreachableError(ModelError):
    """The model as a whole is unavailable: weights missing, endpoint down. Not a failed row."""

    exit_code = 3


class BatchApiError(EngineUnreachableError):
    """A call of a provider's batch endpoint failed, after retries where it may be repeated."""

    def __init__(
        self, message: str, *, status: int | None = None, is_transient: bool = False, wait_s: float | None = None
    ) -> None:
        super().__init__(message)
        self.wait_s = wait_s  # that the provider asks for before a later call
        self.status = status  # of HTTP; None without a reply
        self.is_transient = is_transient  # a later call may succeed


class UnlistedBatchError(BatchApiError):
    """A batch may exist at a provider that lists none: only a person can look. The message says where."""


class EngineDiedError(ModelError):
    """Processes of the engine are gone and no call is known to be the cause: the engine must be built again.

    `max_rows` is the largest batch that may fit into its memory, where one did not.
    """

    exit_code = 3

    def __init__(self, message: str = "", *, max_rows: int | None = None) -> None:
        super().__init__(message)
        self.max_rows = max_rows


class DeviceFailedError(EngineDiedError):
    """The device refuses all further work of this process: the engine must be built again in another."""


class EngineStalledError(EngineDiedError):
    """The engine was silent for longer than its model's timeout: it must be built again."""


class TrainingDataError(ModelError):
    """An example of a training cannot be used. The message names it, the reason and the remedy."""


class TrainingStateError(ModelError):
    """A training cannot go on: its checkpoint is damaged or of another model, or its loss is not finite."""


class EngineContractError(ModelError):
    """A bug of an engine: it answered a call twice, never, or one that it was not sent."""

    exit_code = 70


class PrefixSharingUnsupportedError(ModelError):
    """This model's attention or cache does not support packed rows."""

    exit_code = 70


class RankBugError(Exception):
    """A bug in another process of an engine; the message is its traceback."""


BUGS = (
    LookupError,
    AttributeError,
    TypeError,
    NameError,
    AssertionError,
    NotImplementedError,
    ImportError,
    RankBugError,
)
"""Errors of code, whatever request it handles: they are never a failed row, and end a sweep with their traceback."""


def suggest(name: str, known_names: Collection[str]) -> str:
    """Return `; did you mean 'x'?` for the nearest known name, or the first known names if none is near."""
    by_folded_name = {name_list.casefold(): name_list for name_list in sorted(known_names)}
    nearest = difflib.get_close_matches(name.casefold(), by_folded_name, n=1, cutoff=0.4)
    if nearest:
        return f"; did you mean {by_folded_name[nearest[0]]!r}?"
    names = sorted(known_names)
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return f"; known: {', '.join(names[:_MAX_NAMES]) or 'none'}{more}"
