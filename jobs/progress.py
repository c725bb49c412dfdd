"""Progress of a run on standard error."""

from __future__ import annotations

import logging
import sys
import time

from jobs.output import print_error, write_error
from pipelines.clean_text import one_line
from pipelines.logging_context import logs_are_json

NOTE_EVERY_S = 60.0
"""Shortest time between two sentences on what a phase waits for, where there is no terminal."""


class Progress:
    """Shows phases with rate and time left: a live line on a terminal, one line per phase elsewhere.

    Phases of less than `min_s` seconds leave no line.
    """

    def __init__(self, *, quiet: bool = False, min_s: float = 0.0) -> None:
        self._min_s = min_s
        self._live = sys.stderr.isatty() and not quiet and not logs_are_json()
        self._quiet = quiet
        self._title, self._total, self._done, self._failed = "", 0, 0, 0
        self._start = self._shown = 0.0
        self._note, self._noted = "", float("-inf")

    def phase(self, title: str, total: int) -> None:
        """Begin a phase of `total` rows."""
        self.finish()
        self._title, self._total, self._done, self._failed = title, total, 0, 0
        self._start, self._shown = time.monotonic(), 0.0
        self._note = ""
        if self._live:
            self._show()

    def advance(self, rows: int, failed: int) -> None:
        """Count finished rows."""
        self._done += rows
        self._failed += failed
        if self._live and time.monotonic() - self._shown > 0.2:
            self._show()

    def note(self, text: str) -> None:
        """Show what the phase waits for."""
        self._note = text
        if self._live:
            self._show()
        elif not self._quiet and time.monotonic() - self._noted >= NOTE_EVERY_S:
            self._noted = time.monotonic()
            self._print(text)

    def finish(self) -> None:
        """End the phase."""
        if not self._title:
            return
        if self._live:
            write_error("\r\x1b[2K")
        seconds = time.monotonic() - self._start
        if not self._quiet and seconds >= self._min_s:
            failed = f", {self._failed} failed" if self._failed else ""
            total = f" of {self._total}" if self._total else ""
            self._print(f"{self._title}: {self._done}{total}{failed} in {seconds:.1f} s")
        self._title = ""

    def _print(self, line: str) -> None:
        if logs_are_json():
            logging.getLogger("vlmsweep").info("%s", line)
        else:
            print_error(one_line(line))

    def _show(self) -> None:
        self._shown = time.monotonic()
        seconds = max(self._shown - self._start, 1e-9)
        rate = self._done / seconds
        left = f", {span((self._total - self._done) / rate)} left" if rate and self._total else ""
        failed = f", {self._failed} failed" if self._failed else ""
        total = f"/{self._total}" if self._total else ""
        note = f"; {self._note}" if self._note else ""
        line = f"{self._title}: {self._done}{total}, {rate:.1f}/s{left}{failed}{note}"
        write_error(f"\r\x1b[2K{one_line(line)}")


def span(seconds: float) -> str:
    """Return a time such as `1h05m`, `2m30s` or `12s`."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m" if hours else f"{minutes}m{rest:02d}s" if minutes else f"{rest}s"
