"""Jobs, receipts and counts of a run: data only."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from models.spec import ModelSpec
from pipelines.media.frame_cache import FrameSource
from pipelines.plan.units import WorkUnit
from pipelines.schemas import PREDICTIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Units of one model, how they are loaded, and where they are committed."""

    model: str
    spec: ModelSpec
    loader: LoaderSpec
    out: str
    units: Sequence[WorkUnit]
    lock_token: str = ""
    """Names the run that holds the output's lock; commits of any other are refused."""
    is_stopped: Callable[[], bool] = lambda: False
    """Whether the sweep ends early; checked while waiting for a node."""


class LoaderSpec(Hashable, Protocol):
    """A light, hashable description of a loader."""

    def build(self, frames: FrameSource | None = None) -> Any:
        """Build the loader; `frames` holds what other processes decoded."""
        ...


def count_statuses(receipt: Receipt) -> tuple[int, int]:
    """Return rows and failed rows of a receipt."""
    total = sum(receipt.counts.values())
    failed = sum(n for (_, _, status), n in receipt.counts.items() if status == "error")
    return total, failed


@dataclass(frozen=True, slots=True, kw_only=True)
class CellCount:
    """Outcomes of the requests of one model under one task and setting; the five kinds add up to `requests`."""

    benchmark: str
    model: str
    task: str
    setting: str
    requests: int
    ok: int
    error: int = 0
    excluded: int = 0
    missing: int = 0
    """Planned and never sent."""

    def __post_init__(self) -> None:
        if self.ok + self.error + self.excluded + self.missing != self.requests:
            cell = f"{self.benchmark}/{self.model}/{self.task}/{self.setting}"
            raise ValueError(f"{cell}: ok, error, excluded and missing do not add up to {self.requests} requests")


@dataclass(frozen=True, slots=True)
class ReplicaSpan:
    """The replica that answered a unit, and the time: seconds since the epoch."""

    replica: str = ""
    began: float = 0.0
    ended: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweredUnit:
    """A unit on its way from a replica to its commit."""

    unit: WorkUnit
    rows: pa.Table = field(default_factory=PREDICTIONS.empty_table)
    fatal: str = ""
    """Why the model is unavailable; then there are no rows."""
    is_committed: bool = False
    """An earlier attempt committed this unit: there are no rows, and nothing is to be written."""
    span: ReplicaSpan = ReplicaSpan()


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """The receipt of a committed unit."""

    part: str
    counts: Mapping[tuple[str, str, str], int]
    """New rows by (task, setting, status); rows kept from an earlier part are not among them."""
    replica: str = ""
    """The engine that answered the unit."""
    began: float = 0.0
    """When the engine got the unit, in seconds since the epoch."""
    ended: float = 0.0
    tokens: tuple[int, int] = (0, 0)
    """Read and written for those rows, as the engine counts."""
    cost_limit_reached: bool = False
    """Some of the rows were not sent, because their engine may spend no more."""
    cached: int = 0
    """Prompt tokens that were cached."""
    failed: tuple[tuple[str, str], ...] = ()
    """Request id and type of the first few errors, for the log."""
    fatal: str = ""
    """Why the model is unavailable; then nothing was committed."""

    def to_dict(self) -> dict[str, Any]:
        """Return the receipt as values of Arrow."""
        counts = [
            {"task": task, "setting": setting, "status": status, "rows": rows}
            for (task, setting, status), rows in self.counts.items()
        ]
        failed = [{"request_id": request_id, "error_type": error_type} for request_id, error_type in self.failed]
        return {**asdict(self), "counts": counts, "failed": failed}

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Receipt:
        """Return the receipt of `to_dict`."""
        return cls(
            **{
                **raw,
                "counts": {(cell["task"], cell["setting"], cell["status"]): cell["rows"] for cell in raw["counts"]},
                "tokens": tuple(raw["tokens"]),
                "failed": tuple((failure["request_id"], failure["error_type"]) for failure in raw["failed"]),
            }
        )
