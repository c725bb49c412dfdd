"""Terminal output: results on standard output, messages on standard error."""

from __future__ import annotations

import contextlib
import json
import logging
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from pipelines.clean_text import for_terminal, one_line
from pipelines.logging_context import JsonFormatter, logs_are_json

TEXT_FORMAT = "%(levelname)s: %(message)s"
"""Format of log lines for people."""


class TextFormatter(logging.Formatter):
    """Formats a record for people; further lines are indented, so that none looks like a record."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the cleaned lines."""
        return for_terminal(super().format(record)).replace("\n", "\n    ")


def log_as_text() -> None:
    """Write log lines for people to standard error, where no handler is set yet."""
    handler = logging.StreamHandler()
    handler.setFormatter(TextFormatter(TEXT_FORMAT))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])


def log_as_json(*, enabled: bool) -> None:
    """Switch log lines to JSON for log collectors, or back to text for people."""
    for handler in logging.getLogger().handlers:
        if enabled:
            handler.setFormatter(JsonFormatter())
        elif isinstance(handler.formatter, JsonFormatter):
            handler.setFormatter(TextFormatter(TEXT_FORMAT))


def results_only_on_stdout() -> AbstractContextManager[object]:
    """Redirect what libraries print to standard error, so that `--json` output stays JSON."""
    return contextlib.redirect_stdout(sys.stderr)


def print_line(text: str) -> None:
    """Print a line on standard output."""
    sys.stdout.write(for_terminal(text) + "\n")
    sys.stdout.flush()


def print_error(text: str) -> None:
    """Print a line on standard error."""
    sys.stderr.write(for_terminal(text) + "\n")
    sys.stderr.flush()


def print_json(value: object) -> None:
    """Print one JSON object on standard output."""
    print_line(json.dumps(value, ensure_ascii=True, allow_nan=False))


def table(headers: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Format a plain table for a terminal."""
    from tabulate import tabulate

    cells = [[one_line(cell) if isinstance(cell, str) else cell for cell in row] for row in rows]
    return str(tabulate(cells, headers=list(headers), disable_numparse=True, missingval="-"))


def prepare(*, verbose: bool) -> None:
    """Set the log level; `--config` was read by its callback before the other flags."""
    logging.getLogger().setLevel(logging.INFO if verbose or logs_are_json() else logging.WARNING)
    for client in ("httpx", "httpx2"):  # a line for each request to an endpoint
        logging.getLogger(client).setLevel(logging.WARNING)
