"""What a person at the terminal sees: progress on standard error, results on standard output."""

from __future__ import annotations

import contextlib
import json
import logging
import sys
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from pipelines.logging_context import JsonLines, logs_are_json

SENTENCES = "%(levelname)s: %(message)s"
"""Log lines for people."""


def log_as_json(*, wanted: bool) -> None:
    """Log lines as JSON for machines that gather them, or as sentences for people."""
    for handler in logging.getLogger().handlers:
        if wanted:
            handler.setFormatter(JsonLines())
        elif isinstance(handler.formatter, JsonLines):
            handler.setFormatter(logging.Formatter(SENTENCES))


def only_results_on_stdout() -> AbstractContextManager[object]:
    """Within, what libraries print goes to standard error: Ray tells of dead workers there, and `--json` stays JSON."""
    return contextlib.redirect_stdout(sys.stderr)


def say(text: str) -> None:
    """A line on standard output."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def remark(text: str) -> None:
    """A line on standard error."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def say_json(value: object) -> None:
    """One JSON object on standard output."""
    say(json.dumps(value, ensure_ascii=True, allow_nan=False))


def table(heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A plain table for a terminal."""
    from tabulate import tabulate

    return str(tabulate(rows, headers=list(heads), disable_numparse=True, missingval="-"))


class Progress:
    """Phases with rate and time left; one line that renews itself on a terminal, a line a phase elsewhere."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._live = sys.stderr.isatty() and not quiet and not logs_are_json()
        self._quiet = quiet
        self._title, self._total, self._done, self._failed = "", 0, 0, 0
        self._start = self._shown = 0.0

    def phase(self, title: str, total: int) -> None:
        """A phase of so many rows begins."""
        self.finish()
        self._title, self._total, self._done, self._failed = title, total, 0, 0
        self._start, self._shown = time.monotonic(), 0.0
        if self._live:
            self._show()

    def advance(self, rows: int, failed: int) -> None:
        """So many more rows are done."""
        self._done += rows
        self._failed += failed
        if self._live and time.monotonic() - self._shown > 0.2:
            self._show()

    def finish(self) -> None:
        """The phase is over."""
        if not self._title:
            return
        if self._live:
            sys.stderr.write("\r\x1b[2K")
        if not self._quiet:
            seconds = time.monotonic() - self._start
            failed = f", {self._failed} failed" if self._failed else ""
            total = f" of {self._total}" if self._total else ""
            line = f"{self._title}: {self._done}{total}{failed} in {seconds:.1f} s"
            if logs_are_json():
                logging.getLogger("vlmsweep").info("%s", line)
            else:
                remark(line)
        self._title = ""

    def _show(self) -> None:
        self._shown = time.monotonic()
        seconds = max(self._shown - self._start, 1e-9)
        rate = self._done / seconds
        left = f", {_span((self._total - self._done) / rate)} left" if rate and self._total else ""
        failed = f", {self._failed} failed" if self._failed else ""
        total = f"/{self._total}" if self._total else ""
        line = f"{self._title}: {self._done}{total}, {rate:.1f}/s{left}{failed}"
        sys.stderr.write(f"\r\x1b[2K{line}")
        sys.stderr.flush()


def _span(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m" if hours else f"{minutes}m{rest:02d}s" if minutes else f"{rest}s"
