"""Attempts at units, remembered across the deaths of replicas; lives as an actor for as long as a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

STRIKES = 2
"""Deaths at the same request alone before it is called their cause: a machine may go away at any request once."""


class AttemptTracker:
    """Counts attempts, and knows who was in hand when a replica died."""

    def __init__(self) -> None:
        self._attempts: dict[str, int] = {}
        self._alone: dict[str, str] = {}
        self._deaths_at: dict[str, Counter[str]] = {}
        self._loading: Counter[str] = Counter()
        self._stalled_at: dict[str, dict[str, str]] = {}
        self._given_up = ""
        self._answered: set[str] = set()
        self._excused: set[tuple[str, str]] = set()
        self._deaths = 0
        self._replicas = 0
        self._remarks: dict[str, None] = {}
        self._loads: dict[str, tuple[str, float, float]] = {}

    def begin(self, unit: str) -> tuple[int, dict[str, str]]:
        """See `work.Attempts`."""
        self._attempts[unit] = self._attempts.get(unit, 0) + 1
        if unit in self._alone:
            self._deaths_at.setdefault(unit, Counter())[self._alone.pop(unit)] += 1
        struck = self._deaths_at.get(unit, Counter())
        killers = {one: "engine_died" for one, times in struck.items() if times >= STRIKES}
        return self._attempts[unit], killers | self._stalled_at.get(unit, {})

    def alone(self, unit: str, request_id: str) -> None:
        """See `work.Attempts`."""
        self._alone[unit] = request_id

    def survived(self, unit: str, request_id: str) -> None:
        """See `work.Attempts`."""
        self._deaths = 0
        if self._alone.get(unit) == request_id:
            del self._alone[unit]

    def excuse(self, unit: str, request_id: str) -> None:
        """See `work.Attempts`."""
        if (unit, request_id) in self._excused:
            return
        self._excused.add((unit, request_id))
        if not request_id:
            self._attempts[unit] -= 1
        elif self._alone.get(unit) == request_id:
            del self._alone[unit]

    def begin_loading(self, unit: str) -> int:
        """How many processes have died while they loaded this unit; one more begins to."""
        self._loading[unit] += 1
        return self._loading[unit] - 1

    def loaded(self, unit: str) -> None:
        """It is loaded, or its store failed, for which nobody is to blame."""
        self._loading.pop(unit, None)

    def stalled(self, unit: str, request_id: str) -> None:
        """See `work.Attempts`."""
        if request_id:
            self._alone.pop(unit, None)
            self._stalled_at.setdefault(unit, {})[request_id] = "timeout"

    def answered(self, unit: str) -> None:
        """A unit was answered: the replicas do work, and should its convoy begin again, it is not to blame."""
        self._deaths = 0
        self._attempts.pop(unit, None)
        self._answered.add(unit)

    def was_answered(self, unit: str) -> bool:
        """Whether a replica got to its end."""
        return unit in self._answered

    def died(self) -> int:
        """An engine died under its replica; how many have since anything was answered, this one included."""
        self._deaths += 1
        return self._deaths

    def give_up(self, why: str) -> None:
        """No replica is to be started again."""
        self._given_up = why

    def given_up(self) -> str:
        """Why, or nothing while replicas may be started."""
        return self._given_up

    def started(self, remarks: tuple[str, ...]) -> None:
        """A replica has its engine, and its engine has this to say."""
        self._replicas += 1
        self._remarks.update(dict.fromkeys(remarks))

    def loading(self, replica: str, what: str, done: float, total: float) -> None:
        """How far a replica's weights are; see `models.engines.load_progress.Listener`."""
        self._loads[replica] = (what, done, total)

    def loads(self) -> list[tuple[str, float, float]]:
        """What was said last by each replica that has loaded something."""
        return list(self._loads.values())

    def report(self) -> tuple[int, tuple[str, ...]]:
        """Replicas started so far, and each different remark of theirs."""
        return self._replicas, tuple(self._remarks)


class RemoteAttempts:
    """`work.Attempts` over the ledger actor."""

    def __init__(self, ledger: Any) -> None:
        self._ledger = ledger

    def begin(self, unit: str) -> tuple[int, Mapping[str, str]]:
        """Count one more attempt."""
        import ray

        answer: tuple[int, dict[str, str]] = ray.get(self._ledger.begin.remote(unit))
        return answer

    def alone(self, unit: str, request_id: str) -> None:
        """Note what is in hand."""
        import ray

        ray.get(self._ledger.alone.remote(unit, request_id))  # waited for: the note must stand before the risk

    def survived(self, unit: str, request_id: str) -> None:
        """Take the note back."""
        self._ledger.survived.remote(unit, request_id)

    def excuse(self, unit: str, request_id: str) -> None:
        """Take the note back, once."""
        import ray

        ray.get(self._ledger.excuse.remote(unit, request_id))  # waited for: this process is about to end

    def stalled(self, unit: str, request_id: str) -> None:
        """Note who was in hand when the engine fell silent."""
        import ray

        ray.get(self._ledger.stalled.remote(unit, request_id))  # waited for, as above
