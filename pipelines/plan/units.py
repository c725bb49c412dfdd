"""Units of work: what one worker loads, one replica answers and one commit writes.

A unit is a slice of a large media group, or several small groups; its name is a hash of the request ids in it.
"""

import hashlib
import json
import os
import threading
import weakref
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import ceil
from tempfile import TemporaryFile, gettempdir
from typing import Any, Self, TypeAlias, overload

from pipelines.errors import StoreError
from pipelines.plan.requests import ModelTarget
from pipelines.storage.errors import describe
from pipelines.storage.parts import part_folder

MAX_UNIT_REQUESTS = 256
"""A MAIA clip's 216 questions are one unit; a larger group is split, so that no commit is worth many minutes."""
PACK_REQUESTS = 64  # small groups are packed together up to this, so that a store is not filled with tiny files
MAX_LIGHT_UNIT_REQUESTS = 512
PACK_BYTES = 4 << 20
"""Groups whose decoded pixels are fewer than this in all are packed up to `MAX_LIGHT_UNIT_REQUESTS`: they cost little
to load again, and every part costs as many requests to the store to write, to read and to score. Not so for endpoints:
a killed process loses the answers of the units that it has not committed, and each was paid for."""
MIN_UNIT_REQUESTS = 32  # units that are made smaller to balance many replicas get no smaller than this
UNITS_PER_REPLICA = 4  # the minimum number of units per replica, so that none waits long for the last one
PAID_ENGINES = frozenset({"openai", "anthropic", "gemini"})
KINDS = {"answer": "predictions", "caption": "captions"}  # where parts of each kind go
GroupKey: TypeAlias = tuple[str, str]  # a part of the plan and a media group


@dataclass(slots=True)
class SampleRequests:
    """Pending requests of one sample in one media group."""

    sample_id: str
    rows: list[int] = field(default_factory=list)  # indices in the part of the plan
    ids: list[str] = field(default_factory=list)


Pool: TypeAlias = dict[GroupKey, list[SampleRequests]]  # pending requests by media group, samples in order
RetryPool: TypeAlias = dict[str, Pool]  # failed requests by the part of the output that holds them


@dataclass(frozen=True, slots=True)
class MediaGroupSlice:
    """Rows of one part of the plan whose requests share a media group."""

    plan_part: str
    group: str
    rows: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkUnit:
    """One unit of work, as small as a line of text."""

    benchmark: str
    part: str  # path of the Parquet part that it commits, relative to the output
    slices: tuple[MediaGroupSlice, ...]
    requests: int
    media_bytes: int = 0  # pixels of its pictures and clips as decoded, before they are shrunk to what the model takes
    retried: tuple[str, ...] = ()
    """Not empty: the part exists, and these of its rows failed. They are sent again, its other rows stay."""

    def to_dict(self) -> dict[str, Any]:
        """Return JSON types, which are Arrow types too."""
        slices = [
            {"plan_part": entry.plan_part, "group": entry.group, "runs": _to_runs(entry.rows)} for entry in self.slices
        ]
        return {
            "benchmark": self.benchmark,
            "part": self.part,
            "slices": slices,
            "requests": self.requests,
            "media_bytes": self.media_bytes,
            "retried": self.retried,
        }

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> Self:
        """Read what `to_dict` returned."""
        slices = tuple(
            MediaGroupSlice(entry["plan_part"], entry["group"], _from_runs(entry["runs"])) for entry in raw["slices"]
        )
        return cls(**{**raw, "slices": slices, "retried": tuple(raw["retried"])})


def _to_runs(rows: Sequence[int]) -> list[int]:
    """Return the first row and the length of each run of consecutive rows."""
    runs: list[int] = []
    for row in rows:
        if runs and row == runs[-2] + runs[-1]:
            runs[-1] += 1
        else:
            runs += (row, 1)
    return runs


def _from_runs(runs: Sequence[int]) -> tuple[int, ...]:
    spans = zip(runs[::2], runs[1::2], strict=True)
    return tuple(row for first, length in spans for row in range(first, first + length))


@dataclass(slots=True)
class UnitMaker:
    """Cuts large groups into even slices and packs small ones of one part of the plan together."""

    target: ModelTarget
    replicas: int
    expected: int  # samples of the whole plan
    samples: int = 0  # samples planned so far
    pending: int = 0
    sizes: dict[GroupKey, int] = field(default_factory=dict)  # bytes of each media group's pixels, as decoded

    def units(self, pool: Pool) -> Iterator[WorkUnit]:
        """Yield the units of one part of the plan."""
        if not pool:
            return
        self.pending += sum(len(sample.ids) for members in pool.values() for sample in members)
        limit, light_limit = self._max_requests(MAX_UNIT_REQUESTS), self._max_requests(MAX_LIGHT_UNIT_REQUESTS)
        pack_limit = min(PACK_REQUESTS, limit)
        small_limit = pack_limit if self.target.fingerprint.get("engine") in PAID_ENGINES else light_limit
        packed: list[tuple[MediaGroupSlice, list[str]]] = []
        size = pixels = 0
        for key, members in pool.items():
            has_media = bool(key[1])
            slices = [*_split(members, limit if has_media else max(limit, small_limit))]
            # Slices of one medium stay apart, so that they can be spread over replicas.
            max_small = min(limit, small_limit) if has_media and len(slices) > 1 else small_limit
            for rows, ids in slices:
                size, pixels = size + len(ids), pixels + self.sizes.get(key, 0)
                if packed and size > (max_small if pixels <= PACK_BYTES else pack_limit):
                    yield self._unit(packed)
                    packed, size, pixels = [], len(ids), self.sizes.get(key, 0)
                packed.append((MediaGroupSlice(*key, rows), ids))
        yield self._unit(packed)

    def _max_requests(self, limit: int) -> int:
        """Return the largest size of a unit: `limit`, or smaller where replicas would find too few units to share.

        The size of the whole plan is extrapolated from the parts so far.
        """
        if self.replicas <= 1:
            return limit
        total = self.pending * max(1.0, self.expected / max(1, self.samples))
        share = ceil(total / (self.replicas * UNITS_PER_REPLICA))
        return max(MIN_UNIT_REQUESTS, min(limit, share))

    def _unit(self, packed: list[tuple[MediaGroupSlice, list[str]]]) -> WorkUnit:
        ids = [request_id for _, slice_ids in packed for request_id in slice_ids]
        slices = tuple(media_slice for media_slice, _ in packed)
        prompts = self.target.prompts
        folder = part_folder(KINDS[prompts.kind], prompts.benchmark_name, self.target.model)
        return WorkUnit(
            benchmark=prompts.benchmark_name,
            part=f"{folder}/{unit_name(ids)}.parquet",
            slices=slices,
            requests=len(ids),
            media_bytes=_media_bytes(slices, self.sizes),
        )


