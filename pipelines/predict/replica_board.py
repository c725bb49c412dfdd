"""The replicas of a model while they start; runs as an actor for the length of a job."""

from __future__ import annotations

LoadProgress = tuple[str, float, float]
"""What is loaded, bytes loaded and bytes in all: see `models.engines.load_progress.Listener`."""


class ReplicaBoard:
    """Starts and load progress of replicas, and why none is to be started any more."""

    def __init__(self) -> None:
        self._started = 0
        self._warnings: dict[str, None] = {}
        self._progress: dict[str, LoadProgress] = {}
        self._given_up = ""

    def record_progress(self, replica: str, name: str, loaded: float, total: float) -> None:
        """Record how far the weights of a replica are loaded."""
        self._progress[replica] = (name, loaded, total)

    def record_start(self, warnings: tuple[str, ...]) -> None:
        """Record that a replica has its engine, with the engine's warnings."""
        self._started += 1
        self._warnings.update(dict.fromkeys(warnings))

    def give_up(self, reason: str) -> None:
        """Record why no replica is to be started again."""
        self._given_up = reason

    def given_up(self) -> str:
        """Return that reason, or ''."""
        return self._given_up

    def started(self) -> int:
        """Return how many replicas have started."""
        return self._started

    def warnings(self) -> tuple[str, ...]:
        """Return each different warning of the engines."""
        return tuple(self._warnings)

    def progress(self) -> list[LoadProgress]:
        """Return the last progress of each replica that has loaded something."""
        return list(self._progress.values())
