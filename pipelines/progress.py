"""Who is told how a run goes."""

from __future__ import annotations

from typing import Protocol


class ProgressListener(Protocol):
    """Is told how a run goes; the command line draws it, tests and libraries keep silent."""

    def phase(self, title: str, total: int) -> None:
        """A phase of so many rows begins."""
        ...

    def advance(self, rows: int, failed: int) -> None:
        """So many more rows are done, so many of them failed."""
        ...


class NullProgress:
    """Says nothing."""

    def phase(self, title: str, total: int) -> None:
        """Nothing."""

    def advance(self, rows: int, failed: int) -> None:
        """Nothing."""