def _split(members: Sequence[SampleRequests], limit: int) -> Iterator[tuple[tuple[int, ...], list[str]]]:
    """Yield rows and ids of slices of about even size; a sample is never split."""
    total = sum(len(sample.ids) for sample in members)
    even = ceil(total / ceil(total / limit))
    rows: list[int] = []
    ids: list[str] = []
    for sample in members:
        if ids and len(ids) + len(sample.ids) > max(even, 1):
            yield tuple(rows), ids
            rows, ids = [], []
        rows += sample.rows
        ids += sample.ids
    yield tuple(rows), ids


def _media_bytes(slices: Sequence[MediaGroupSlice], sizes: Mapping[GroupKey, int]) -> int:
    return sum(sizes.get(key, 0) for key in {(entry.plan_part, entry.group) for entry in slices})


def unit_name(request_ids: Sequence[str]) -> str:
    """Return the name of the unit that holds exactly these requests."""
    return hashlib.sha256("".join(sorted(request_ids)).encode()).hexdigest()[:24]


def retry_units(retries: RetryPool, benchmark: str, sizes: Mapping[GroupKey, int]) -> Iterator[WorkUnit]:
    """Yield units that send failed requests again, each for the part that holds them."""
    for part, pool in retries.items():
        ids = tuple(request_id for members in pool.values() for sample in members for request_id in sample.ids)
        slices = tuple(
            MediaGroupSlice(plan_part, group, tuple(row for sample in members for row in sample.rows))
            for (plan_part, group), members in pool.items()
        )
        yield WorkUnit(
            benchmark=benchmark,
            part=part,
            slices=slices,
            requests=len(ids),
            media_bytes=_media_bytes(slices, sizes),
            retried=ids,
        )


class UnitFile:
    """A file without a name in the temporary folder, for units of many plans: it disappears with its process."""

    def __init__(self) -> None:
        self._size = 0
        self._lock = threading.Lock()

    @cached_property
    def _handle(self) -> int:
        with TemporaryFile(prefix="vlmsweep-units-") as file:
            handle = os.dup(file.fileno())
        weakref.finalize(self, os.close, handle)
        return handle

    def append(self, content: bytes) -> int:
        """Write at the end; return where. Raises StoreError if the temporary folder is full or not writable."""
        with self._lock:
            start = self._size
            view = memoryview(content)
            try:
                while view:
                    view = view[os.pwrite(self._handle, view, self._size + len(content) - len(view)) :]
            except OSError as error:
                raise StoreError(f"temporary folder {gettempdir()}: {describe(error)}") from error
            self._size += len(content)
            return start

    def read(self, start: int, end: int) -> bytes:
        """Return the bytes from `start` to `end`."""
        return os.pread(self._handle, end - start, start)


class UnitList(Sequence[WorkUnit]):
    """Units in a `UnitFile`. Memory holds 16 bytes a unit, which is a batch of up to 256 requests."""

    def __init__(self, units: Iterable[WorkUnit] = (), file: UnitFile | None = None) -> None:
        self._file = file or UnitFile()
        self._starts, self._ends = array("Q"), array("Q")
        self.requests = 0  # of all units
        self.extend(units)

    def extend(self, units: Iterable[WorkUnit]) -> None:
        """Add units at the end."""
        texts = []
        for unit in units:
            texts.append(json.dumps(unit.to_dict(), separators=(",", ":")).encode())
            self.requests += unit.requests
        start = self._file.append(b"".join(texts)) if texts else 0
        for text in texts:
            self._starts.append(start)
            start += len(text)
            self._ends.append(start)

    def __len__(self) -> int:
        return len(self._ends)

    @overload
    def __getitem__(self, index: int) -> WorkUnit: ...
    @overload
    def __getitem__(self, index: slice) -> list[WorkUnit]: ...
    def __getitem__(self, index: int | slice) -> WorkUnit | list[WorkUnit]:
        if isinstance(index, slice):
            return [self[position] for position in range(*index.indices(len(self)))]
        return WorkUnit.from_dict(json.loads(self._file.read(self._starts[index], self._ends[index])))

    def __iter__(self) -> Iterator[WorkUnit]:
        return (self[index] for index in range(len(self)))


def count_requests(units: Sequence[WorkUnit]) -> int:
    """Return the requests of units."""
    return units.requests if isinstance(units, UnitList) else sum(unit.requests for unit in units)
