"""Errors of the pipelines, each with the command line's exit code."""

from typing import ClassVar


class PipelineError(Exception):
    """An error with a cause and a remedy that are reported without a traceback, unless it is an `InternalError`."""

    exit_code: ClassVar[int] = 2


class UsageError(PipelineError):
    """A name, flag, configuration or file of the user cannot be used."""


class UnknownNameError(UsageError):
    """No benchmark, task or setting has this name. The message suggests the nearest known name."""


class SourceError(PipelineError):
    """The folder given to `ingest` is not the benchmark as distributed. Says what was expected and where."""


class LayoutError(SourceError):
    """A source lacks columns that the definition of its benchmark names."""


class TooLargeError(SourceError):
    """A file is larger than its reader accepts. Says how large, and what the limit is."""


class DecodeError(SourceError):
    """An image or clip cannot be decoded: truncated, unknown format, too large, or its decoder crashed or hung."""


class DatasetError(PipelineError):
    """The ingested data set is absent, damaged or of another version. Says what to run."""


class StoreError(PipelineError):
    """The store cannot be reached, read or written. The message names the location and what to check."""

    exit_code = 3

    def __init__(self, message: str, *, is_transient: bool = False) -> None:
        super().__init__(message)
        self.is_transient = is_transient  # a retry may help: unreachable or overloaded


class LockedError(StoreError):
    """Another run writes this output. The message names it."""


class FencedError(StoreError):
    """A worker's run lost the lock of the output; its rows are not written."""


class DamagedPartError(StoreError):
    """A Parquet part is truncated or altered."""


class ModelUnavailableError(PipelineError):
    """A model or the cluster is unavailable for the whole run. Committed rows stay; run again to resume."""

    exit_code = 3


class CostLimitReachedError(ModelUnavailableError):
    """The run reached its cost limit. Committed rows stay; run again with a higher limit to continue."""


class InternalError(PipelineError):
    """A bug in a worker. The worker's exception is the `__cause__` and its traceback part of the message."""

    exit_code = 70
