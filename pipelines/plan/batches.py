"""Batches of units: which units travel together to one replica, and in which order batches are handed out.

Units of one large media group form a batch, so that its clip is loaded, decoded and encoded once; a group is spread
over replicas only where these would be idle at the end. Small units form batches too: a Ray task has overhead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from math import ceil

from pipelines.plan.units import WorkUnit

BATCHES_PER_REPLICA = 4
"""The largest batch of one group is a replica's fair share divided by this, and the longest wait at the end."""
MAX_BATCH_UNITS = 16
"""Bounds what is loaded together: 4,096 questions, some megabytes of text and their pixels."""
SMALL_BATCHES_PER_REPLICA = 16
"""As `BATCHES_PER_REPLICA`, for small units and the work left by then; the last batches are single units."""
SMALL_BATCH_BYTES = 16 << 20
"""The most decoded pixels, before they are shrunk, of a batch of small units: it is loaded within a second."""


def batch_units(units: Sequence[WorkUnit], replicas: int) -> list[tuple[WorkUnit, ...]]:
    """Batch the units of a job, each once, in the order for replicas: large groups first, the largest in front."""
    share = _requests(units) / max(1, replicas)
    groups: dict[tuple[str, ...], list[WorkUnit]] = {}
    for index, unit in enumerate(units):
        groups.setdefault(_single_group(unit) or (str(index),), []).append(unit)
    batches = [batch for members in groups.values() for batch in _cut(members, share / BATCHES_PER_REPLICA)]
    large = sorted((batch for batch in batches if len(batch) > 1), key=_requests, reverse=True)
    return large + _batch_small([batch[0] for batch in batches if len(batch) == 1], max(1, replicas))


def exclusive_media_groups(batches: Sequence[Sequence[WorkUnit]]) -> list[list[str]]:
    """Return for each batch the media groups that are in no other batch: their frames need no shared cache."""
    groups_of_batches = [{media_slice.group for unit in batch for media_slice in unit.slices} for batch in batches]
    uses = Counter(group for groups in groups_of_batches for group in groups)
    return [sorted(group for group in groups if group and uses[group] == 1) for groups in groups_of_batches]


def _single_group(unit: WorkUnit) -> tuple[str, ...]:
    groups = {media_slice.group for media_slice in unit.slices}
    return (unit.benchmark, *groups) if len(groups) == 1 and all(groups) else ()


def _cut(members: Sequence[WorkUnit], limit: float) -> list[tuple[WorkUnit, ...]]:
    by_size = _requests(members) / limit if limit else 1.0
    count = min(len(members), max(ceil(by_size), ceil(len(members) / MAX_BATCH_UNITS)))
    ends = [round(len(members) * index / count) for index in range(count + 1)]
    return [tuple(members[start:end]) for start, end in pairwise(ends)]


def _batch_small(units: Sequence[WorkUnit], replicas: int) -> list[tuple[WorkUnit, ...]]:
    batches: list[list[WorkUnit]] = []
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


def _requests(units: Sequence[WorkUnit]) -> int:
    return sum(unit.requests for unit in units)
