"""The replicas of a model while they start; runs as an actor for the length of a job."""

from collections import Counter

LoadProgress = tuple[str, float, float]
"""What is loaded, bytes loaded and bytes in all: see `models.engines.load_progress.Listener`."""


MAX_LOADS = 3  # failures of one replica to load, after which it is certain that no other is about to start
MAX_NODES = 3  # nodes on which loading fails for one reason before that is the model's fault


class ReplicaBoard:
    """Starts and load progress of replicas, and why none is to be started any more."""

    def __init__(self, replicas: int = 1) -> None:
        self._replicas = replicas
        self.started = 0
        self._running: set[str] = set()
        self._loads: set[str] = set()
        self._failed_loads: Counter[str] = Counter()
        self._failed_nodes: dict[str, set[str]] = {}
        self._progress: dict[str, LoadProgress] = {}
        self._given_up = ""
        self._max_rows: int | None = None

    def record_max_rows(self, rows: int) -> None:
        """Record the largest batch that may fit into memory, where one did not."""
        self._max_rows = min(rows, self._max_rows or rows)

    def max_rows(self) -> int | None:
        """Return the largest batch that may fit; None where all did."""
        return self._max_rows

    def begin_load(self, replica: str) -> str:
        """Record that a replica loads the model, again after its process died; return why it must not, else ''."""
        self._running.discard(replica)
        if not self._given_up:
            self._loads.add(replica)
        return self._given_up

    def record_failed_load(self, replica: str, node: str, reason: str) -> str:
        """Record that a replica could not load; return why the model is given up, '' where it is to try again.

        A model is given up if no replica runs and none is left to hope for, or if three nodes fail alike.
        """
        self._loads.discard(replica)
        self._failed_loads[replica] += 1
        nodes = self._failed_nodes.setdefault(reason, set())
        nodes.add(node)
        have_all_failed = len(self._failed_loads) >= self._replicas or self._failed_loads[replica] >= MAX_LOADS
        if not self._running and ((have_all_failed and not self._loads) or len(nodes) >= MAX_NODES):
            self.give_up(reason)
        return self._given_up

    def record_progress(self, replica: str, name: str, loaded: float, total: float) -> None:
        """Record how far the weights of a replica are loaded."""
        self._progress[replica] = (name, loaded, total)

    def record_start(self, replica: str) -> None:
        """Record that a replica has its engine."""
        self.started += 1
        self._running.add(replica)
        self._loads.discard(replica)
        self._failed_loads.pop(replica, None)

    def give_up(self, reason: str) -> None:
        """Record why no replica is to be started again."""
        self._given_up = reason

    @property
    def loading(self) -> int:
        """How many replicas load the model."""
        return len(self._loads)

    def progress(self) -> list[LoadProgress]:
        """Return the last progress of each replica that has loaded something."""
        return list(self._progress.values())
