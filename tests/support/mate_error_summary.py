"""Summaries of MATE's error analysis, checked against the paper's figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Literal

from pipelines.benchmarks.mate.error_analysis import OVERLAP_LABELS, Overlap, OverlapLabel

_MISSED: tuple[OverlapLabel, ...] = ("2", "1", "0")


@dataclass(frozen=True, slots=True)
class OutOfScene:
    """Errors, and those of them that name nothing in the scene."""

    errors: int
    """Wrong rows, those without JSON included."""
    outside: int
    """Errors whose answer no object of the scene has."""

    @property
    def share(self) -> float | None:
        """Fraction of errors out of scene; None without errors."""
        return self.outside / self.errors if self.errors else None


def out_of_scene(rows: Iterable[tuple[bool, bool]]) -> OutOfScene:
    """Count errors over rows of (correct, in scene)."""
    errors = [inside for correct, inside in rows if not correct]
    return OutOfScene(len(errors), errors.count(False))


@dataclass(frozen=True, slots=True)
class OverlapSummary:
    """All rows that only coordinates could link."""

    rows: tuple[Overlap, ...]
    """In any order."""

    @property
    def counts(self) -> dict[OverlapLabel, int]:
        """Rows under each of the six labels; they add up to all."""
        labels = Counter(row.label for row in self.rows)
        return {label: labels[label] for label in OVERLAP_LABELS}

    @property
    def correct_given_noncoord_match(self) -> float | None:
        """Right ones among rows that chose an object alike in all but coordinates, as a fraction."""
        counts = self.counts
        return _share(counts["4"], counts["4"] + counts["3"])

    @property
    def noncoord_mismatch(self) -> float | None:
        """Rows that chose an object differing in something besides coordinates, as a fraction of all."""
        return _share(sum(self.counts[label] for label in _MISSED), len(self.rows))

    def closer(
        self,
        measure: Literal["distance", "depth", "horizontal", "alone"] = "distance",
        labels: Collection[OverlapLabel] = _MISSED,
    ) -> tuple[int, int]:
        """Count rows under `labels` for which the `measure` holds, and all rows under them."""
        chosen = [row.closer for row in self.rows if row.closer is not None and row.label in labels]
        return sum(bool(getattr(item, measure)) for item in chosen), len(chosen)


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
