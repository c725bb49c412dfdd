"""JSON log lines with context, in the driver and, by `fields_for_workers`, in Ray's workers (`worker-*.err`)."""

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import cache
from types import MappingProxyType

from models.guards.redaction import without_passwords

LOGGED_PACKAGES = ("cluster", "models", "pipelines")  # from `info` on; libraries log from `warning` on


class JsonFormatter(logging.Formatter):
    """Formats a record as one JSON object with time, level, logger, message and context."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": without_passwords(record.getMessage()),
            **current_context(),
            **getattr(record, "about", {}),
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=True)


def logs_are_json() -> bool:
    """Return whether this process logs as JSON."""
    return any(isinstance(handler.formatter, JsonFormatter) for handler in logging.getLogger().handlers)


def fields_for_workers(**fields: str) -> Mapping[str, str] | None:
    """Return the fields of a worker's log lines, or None if this process does not log as JSON."""
    return fields if logs_are_json() else None


@contextmanager
def worker_log_context(fields: Mapping[str, str] | None, **more: str) -> Iterator[None]:
    """Log as JSON with these non-empty fields in a worker of Ray; None leaves the log as it is."""
    if fields is None:
        yield
        return
    _configure_worker_logging()
    with log_context(**{**fields, **more}):
        yield


@cache
def _configure_worker_logging() -> None:
    """Configure logging once per process; Ray never shares one between two drivers."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter())
    logging.getLogger().addHandler(handler)
    for package in LOGGED_PACKAGES:
        logging.getLogger(package).setLevel(logging.INFO)


_CONTEXT: ContextVar[Mapping[str, str]] = ContextVar("log_context", default=MappingProxyType({}))


@contextmanager
def log_context(**fields: str) -> Iterator[None]:
    """Add fields to this thread's log lines within a block."""
    token = _CONTEXT.set({**_CONTEXT.get(), **{name: value for name, value in fields.items() if value}})
    try:
        yield
    finally:
        _CONTEXT.reset(token)


def current_context() -> Mapping[str, str]:
    """Return the fields of this thread's log lines."""
    return _CONTEXT.get()
