"""TODO doc."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pipelines.hashing import stable_id
from pipelines.nightly.history import Pair


@dataclass(frozen=True, slots=True, kw_only=True)
class PairStatus:
    """A pair of the configuration, and why it has to be run; `why` is '' when it has not."""

    model: str
    benchmark: str
    parts: Mapping[str, str]
    why: str
    before: Pair | None

    @property
    def fingerprint(self) -> str:
        """Hash of all parts."""
        return stable_id(dict(self.parts))


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricShift:
    """A number that left the interval it had the last time it was measured, or is not there any more."""

    key: tuple[str, ...]
    """benchmark, task, model, setting, subset, category, metric."""
    before: float
    now: float | None
    interval: tuple[float, float]
    since: str
    """The night of the earlier number."""

    @property
    def whole(self) -> bool:
        """It is of the whole and not of a subset or category: those are many, and some leave theirs by chance."""
        return self.key[4] == "" and self.key[5] == ""


@dataclass(slots=True)
class NightlyResult:
    """How a night went."""

    name: str
    gpu_hour_usd: float | None = None
    pairs: list[Pair] = field(default_factory=list)
    metrics: list[dict[str, Any]] = field(default_factory=list)
    """Measured tonight."""
    moves: list[MetricShift] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    over_budget: list[str] = field(default_factory=list)
    """Models of which more rows failed than is allowed."""
    summary: str = ""

    def of_state(self, state: str) -> list[Pair]:
        """Pairs that `ran`, are `unchanged`, or `failed`."""
        return [pair for pair in self.pairs if pair.state == state]

    @property
    def alarms(self) -> bool:
        """Whether somebody shall look: a number over the whole moved, a model failed, too many rows failed."""
        return bool(self.of_state("failed") or self.over_budget or any(move.whole for move in self.moves))

    @property
    def nothing_ran(self) -> bool:
        """Whether something was due and every model of it failed."""
        return bool(self.of_state("failed")) and not self.of_state("ran")

    @property
    def cost_usd(self) -> float:
        """What is known of the cost."""
        return sum(pair.cost_usd or 0.0 for pair in self.pairs)
