"""The progress of models that run concurrently, a line each."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pipelines.progress import ProgressListener, Rate


class SharedProgress:
    """A thread-safe progress listener of a phase that has begun; its note has a line for each unfinished model."""

    def __init__(self, progress: ProgressListener) -> None:
        self._progress, self._lock = progress, threading.Lock()
        self._models: dict[str, _ModelProgress] = {}

    def model(self, name: str) -> _ModelProgress:
        """Return the listener of one model."""
        return _ModelProgress(self, name)

    @contextmanager
    def judges(self) -> Iterator[Callable[[str], _ModelProgress]]:
        """Yield what returns the listener of a judge beside the models; its rows are not of this phase."""
        listeners = dict[str, _ModelProgress]()
        try:
            yield lambda title: listeners.setdefault(title, _ModelProgress(self, title, is_counted=False))
        finally:
            with self._lock:
                for title in listeners:
                    self._models.pop(title, None)
                self._show_lines()

    def show(self, model: _ModelProgress, rows: int = 0, failed: int = 0) -> None:
        """Add rows, and show the lines of all models after one has changed."""
        with self._lock:
            if rows and model.is_counted:
                self._progress.advance(rows, failed)
            self._models[model.rate.title] = model
            self._show_lines()

    def _show_lines(self) -> None:
        unfinished = [entry for entry in self._models.values() if entry.rate.done < entry.rate.total]
        self._progress.note("\n".join(entry.text() for entry in unfinished))


class _ModelProgress:
    """The progress of one of several models."""

    def __init__(self, shared: SharedProgress, name: str, *, is_counted: bool = True) -> None:
        self._shared, self._waits_for, self.is_counted = shared, "", is_counted
        self.rate = Rate(name, 0)

    def phase(self, _title: str, total: int) -> None:
        if self.is_counted:
            self.rate = Rate(self.rate.title, total)
        else:  # a judge is asked a part of its questions at a time
            self.rate.total += total
        self._shared.show(self)

    def advance(self, rows: int, failed: int) -> None:
        self.rate.advance(rows, failed)
        self._shared.show(self, rows, failed)

    def note(self, text: str) -> None:
        self._waits_for = text
        self._shared.show(self)

    def text(self) -> str:
        """Return the line of the model."""
        return "; ".join(filter(None, (f"{self.rate.title}: {self.rate.text()}", self._waits_for)))
