"""What a person at the terminal sees: progress on standard error, results on standard output."""

from __future__ import annotations

import contextlib
import json
import logging
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from pipelines.logging_context import JsonFormatter, logs_are_json

TEXT_FORMAT = "%(levelname)s: %(message)s"
"""Log lines for people."""


def log_as_json(*, wanted: bool) -> None:
    """Log lines as JSON for machines that gather them, or as sentences for people."""
    for handler in logging.getLogger().handlers:
        if wanted:
            handler.setFormatter(JsonFormatter())
        elif isinstance(handler.formatter, JsonFormatter):
            handler.setFormatter(logging.Formatter(TEXT_FORMAT))


def results_only_on_stdout() -> AbstractContextManager[object]:
    """Within, what libraries print goes to standard error: Ray tells of dead workers there, and `--json` stays JSON."""
    return contextlib.redirect_stdout(sys.stderr)


def print_line(text: str) -> None:
    """A line on standard output."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def print_error(text: str) -> None:
    """A line on standard error."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def print_json(value: object) -> None:
    """One JSON object on standard output."""
    print_line(json.dumps(value, ensure_ascii=True, allow_nan=False))


def table(heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A plain table for a terminal."""
    from tabulate import tabulate

    return str(tabulate(rows, headers=list(heads), disable_numparse=True, missingval="-"))


def prepare(*, verbose: bool, config: Path | None) -> None:
    """How much is said."""
    del config  # read by its callback before the other flags
    logging.getLogger().setLevel(logging.INFO if verbose or logs_are_json() else logging.WARNING)
