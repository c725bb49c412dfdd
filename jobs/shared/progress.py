"""Progress of a run on standard error."""

import logging
import sys
import threading
import time
from types import TracebackType
from typing import Self

from jobs.shared.output import LIVE_LINES, print_error, terminal_width
from pipelines.clean_text import cut, one_line
from pipelines.logging_context import logs_are_json
from pipelines.progress import Rate

LOG_EVERY_S = 60.0  # shortest time between two lines on an unfinished phase, where there is no terminal
TICK_S = 0.5  # time between two drawings on a terminal: also while no row is finished, so that it is seen to run
MAX_NOTES = 8  # most lines of a note on a terminal


class Progress:
    """Shows phases with rate and time left: live lines on a terminal; elsewhere a line a minute, and one at the end.

    Phases of less than `min_s` seconds, and those that count nothing, leave no line at their end. A block that ends
    with an exception leaves the state on the screen, and what follows begins on a line of its own.
    """

    def __init__(self, *, quiet: bool = False, min_s: float = 0.0) -> None:
        self._min_s = min_s
        self._live = sys.stderr.isatty() and not quiet and not logs_are_json()
        self._quiet = quiet
        self._lock = threading.RLock()
        self._rate: Rate | None = None
        self._ended = threading.Event()
        self._note, self._logged = "", float("-inf")

    def __enter__(self) -> Self:
        if self._live:
            LIVE_LINES.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.finish()
        else:
            self._stop(is_left=True)
        LIVE_LINES.close()

    def phase(self, title: str, total: int) -> None:
        """Begin a phase of `total` rows."""
        self.finish()
        with self._lock:
            self._rate, self._note, self._ended = Rate(title, total), "", threading.Event()
            if self._live:
                self._draw()
            if not self._quiet:
                threading.Thread(target=self._tick, args=(self._ended,), name="vlmsweep-progress", daemon=True).start()

    def advance(self, rows: int, failed: int) -> None:
        """Count finished rows."""
        with self._lock:
            if self._rate:
                self._rate.advance(rows, failed)

    def note(self, text: str) -> None:
        """Show what the phase waits for."""
        with self._lock:
            self._note = text
            if self._live:
                self._draw()
            elif text and not self._quiet and time.monotonic() - self._logged >= LOG_EVERY_S:
                self._log(text if self._rate is None else f"{self._rate.title}: {text}")

    def finish(self) -> None:
        """End the phase."""
        with self._lock:
            self._stop()
            rate, self._rate = self._rate, None
            if rate is None or self._quiet or not (rate.total or rate.done):
                return
            seconds = time.monotonic() - rate.start
            if seconds >= self._min_s:
                failed = f", {rate.failed} failed" if rate.failed else ""
                total = f" of {rate.total}" if rate.total else ""
                self._print(f"{rate.title}: {rate.done}{total}{failed} in {seconds:.1f} s")

    def _stop(self, *, is_left: bool = False) -> None:
        with self._lock:
            self._ended.set()
            if self._live and self._rate:
                LIVE_LINES.end(is_left=is_left)

    def _tick(self, ended: threading.Event) -> None:
        began = time.monotonic()
        while not ended.wait(TICK_S):
            with self._lock:
                if ended.is_set() or self._rate is None:
                    return
                if self._live:
                    self._draw()
                elif time.monotonic() - max(self._logged, began) >= LOG_EVERY_S:
                    self._log("; ".join(filter(None, (f"{self._rate.title}: {self._rate.text()}", self._note))))

    def _log(self, line: str) -> None:
        self._logged = time.monotonic()
        self._print(line)

    def _print(self, line: str) -> None:
        if logs_are_json():
            logging.getLogger("vlmsweep").info("%s", line)
        else:
            print_error(one_line(line))

    def _draw(self) -> None:
        if self._rate:
            LIVE_LINES.draw(live_lines(self._rate, self._note, (terminal_width(sys.stderr) or 80) - 1))


def live_lines(rate: Rate, note: str, width: int) -> list[str]:
    """Return the lines of a phase, of at most `width` characters: a long title is cut, and never its counts."""
    counts = rate.text()
    title = cut(one_line(rate.title), max(width - len(counts) - 2, 8))
    notes = [one_line(line) for line in note.splitlines()]
    more = [f"and {len(notes) - MAX_NOTES} more"] if len(notes) > MAX_NOTES else []
    return [cut(line, width) for line in (f"{title}: {counts}", *(f"  {line}" for line in notes[:MAX_NOTES] + more))]
