"""Batches of units: which units travel together to one replica, and in which order batches are handed out.

A unit is what one commit writes. Units of one large media group form a batch: they are loaded together, so that their
clip is decoded once, and answered one after the other by one engine, which reads the clip once. A group is spread over
several replicas only where these would else be idle at the end. Small units form batches too: a task of the cluster
costs as much as answering many a cheap question.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from math import ceil

from pipelines.plan.units import WorkUnit

BATCHES_PER_REPLICA = 4
"""Parts of a replica's fair share that the largest batch of one group is worth: the last one to end keeps the others
waiting for a quarter of a share at the most, and far less where smaller work is left to fill the gap."""
MAX_BATCH_UNITS = 16
"""Bounds what is loaded together: 4,096 questions, some megabytes of text and their pixels."""
SMALL_BATCHES_PER_REPLICA = 16
"""As `BATCHES_PER_REPLICA`, for batches of small units and of the work left by then: a short plan gets no coarser, its
first answer comes no later, and the last batches are single units, so that all replicas end at one time."""
SMALL_BATCH_BYTES = 16 << 20
"""The most decoded pixels, before they are shrunk, of a batch of small units: it is loaded within a second."""


def batch_units(units: Sequence[WorkUnit], replicas: int) -> list[tuple[WorkUnit, ...]]:
    """Batch the units of a job, each unit once, in the order in which replicas should take the batches.

    Args:
        units: of the job.
        replicas: engines that take them.

    Returns:
        Batches of one large group first, the largest in front; the rest keeps its order.
    """
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
    """Return the media group of a unit that has one alone; empty for others."""
    groups = {media_slice.group for media_slice in unit.slices}
    return (unit.benchmark, *groups) if len(groups) == 1 and all(groups) else ()


def _cut(members: Sequence[WorkUnit], limit: float) -> list[tuple[WorkUnit, ...]]:
    """Cut a group's units into even runs, none larger than `limit` requests unless a single unit is."""
    by_size = _requests(members) / limit if limit else 1.0
    count = min(len(members), max(ceil(by_size), ceil(len(members) / MAX_BATCH_UNITS)))
    ends = [round(len(members) * index / count) for index in range(count + 1)]
    return [tuple(members[start:end]) for start, end in pairwise(ends)]


def _batch_small(units: Sequence[WorkUnit], replicas: int) -> list[tuple[WorkUnit, ...]]:
    """Batch units in their order as long as they are small together; batches get shorter towards the end."""
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
