"""Units of work: what one worker loads, one replica answers and one commit writes.

A unit is a large media group's piece, or several small groups together. Its name is a hash of the ids in it, so the
same work has the same name on every machine.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import ceil
from typing import Any, TypeAlias

from pipelines.plan.requests import RequestBuilder
from pipelines.storage.parts import part_folder

MAX_UNIT_REQUESTS = 256
"""A MAIA clip's 216 questions are one unit; a larger group is cut, so that no commit is worth many minutes."""
PACK_REQUESTS = 64
"""Small groups are put together up to this, so that a store is not filled with tiny files."""
LEAST_UNIT_REQUESTS = 32
"""Where balance over many replicas asks for smaller units, they get no smaller than this."""
SHARES = 4
"""Units that a replica shall find to do at the least, so that none waits long for the last one."""
KINDS = {"answer": "predictions", "caption": "captions"}
"""Where parts of each kind go."""
Place: TypeAlias = tuple[str, str]
"""A shard and a media group."""
Pool: TypeAlias = dict[Place, list[tuple[str, list[str]]]]
"""What is to be asked of one shard: by place, the samples in order with their request ids."""


@dataclass(frozen=True, slots=True)
class MediaGroupSlice:
    """Samples of one shard whose requests share a media group."""

    shard: str
    group: str
    samples: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkUnit:
    """One unit of work, small enough for the driver to hold by the ten thousand."""

    benchmark: str
    part: str
    """Path of the Parquet part that it commits, relative to the output."""
    pieces: tuple[MediaGroupSlice, ...]
    requests: int
    media_bytes: int = 0
    """Pixels of its pictures and clips as decoded, before they are shrunk to what the model takes."""
    only: tuple[str, ...] = ()
    """Ids that are wanted, when the pieces hold others that are done already; empty: all that the pieces hold."""
    carry: bool = False
    """The part exists and some of its rows failed: they are asked again, the part's other rows are kept."""

    def to_dict(self) -> dict[str, Any]:
        """JSON types."""
        return asdict(self)

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> WorkUnit:
        """The inverse of `to_dict`."""
        pieces = tuple(MediaGroupSlice(p["shard"], p["group"], tuple(p["samples"])) for p in raw["pieces"])
        return cls(**{**raw, "pieces": pieces, "only": tuple(raw["only"])})


@dataclass(slots=True)
class UnitMaker:
    """Cuts large groups into even pieces and puts small ones of one shard together."""

    asker: RequestBuilder
    replicas: int
    expected: int
    """Samples of the whole plan."""
    samples: int = 0
    """Of these, how many were seen so far."""
    pending: int = 0
    """Requests that they are to be asked."""
    sizes: dict[Place, int] = field(default_factory=dict)
    """Bytes of each media group's pixels, as decoded."""

    def units(self, pool: Pool, partial: set[tuple[Place, str]]) -> Iterator[WorkUnit]:
        """The units of one shard."""
        if not pool:
            return
        self.pending += sum(len(own) for members in pool.values() for _, own in members)
        most = self._most()
        pack = min(PACK_REQUESTS, most)
        packed: list[tuple[MediaGroupSlice, list[str]]] = []
        size = 0
        for (shard, group), members in pool.items():
            for names, ids in _cut(members, most):
                if packed and size + len(ids) > pack:
                    yield _unit(packed, partial, self)
                    packed, size = [], 0
                packed.append((MediaGroupSlice(shard, group, names), ids))
                size += len(ids)
        yield _unit(packed, partial, self)

    def _most(self) -> int:
        """Requests of one unit at the most: fewer where replicas would else find too few units to share.

        What the whole plan asks is judged by the shards so far, which is exact for a plan of one shard; a large plan
        has units of the full size on any number of replicas.
        """
        if self.replicas <= 1:
            return MAX_UNIT_REQUESTS
        total = self.pending * max(1.0, self.expected / max(1, self.samples))
        share = ceil(total / (self.replicas * SHARES))
        return max(LEAST_UNIT_REQUESTS, min(MAX_UNIT_REQUESTS, share))


def _cut(members: list[tuple[str, list[str]]], most: int) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """Runs of samples of about even size; a sample is never cut."""
    total = sum(len(own) for _, own in members)
    even = ceil(total / ceil(total / most))
    names: list[str] = []
    ids: list[str] = []
    for name, own in members:
        if ids and len(ids) + len(own) > max(even, 1):
            yield tuple(names), ids
            names, ids = [], []
        names.append(name)
        ids += own
    yield tuple(names), ids


def _unit(
    packed: list[tuple[MediaGroupSlice, list[str]]], partial: set[tuple[Place, str]], maker: UnitMaker
) -> WorkUnit:
    ids = sorted(request_id for _, own in packed for request_id in own)
    pieces = tuple(piece for piece, _ in packed)
    asker = maker.asker
    folder = part_folder(KINDS[asker.kind], asker.benchmark_name, asker.model)
    filtered = any(((piece.shard, piece.group), name) in partial for piece in pieces for name in piece.samples)
    return WorkUnit(
        benchmark=asker.benchmark_name,
        part=f"{folder}/{unit_name(ids)}.parquet",
        pieces=pieces,
        requests=len(ids),
        media_bytes=_media_bytes(pieces, maker.sizes),
        only=tuple(ids) if filtered else (),
    )


def _media_bytes(pieces: Sequence[MediaGroupSlice], sizes: Mapping[Place, int]) -> int:
    return sum(sizes.get(place, 0) for place in {(piece.shard, piece.group) for piece in pieces})


def unit_name(request_ids: Sequence[str]) -> str:
    """The name of the unit that holds exactly these requests."""
    return hashlib.sha256("".join(sorted(request_ids)).encode()).hexdigest()[:24]


def retry_units(
    retries: dict[str, dict[Place, dict[str, list[str]]]], benchmark: str, sizes: Mapping[Place, int]
) -> Iterator[WorkUnit]:
    """Units that ask failed requests again, each into the part that holds them."""
    for part, places in retries.items():
        ids = [one for samples in places.values() for own in samples.values() for one in own]
        pieces = tuple(MediaGroupSlice(shard, group, tuple(samples)) for (shard, group), samples in places.items())
        yield WorkUnit(
            benchmark=benchmark,
            part=part,
            pieces=pieces,
            requests=len(ids),
            media_bytes=_media_bytes(pieces, sizes),
            only=tuple(ids),
            carry=True,
        )
