"""Jobs, receipts and counts of a run: data only."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, NamedTuple, Protocol, Self

import pyarrow as pa

from models.spec import ModelSpec
from pipelines.media.recent_frames import FrameSource
from pipelines.plan.units import WorkUnit
from pipelines.predict.clip_sharing import NO_CLIPS, ClipSharing
from pipelines.predict.loader import Loaded, MediaGuard
from pipelines.schemas import PREDICTIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitWork:
    """What a worker needs to run units of one model; light and hashable: it keeps one pipeline for all units."""

    model: str
    spec: ModelSpec
    loader: LoaderSpec
    out: str
    lock_token: str = ""  # names the run that holds the output's lock; commits of any other are refused


@dataclass(frozen=True, slots=True, kw_only=True)
class Job(UnitWork):
    """Units of one model with what their workers need."""

    units: Sequence[WorkUnit]
    is_stopped: Callable[[], bool] = lambda: False  # whether the sweep ends early; checked while waiting for a node
    wait_for_nodes_s: float | None = None  # how long to wait for a node, as in `RunSpec`
    kept: KeptReplicas | None = None  # where its replicas stay loaded for later jobs; None where they end with it
    waits_since: float | None = None
    """When the model was first tried, by the monotonic clock, if it is to be postponed while others run."""

    @property
    def work(self) -> UnitWork:
        """The part of the job that travels to workers."""
        return UnitWork(**{part.name: getattr(self, part.name) for part in fields(UnitWork)})


@dataclass(slots=True)
class KeptReplicas:
    """Replicas that stay loaded from job to job, with the rows of their pipeline: Ray Data ends them together."""

    clips: ClipSharing = NO_CLIPS
    key: object = None  # what a job must have in common with those before
    count: int = 0
    actor: Any = None
    rows: Generator[Any] | None = None
    used: float = 0.0  # when the last job ended, by the monotonic clock

    def close(self) -> None:
        """End the replicas and what they share."""
        if self.rows:
            self.rows.close()
        if self.actor is not None:
            import ray

            ray.kill(self.actor)
        self.key = self.rows = self.actor = None


class UnitLoader(Protocol):
    """Loads units: see `pipelines.predict.loader.Loader`."""

    def load(self, unit: WorkUnit, exclusive_groups: Collection[str] = (), *, guard: MediaGuard = ...) -> Loaded:
        """Load one unit."""

    def close(self) -> None:
        """End the processes that decode."""


class LoaderSpec(Hashable, Protocol):
    """A light, hashable description of a loader."""

    def build(self, frames: FrameSource | None = None) -> UnitLoader:
        """Build the loader; `frames` holds what it has decoded."""


def count_statuses(receipt: Receipt) -> tuple[int, int]:
    """Return rows and failed rows of a receipt."""
    total = sum(receipt.counts.values())
    failed = sum(n for (_, _, status), n in receipt.counts.items() if status == "error")
    return total, failed


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCount:
    """Outcomes of the requests of one model under one task and setting; the five kinds add up to `requests`."""

    benchmark: str
    model: str
    task: str
    setting: str
    requests: int
    ok: int
    error: int = 0
    excluded: int = 0
    missing: int = 0  # planned and never sent
    cut: int = 0  # of those that are ok, the ones that the limit of tokens ended before an answer
    first_error: str = ""  # the message of the first failed request, where it was looked up

    def __post_init__(self) -> None:
        if self.ok + self.error + self.excluded + self.missing != self.requests:
            group = f"{self.benchmark}/{self.model}/{self.task}/{self.setting}"
            raise ValueError(f"{group}: ok, error, excluded and missing do not add up to {self.requests} requests")


class TokenCounts(NamedTuple):
    """Tokens of answers, in the order of `Price.dollars`."""

    read: int = 0  # those that were cached or written into a cache included
    written: int = 0
    cached: int = 0
    cache_writes: int = 0

    def plus(self, other: TokenCounts) -> TokenCounts:
        """Return the sums."""
        return TokenCounts(*(mine + others for mine, others in zip(self, other, strict=True)))


@dataclass(frozen=True, slots=True)
class ReplicaSpan:
    """The replica that answered a unit, and the time: seconds since the epoch."""

    replica: str = ""
    began: float = 0.0  # when the engine got the unit
    ended: float = 0.0
    device: str = ""  # as in the column of predictions; '' where it loaded no weights


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweredUnit:
    """A unit on its way from a replica to its commit."""

    unit: WorkUnit
    rows: pa.Table = field(default_factory=PREDICTIONS.empty_table)
    fatal: str = ""  # why the model is unavailable; then there are no rows
    is_committed: bool = False
    """An earlier attempt committed this unit: there are no rows, and nothing is to be written."""
    span: ReplicaSpan = ReplicaSpan()
    warnings: tuple[str, ...] = ()  # of the engine until now


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt(ReplicaSpan):
    """The receipt of a committed unit, with the replica that answered it."""

    part: str
    counts: Mapping[tuple[str, str, str], int]
    """New rows by (task, setting, status); rows kept from an earlier part are not among them."""
    tokens: TokenCounts = field(default_factory=TokenCounts)  # of those rows, as the engine counts
    reserved_dollars: float = 0.0  # for those whose endpoint reports no tokens
    cost_limit_reached: bool = False  # some of the rows were not sent, because their engine may spend no more
    failed: tuple[tuple[str, str], ...] = ()  # request id and type of the first few errors, for the log
    fatal: str = ""  # why the model is unavailable; then nothing was committed
    warnings: tuple[str, ...] = ()  # of the engine that answered the unit, until then

    def to_dict(self) -> dict[str, Any]:
        """Return JSON types."""
        return {**asdict(self), "counts": [[*group, rows] for group, rows in self.counts.items()]}

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Self:
        """Return the receipt of `to_dict`."""
        counts = {(task, setting, status): rows for task, setting, status, rows in raw["counts"]}
        failed = tuple((request_id, error_type) for request_id, error_type in raw["failed"])
        tuples = {"tokens": TokenCounts(*raw["tokens"]), "warnings": tuple(raw["warnings"]), "failed": failed}
        return cls(**{**raw, **tuples, "counts": counts})
