"""Progress events of a run."""

from dataclasses import dataclass, field
from time import monotonic
from typing import Protocol


class ProgressListener(Protocol):
    """Receives the progress of a run; the command line draws it."""

    def phase(self, title: str, total: int) -> None:
        """Start a phase with a total number of rows."""

    def advance(self, rows: int, failed: int) -> None:
        """Add finished rows, `failed` of which failed."""

    def note(self, text: str) -> None:
        """Show what the phase waits for, in lines; they replace the previous ones, '' removes them."""


class NullProgress:
    """A progress listener that ignores all events."""

    def phase(self, title: str, total: int) -> None: ...  # noqa: D102

    def advance(self, rows: int, failed: int) -> None: ...  # noqa: D102

    def note(self, text: str) -> None: ...  # noqa: D102


@dataclass(slots=True)
class Rate:
    """Rows of a phase, how fast they are finished and how long the rest takes."""

    title: str
    total: int  # 0 where it is unknown
    start: float = field(default_factory=monotonic)
    done: int = 0
    failed: int = 0
    last: float = 0.0  # when rows were last finished

    def advance(self, rows: int, failed: int) -> None:
        """Count finished rows."""
        self.done, self.failed, self.last = self.done + rows, self.failed + failed, monotonic()

    def text(self) -> str:
        """Return counts, rate and time left, without the title; the time since the start until rows are finished.

        Rows are finished in units of hundreds: the rate is that of the last unit's end, and the time left falls since.
        """
        now, seconds = monotonic(), max(self.last - self.start, 1e-9)
        counts = f"{self.done}{f'/{self.total}' if self.total else ''}"
        if not self.done:
            return f"{counts}, {span(now - self.start)}" if self.total else span(now - self.start)
        rate = self.done / seconds
        left = f", {span(max((self.total - self.done) / rate - (now - self.last), 0))} left" if self.total else ""
        failed = f", {self.failed} failed" if self.failed else ""
        return f"{counts}, {rate:.3g}/s{left}{failed}"


def span(seconds: float) -> str:
    """Return a time such as `1h05m`, `2m30s` or `12s`."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m" if hours else f"{minutes}m{rest:02d}s" if minutes else f"{rest}s"
