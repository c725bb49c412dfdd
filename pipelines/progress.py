"""Progress events of a run."""

from __future__ import annotations

from typing import Protocol


class ProgressListener(Protocol):
    """Receives the progress of a run; the command line draws it."""

    def phase(self, title: str, total: int) -> None:
        """Start a phase with a total number of rows."""
        ...

    def advance(self, rows: int, failed: int) -> None:
        """Add finished rows, `failed` of which failed."""
        ...

    def note(self, text: str) -> None:
        """Show what the phase waits for, as a sentence; it replaces the previous one."""
        ...


class NullProgress:
    """A progress listener that ignores all events."""

    def phase(self, title: str, total: int) -> None: ...  # noqa: D102

    def advance(self, rows: int, failed: int) -> None: ...  # noqa: D102

    def note(self, text: str) -> None: ...  # noqa: D102
