"""Log lines as JSON that say whose they are, in the driver and in the processes that Ray starts for it.

Each tells the run, the model and the part that it is about, and the request where one is in hand alone. A process of
Ray's knows nothing of how the driver writes its log, so it is handed `fields_for_workers`. Its lines go to its standard
error, which Ray keeps in `worker-*.err` among its logs on that node.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import cache
from types import MappingProxyType

OURS = ("cluster", "models", "pipelines")
"""Rooms whose lines are of interest from `info` on; libraries speak from `warning` on."""


class JsonFormatter(logging.Formatter):
    """One JSON object a line: when, how grave, who says it, and which run, model, part and request it is about."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **current_context(),
            **getattr(record, "about", {}),
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=True)


def logs_are_json() -> bool:
    """Whether this process writes its log lines as JSON."""
    return any(isinstance(handler.formatter, JsonFormatter) for handler in logging.getLogger().handlers)


def fields_for_workers(**fields: str) -> Mapping[str, str] | None:
    """What a worker's lines shall carry; None where they shall stay as they are, because those of this process are."""
    return fields if logs_are_json() else None


@contextmanager
def worker_log_context(fields: Mapping[str, str] | None, **more: str) -> Iterator[None]:
    """Within, this process, one of Ray's, writes its log lines as JSON and with these fields.

    Args:
        fields: of `fields_for_workers`; nothing is done without.
        more: further fields; empty ones are left out.
    """
    if fields is None:
        yield
        return
    _begin()
    with log_context(**{**fields, **more}):
        yield


@cache
def _begin() -> None:
    """Once a process; Ray shares none between two drivers."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter())
    logging.getLogger().addHandler(handler)
    for room in OURS:
        logging.getLogger(room).setLevel(logging.INFO)


_ABOUT: ContextVar[Mapping[str, str]] = ContextVar("about", default=MappingProxyType({}))


@contextmanager
def log_context(**fields: str) -> Iterator[None]:
    """Log lines of this thread carry these fields for the length of a block."""
    token = _ABOUT.set({**_ABOUT.get(), **{name: value for name, value in fields.items() if value}})
    try:
        yield
    finally:
        _ABOUT.reset(token)


def current_context() -> Mapping[str, str]:
    """The fields of this thread's log lines."""
    return _ABOUT.get()
