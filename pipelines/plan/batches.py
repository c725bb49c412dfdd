"""Batches of units: which units travel together to one replica, and in which order batches are handed out.

Units of one large media group form a batch, so that its clip is loaded, decoded and encoded once; a group is spread
over replicas only where these would be idle at the end. Small units form batches too: a Ray task has overhead.
"""

from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil
from typing import NamedTuple, overload

import numpy as np

from pipelines.plan.units import WorkUnit

BATCHES_PER_REPLICA = 4
"""The largest batch of one group is a replica's fair share divided by this, and the longest wait at the end."""
MAX_BATCH_UNITS = 16  # bounds what is loaded together: 4,096 questions, some megabytes of text and their pixels
SMALL_BATCHES_PER_REPLICA = 16
"""As `BATCHES_PER_REPLICA`, for small units and the work left by then; the last batches are single units."""
SMALL_BATCH_BYTES = 16 << 20
"""The most decoded pixels, before they are shrunk, of a batch of small units: it is loaded within a second."""


class _UnitSize(NamedTuple):
    """The properties of a unit that decide its batch."""

    unit_index: int  # index of the unit
    group: int  # hash of the unit's only media group; 0 for a unit of several or of none
    requests: int
    media_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Batches(Sequence[Sequence[WorkUnit]]):
    """Batches of units, which are read when a batch is."""

    units: Sequence[WorkUnit]
    indices: Sequence[tuple[int, ...]]  # in `units`, of each batch
    max_media_bytes: int  # decoded pixels of the largest batch

    def __len__(self) -> int:
        return len(self.indices)

    @overload
    def __getitem__(self, index: int) -> Sequence[WorkUnit]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Sequence[WorkUnit]]: ...
    def __getitem__(self, index: int | slice) -> Sequence[WorkUnit] | Sequence[Sequence[WorkUnit]]:
        if isinstance(index, slice):
            return [self[position] for position in range(*index.indices(len(self)))]
        return tuple(self.units[position] for position in self.indices[index])


def batch_units(units: Sequence[WorkUnit], replicas: int) -> Batches:
    """Batch the units of a job, each once, in the order for replicas: large groups first, the largest in front."""
    sizes = [_UnitSize(index, _single_group(unit), unit.requests, unit.media_bytes) for index, unit in enumerate(units)]
    share = _requests(sizes) / max(1, replicas)
    groups: dict[tuple[int, int], list[_UnitSize]] = {}
    for size in sizes:
        groups.setdefault((size.group, 0 if size.group else size.unit_index), []).append(size)
    split_batches = [batch for members in groups.values() for batch in _split(members, share / BATCHES_PER_REPLICA)]
    large = sorted((batch for batch in split_batches if len(batch) > 1), key=_requests, reverse=True)
    batches = large + _batch_small([batch[0] for batch in split_batches if len(batch) == 1], max(1, replicas))
    return Batches(
        units=units,
        indices=[tuple(size.unit_index for size in batch) for batch in batches],
        max_media_bytes=max((sum(size.media_bytes for size in batch) for batch in batches), default=0),
    )


class ExclusiveGroups:
    """The media groups that are in one batch only: their frames need no shared cache.

    Groups are compared by `hash`, in this process alone; where two collide, both count as shared.
    """

    def __init__(self, batches: Iterable[Iterable[WorkUnit]]) -> None:
        hashes = array("q", (hash(group) for batch in batches for group in _groups(batch)))
        distinct, uses = np.unique(np.frombuffer(hashes, np.int64), return_counts=True)
        self._shared = frozenset(distinct[uses > 1].tolist())

    def of(self, batch: Iterable[WorkUnit]) -> list[str]:
        """Return the media groups of a batch that are in no other batch."""
        return sorted(group for group in _groups(batch) if group and hash(group) not in self._shared)


def _groups(batch: Iterable[WorkUnit]) -> Collection[str]:
    return {media_slice.group for unit in batch for media_slice in unit.slices}


def _single_group(unit: WorkUnit) -> int:
    groups = _groups([unit])
    return hash((unit.benchmark, *groups)) if len(groups) == 1 and all(groups) else 0


def _split(members: Sequence[_UnitSize], limit: float) -> Iterator[tuple[_UnitSize, ...]]:
    by_size = _requests(members) / limit if limit else 1.0
    count = min(len(members), max(ceil(by_size), ceil(len(members) / MAX_BATCH_UNITS)))
    ends = [round(len(members) * index / count) for index in range(count + 1)]
    return (tuple(members[start:end]) for start, end in pairwise(ends))


def _batch_small(units: Sequence[_UnitSize], replicas: int) -> list[tuple[_UnitSize, ...]]:
    batches: list[list[_UnitSize]] = []
    remaining = limit = _requests(units)
    for unit in units:
        last = batches[-1] if batches else []
        fits = (
            0 < len(last) < MAX_BATCH_UNITS
            and _requests(last) + unit.requests <= limit
            and sum(member.media_bytes for member in last) + unit.media_bytes <= SMALL_BATCH_BYTES
        )
        if fits:
            last.append(unit)
        else:
            batches.append([unit])
            limit = remaining // (replicas * SMALL_BATCHES_PER_REPLICA)
        remaining -= unit.requests
    return [tuple(batch) for batch in batches]


def _requests(units: Sequence[_UnitSize]) -> int:
    return sum(unit.requests for unit in units)
