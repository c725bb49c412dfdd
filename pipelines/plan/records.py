"""The pending work of one model on one benchmark."""

from collections import Counter
from dataclasses import dataclass, field

from pipelines.errors import DamagedPartError
from pipelines.plan.plan_store import IdSet
from pipelines.plan.prompt_plan import PromptPlan
from pipelines.plan.requests import ModelTarget
from pipelines.plan.units import UnitList


@dataclass(slots=True)
class Repair:
    """What a run has to repair in the parts of one model on one benchmark before it adds to them."""

    folder: str = ""
    damaged: dict[str, DamagedPartError] = field(default_factory=dict)
    """Parts that cannot be read; their rows are pending."""
    repeated: set[str] = field(default_factory=set)
    """Requests that several parts hold: a worker of a dead run committed them late."""
    moved: dict[str, str] = field(default_factory=dict)
    """Failed requests that are pending in a new part, and the parts that hold them."""


@dataclass(slots=True)
class CompletedRequests:
    """Requests that earlier runs committed: finished ones, and failed ones with the parts that hold them."""

    finished: IdSet = field(default_factory=IdSet)
    failed: dict[str, str] = field(default_factory=dict)
    repair: Repair = field(default_factory=Repair)


@dataclass(slots=True)
class ModelPlan:
    """The work of one model on one benchmark: what is pending, and counts of what is done."""

    target: ModelTarget
    units: UnitList = field(default_factory=UnitList)
    requests: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Requests of the whole plan by (task, setting), done ones too."""
    pending: Counter[tuple[str, str]] = field(default_factory=Counter)
    failed: Counter[tuple[str, str]] = field(default_factory=Counter)  # pending requests that failed in an earlier run
    calls: int = 0  # pending model calls, all steps counted
    groups: int = 0  # number of media groups of pending requests; text-only requests are in none
    prompt_tokens: int = 0
    """Estimate over pending requests: 3.5 characters a token, 28 x 28 pixels a token, two frames deep."""
    shared_tokens: int = 0  # those of pictures and clips
    pictures: int = 0  # pictures and frames
    distinct_media_tokens: int = 0  # the same with each media group counted once: what shared prefixes leave to compute
    cacheable_tokens: int = 0
    """Those of the first picture or clip of each request, where a provider keeps it: from 1,024 tokens on."""
    distinct_cacheable_tokens: int = 0  # the same with each media group counted once: what a provider reads in full
    output_tokens: int = 0  # the most that may be generated
    repair: Repair = field(default_factory=Repair)  # what is to be repaired before

    @property
    def prompts(self) -> PromptPlan:
        """The prompts of the model's requests."""
        return self.target.prompts

    @property
    def total(self) -> int:
        """Number of requests of the whole plan."""
        return sum(self.requests.values())

    @property
    def to_do(self) -> int:
        """Number of pending requests."""
        return sum(self.pending.values())
