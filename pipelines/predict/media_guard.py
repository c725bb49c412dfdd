"""A guard of media: one that kills the processes that decode it becomes a load error of its own rows alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from models.messages import Media
from pipelines.plan.stored_plan import media_group_key

_FATAL_MEDIUM = (
    "processes died each time they loaded this, for example out of memory; lower max_pixels, or see Ray's own logs"
)


class MediaAttempts(Protocol):
    """The record of attempts, which outlives the process that loads (`AttemptTracker`)."""

    def begin_medium(self, unit: str, medium: str) -> object:
        """Record that a medium of a unit is being decoded, '' for none."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaGuard:
    """Decides which media of a unit are decoded, and records each before it is: one call of an actor a medium.

    So it records only for a unit at which a process died.
    """

    unit: str = ""
    attempts: MediaAttempts | None = None
    """None records nothing: no process died at this unit."""
    fatal_media: frozenset[str] = frozenset()
    """Media at which processes died, by `media_group_key`."""
    skips_all: bool = False
    """No medium is decoded: too many processes died at the unit."""

    def begin(self, medium: Media) -> str:
        """Record that a medium is decoded next; return why it must not be, else ''."""
        key = media_group_key(medium)
        if self.skips_all or key in self.fatal_media:
            return _FATAL_MEDIUM
        if self.attempts is not None:
            self.attempts.begin_medium(self.unit, key)
        return ""

    def end(self) -> None:
        """Record that all media of the unit are decoded."""
        if self.attempts is not None:
            self.attempts.begin_medium(self.unit, "")


UNGUARDED = MediaGuard()
"""Decodes every medium and records nothing."""
