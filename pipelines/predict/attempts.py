"""Attempts at units, recorded across the deaths of replicas; runs as an actor for the length of a job."""

from collections import Counter

BLAMED_DEATHS = 2
"""Deaths at the same single request, or medium, before it is called their cause: a machine may go away at any once."""


class AttemptTracker:
    """Counts attempts, and knows which request was in progress when a replica died."""

    def __init__(self) -> None:
        self._attempts: dict[str, int] = {}
        self._in_progress: dict[str, str] = {}
        self._deaths_at: dict[str, Counter[str]] = {}
        self._stalled_at: dict[str, dict[str, str]] = {}
        self._forgiven: set[tuple[str, str]] = set()
        self._answered: set[str] = set()
        self._answered_rows: dict[str, int] = {}
        self._loading: Counter[str] = Counter()
        self._decoding: dict[str, str] = {}
        self._deaths_at_media: dict[str, Counter[str]] = {}
        self._fatal_media: set[str] = set()
        self._deaths = 0

    def begin(self, unit: str) -> tuple[int, dict[str, str]]:
        """Count another attempt at a unit; return its number, from 1, and the requests that ended earlier ones.

        Their values say how: `engine_died` or `timeout`.
        """
        self._attempts[unit] = self._attempts.get(unit, 0) + 1
        self._answered_rows.pop(unit, None)
        if unit in self._in_progress:
            self._deaths_at.setdefault(unit, Counter())[self._in_progress.pop(unit)] += 1
        deaths = self._deaths_at.get(unit, Counter())
        blamed = {request_id: "engine_died" for request_id, count in deaths.items() if count >= BLAMED_DEATHS}
        return self._attempts[unit], blamed | self._stalled_at.get(unit, {})

    def was_begun(self, unit: str) -> bool:
        """Return whether an attempt at a unit has begun that did not end: its engine died meanwhile."""
        return self._attempts.get(unit, 0) > 0

    def begin_single(self, unit: str, request_id: str) -> None:
        """Record that this request is being answered alone."""
        self._in_progress[unit] = request_id

    def end_single(self, unit: str, request_id: str) -> None:
        """Record that the engine survived a single request."""
        self._deaths = 0
        if self._in_progress.get(unit) == request_id:
            del self._in_progress[unit]

    def forgive(self, unit: str, request_id: str) -> None:
        """Undo, once, the record of a request, or with '' of the attempt at the unit: its death has no known cause."""
        if (unit, request_id) in self._forgiven:
            return
        self._forgiven.add((unit, request_id))
        if not request_id:
            self._attempts[unit] -= 1
        elif self._in_progress.get(unit) == request_id:
            del self._in_progress[unit]

    def record_stall(self, unit: str, request_id: str) -> None:
        """Record that the engine stalled at a request, which is not sent again, or at all of the unit ('')."""
        if request_id:
            self._in_progress.pop(unit, None)
            self._stalled_at.setdefault(unit, {})[request_id] = "timeout"

    def record_rows(self, unit: str, rows: int) -> None:
        """Record how many rows of an unfinished unit are answered."""
        self._answered_rows[unit] = rows

    def answered_rows(self) -> int:
        """Return how many rows of unfinished units are answered."""
        return sum(self._answered_rows.values())

    def record_answered(self, unit: str) -> None:
        """Record that a unit was answered: if its batch begins again, it is not the cause."""
        self._deaths = 0
        self._answered_rows.pop(unit, None)
        self._attempts.pop(unit, None)
        self._answered.add(unit)

    def was_answered(self, unit: str) -> bool:
        """Return whether a replica answered the whole unit."""
        return unit in self._answered

    def record_death(self) -> int:
        """Record the death of an engine; return how many died since anything was answered, this one included."""
        self._deaths += 1
        return self._deaths

    def begin_loading_all(self, units: list[str]) -> tuple[bool, frozenset[str]]:
        """Record that a process loads these units together; return False, with no record, if one died at any of them.

        Then they are loaded one at a time, with `begin_loading`, to learn which it is. Second come the fatal media of
        the job, which are not to be decoded.
        """
        if any(self._loading[unit] for unit in units):
            return False, frozenset()
        self._loading.update(units)
        return True, frozenset(self._fatal_media)

    def begin_loading(self, unit: str) -> tuple[int, frozenset[str]]:
        """Record that a process loads a unit; return how many have died while they loaded it, and the fatal media.

        Deaths are counted by unit, because one lost machine may end several processes that want the same medium.
        """
        if unit in self._decoding:
            medium = self._decoding.pop(unit)
            deaths = self._deaths_at_media.setdefault(unit, Counter())
            deaths[medium] += 1
            if deaths[medium] >= BLAMED_DEATHS:
                self._fatal_media.add(medium)
        self._loading[unit] += 1
        return self._loading[unit] - 1, frozenset(self._fatal_media)

    def begin_medium(self, unit: str, medium: str) -> None:
        """Record that a process decodes this medium of a unit, and is done with the one before; '' for none."""
        if medium:
            self._decoding[unit] = medium
        else:
            self._decoding.pop(unit, None)

    def end_loading(self, *units: str) -> None:
        """Record that units are loaded, or that their store failed."""
        for unit in units:
            for records in (self._loading, self._decoding, self._deaths_at_media):
                records.pop(unit, None)
