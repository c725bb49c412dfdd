"""Progress of a fine-tuning on standard error: step, loss, rate and time left."""

import sys
import time

from jobs.finetune.checkpoints import TrainingEvent
from jobs.shared.output import print_error, write_error
from pipelines.clean_text import one_line
from pipelines.progress import span

_LINE_EVERY_S = 30.0  # between lines where there is no terminal


class TrainingProgress:
    """A live line on a terminal; elsewhere a line now and then, and one for each validation."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._live = sys.stderr.isatty() and not quiet
        self._title, self._rows = "", 0
        self._first: tuple[int, float] | None = None  # step and time of the first event
        self._shown = 0.0

    def phase(self, title: str) -> None:
        """Start a phase."""
        self._title, self._rows = title, 0
        self._write(title, permanent=True)

    def read(self, rows: int) -> None:
        """Count rows that were read."""
        self._rows += rows
        self._write(f"{self._title}: {self._rows} rows")

    def event(self, event: TrainingEvent) -> None:
        """Show a finished step or validation."""
        if self._first is None:
            self._first = event.step, time.monotonic()
        if event.is_validation:
            self._write(f"step {event.step}: validation loss {event.loss:.4f}", permanent=True)
            return
        is_last = event.step == event.total_steps
        self._write(self._step_line(event, self._first), permanent=is_last)

    def _step_line(self, event: TrainingEvent, first: tuple[int, float]) -> str:
        step, start = first
        seconds = time.monotonic() - start
        rate = (event.step - step) / seconds if seconds > 0 else 0.0
        left = f", {rate:.2f} steps/s, {span((event.total_steps - event.step) / rate)} left" if rate else ""
        return (
            f"training: step {event.step}/{event.total_steps}, epoch {event.epoch}/{event.epochs}, "
            f"loss {event.loss:.4f}{left}"
        )

    def _write(self, line: str, *, permanent: bool = False) -> None:
        """Show a line; a lasting one stays, others are replaced, or shown now and then where they cannot be."""
        if self._quiet:
            return
        line = one_line(line)
        if self._live:
            write_error(f"\r\x1b[2K{line}{chr(10) if permanent else ''}")
        elif permanent or time.monotonic() - self._shown > _LINE_EVERY_S:
            self._shown = time.monotonic()
            print_error(line)
