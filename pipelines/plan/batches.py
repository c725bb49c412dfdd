"""How work is spread over replicas: how large a piece of a media group may be, and which pieces travel together.

A piece (a unit of work) is what one commit writes. Pieces of one group that follow each other to the same replica are a
convoy: loaded together, so that their clip is decoded once, and answered one after the other by one engine, which reads
the clip once. A group is spread over several replicas only where they would else stand idle at the end. Units that are
small and soon loaded travel together too: a task of the cluster costs as much as answering many a cheap question.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from math import ceil

from pipelines.plan.units import WorkUnit

SHARES = 4
"""Parts of a replica's fair share that the largest convoy is worth: the last one to end keeps the others waiting for a
quarter of a share at the most, and far less where smaller work is left to fill the gap."""
CONVOY_UNITS = 16
"""What is loaded as one stays bounded: 4,096 questions, some megabytes of text and their pixels."""
SMALL_SHARES = 16
"""As `SHARES`, for convoys of small units, and of what is left by then: a short plan is made no coarser, its first
answer comes no later, and the last convoys are single units, so that all replicas end at one time."""
SMALL_BYTES = 16 << 20
"""Pixels as decoded, before they are shrunk, that small units together may have: loading them takes no second."""


def batch_units(units: Sequence[WorkUnit], replicas: int) -> list[tuple[WorkUnit, ...]]:
    """Units in the order in which replicas shall take them, those of one large media group together.

    Args:
        units: all units of a job.
        replicas: how many engines will take them.

    Returns:
        Every unit once. Convoys of one large group come first, the largest at the front; the rest keeps its order.
    """
    share = _requests(units) / max(1, replicas)
    groups: dict[tuple[str, ...], list[WorkUnit]] = {}
    for index, unit in enumerate(units):
        groups.setdefault(_group(unit) or (str(index),), []).append(unit)
    convoys = [convoy for members in groups.values() for convoy in _cut(members, share / SHARES)]
    large = sorted((convoy for convoy in convoys if len(convoy) > 1), key=_requests, reverse=True)
    return large + _together([convoy[0] for convoy in convoys if len(convoy) == 1], max(1, replicas))


def exclusive_media_groups(convoys: Sequence[Sequence[WorkUnit]]) -> list[list[str]]:
    """For each convoy the media groups that no other convoy is about: what it decodes of them needs no sharing."""
    own = [{piece.group for unit in convoy for piece in unit.pieces} for convoy in convoys]
    times = Counter(group for groups in own for group in groups)
    return [sorted(group for group in groups if group and times[group] == 1) for groups in own]


def _group(unit: WorkUnit) -> tuple[str, ...]:
    """What a unit about one medium alone is about; empty for others."""
    groups = {piece.group for piece in unit.pieces}
    return (unit.benchmark, *groups) if len(groups) == 1 and all(groups) else ()


def _cut(members: Sequence[WorkUnit], most: float) -> list[tuple[WorkUnit, ...]]:
    """Runs of a group's units, even ones, none larger than `most` requests where a single unit is not."""
    by_size = _requests(members) / most if most else 1.0
    pieces = min(len(members), max(ceil(by_size), ceil(len(members) / CONVOY_UNITS)))
    ends = [round(len(members) * index / pieces) for index in range(pieces + 1)]
    return [tuple(members[start:end]) for start, end in pairwise(ends)]


def _together(units: Sequence[WorkUnit], replicas: int) -> list[tuple[WorkUnit, ...]]:
    """Runs of units in their order, as long as they are small together, and shorter towards the end."""
    convoys: list[list[WorkUnit]] = []
    left = most = _requests(units)
    for unit in units:
        last = convoys[-1] if convoys else []
        fits = (
            0 < len(last) < CONVOY_UNITS
            and _requests(last) + unit.requests <= most
            and sum(one.media_bytes for one in last) + unit.media_bytes <= SMALL_BYTES
        )
        if fits:
            last.append(unit)
        else:
            convoys.append([unit])
            most = left // (replicas * SMALL_SHARES)
        left -= unit.requests
    return [tuple(convoy) for convoy in convoys]


def _requests(units: Sequence[WorkUnit]) -> int:
    return sum(unit.requests for unit in units)
