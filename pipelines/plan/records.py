"""TODO doc."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from pipelines.plan.requests import RequestBuilder
from pipelines.plan.units import WorkUnit


@dataclass(slots=True)
class CompletedRequests:
    """What earlier runs left: ids that need nothing more, and failed ids with the parts that hold them."""

    finished: set[bytes] = field(default_factory=set)
    """Ids as 16 bytes, which is a third of their hex in memory."""
    failed: dict[bytes, str] = field(default_factory=dict)


@dataclass(slots=True)
class Plan:
    """All that is to be done for one model on one benchmark, and what is done already."""

    asker: RequestBuilder
    units: list[WorkUnit] = field(default_factory=list)
    requests: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Requests of the whole plan by (task, setting), done ones too."""
    pending: Counter[tuple[str, str]] = field(default_factory=Counter)
    failed: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Pending ones that an earlier run failed at."""
    calls: int = 0
    """Model calls still to be made, all steps counted."""
    groups: set[str] = field(default_factory=set)
    """Media groups of what is to do; text-only requests are in none."""
    prompt_tokens: int = 0
    """Estimate over what is to do: 3.5 characters a token, 28 x 28 pixels a token, two frames a token's depth."""
    shared_tokens: int = 0
    """Part of the estimate that media make up."""
    distinct_media_tokens: int = 0
    """The same with each media group counted once: what shared prefixes leave to compute."""
    output_tokens: int = 0
    """The most that may be generated."""

    @property
    def total(self) -> int:
        """Requests of the whole plan."""
        return sum(self.requests.values())

    @property
    def to_do(self) -> int:
        """Requests that are not done."""
        return sum(self.pending.values())
