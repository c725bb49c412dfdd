"""A plan as files: every request of one benchmark before it is addressed to a model, one Parquet part a shard."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby, starmap
from operator import attrgetter
from typing import Any, Final, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from models.message_codec import load_steps
from models.messages import Media, Step
from pipelines.schemas import schema_of
from pipelines.storage.parts import open_named_part
from pipelines.storage.store import Store

ROW_GROUP: Final = 512  # rows that are built, written and read together
CACHED_PARTS = 4
_PAYLOAD = ("media_files", "messages")
_ESTIMATES = ("prompt_tokens", "media_tokens", "first_media_tokens", "pictures", "decoded_bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRow:
    """One row of a plan: a prompt of one sample, whichever model answers it."""

    sample_id: str
    task: str
    setting: str
    variant: str
    media_group: str  # what is decoded and encoded once for all requests that share it; '' for text alone
    prompt_version: str
    prompt_sha256: str
    captioner: str = ""  # name of the model whose caption the prompt holds; '' where it holds none
    excluded: str  # why it is never sent; '' when it is
    generation: str  # JSON: the benchmark's settings of each step
    id_members: str  # what the row adds to the JSON that request ids are hashes of (`pipelines.hashing.json_members`)
    prompt_tokens: int = 0
    media_tokens: int = 0
    first_media_tokens: int = 0
    pictures: int = 0  # pictures and frames
    decoded_bytes: int = 0
    media_files: Mapping[str, str]  # content hash -> path in the dataset
    messages: str
    """JSON (`models.message_codec.dump_steps`); empty, like `media_files`, where rows are read without payload."""

    @property
    def steps(self) -> tuple[Step, ...]:
        """The messages, decoded."""
        return load_steps(self.messages)


PLAN: Final = schema_of(PlanRow, {"media_files": pa.map_(pa.string(), pa.string())})
_column_values = attrgetter(*PLAN.names)


def plan_table(rows: Sequence[PlanRow]) -> pa.Table:
    """Return rows as a table of `PLAN`."""
    columns = dict(zip(PLAN.names, zip(*map(_column_values, rows), strict=True), strict=True))
    columns["media_files"] = [list(files.items()) for files in columns["media_files"]]
    return pa.Table.from_pydict(columns, PLAN)


Mask = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]


class RequestKey(NamedTuple):
    """The fields that identify a request of one model and benchmark."""

    sample_id: str
    task: str
    setting: str
    variant: str
    prompt_version: str
    prompt_sha256: str
    generation: str
    id_members: str


T = TypeVar("T")


class Codes(NamedTuple, Generic[T]):
    """A column of repeated values: the distinct ones, and for each row the index of its own."""

    values: list[T]
    codes: Numbers

    def counts(self, mask: Mask) -> Iterator[tuple[T, int]]:
        """Yield each value of the selected rows with their number."""
        numbers = np.bincount(self.codes[mask], minlength=len(self.values)).tolist()
        return ((value, number) for value, number in zip(self.values, numbers, strict=True) if number)

    def equal(self, value: T) -> Mask:
        """Return which rows have this value."""
        code = self.values.index(value) if value in self.values else -1
        return np.equal(self.codes, code)

    def first_rows(self, mask: Mask) -> Numbers:
        """Return the first selected row of each value, in the order of the rows."""
        rows = np.flatnonzero(mask)
        return np.sort(rows[np.unique(self.codes[rows], return_index=True)[1]])


class PlanColumns:
    """The rows of one part as columns, without messages and media files: what planning computes with."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table
        self.rows: int = table.num_rows

    def request_keys(self) -> Iterator[RequestKey]:
        """Yield what the ids of the rows depend on."""
        columns = (self._table[name].to_pylist() for name in RequestKey._fields)
        return starmap(RequestKey, zip(*columns, strict=True))

    def codes(self, name: str) -> Codes[str]:
        """Return a column of texts."""
        column: Any = pa.concat_arrays(self._table[name].chunks).dictionary_encode()
        return Codes(column.dictionary.to_pylist(), _as_numbers(column.indices))

    def numbers(self, name: str) -> Numbers:
        """Return a column of integers."""
        return _as_numbers(pa.concat_arrays(self._table[name].chunks))

    def groups(self) -> Codes[tuple[str, str]]:
        """Return task and setting."""
        tasks, settings = self.codes("task"), self.codes("setting")
        groups = [(task, setting) for task in tasks.values for setting in settings.values]
        return Codes(groups, tasks.codes * len(settings.values) + settings.codes)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanPart:
    """One file of a plan."""

    path: str
    samples: int  # samples that it covers, with or without requests
    rows: int


@dataclass(frozen=True, slots=True)
class StoredPlan:
    """The files of one plan. Light: workers open them where they need them."""

    store: Store
    parts: tuple[PlanPart, ...]

    @property
    def samples(self) -> int:
        """Samples that the plan covers."""
        return sum(part.samples for part in self.parts)

    @property
    def rows(self) -> int:
        """Rows of the plan, excluded ones included."""
        return sum(part.rows for part in self.parts)

    def iter_part(self, part: PlanPart, *, payload: bool = True) -> Iterator[tuple[int, PlanRow]]:
        """Yield the rows of one part with their index in it; without messages and media files if not `payload`.

        A row group is in memory at a time. Raises DamagedPartError if the file was altered.
        """
        file = open_named_part(self.store, part.path)
        index = 0
        columns = None if payload else [name for name in PLAN.names if name not in _PAYLOAD]
        for group in range(file.num_row_groups):
            for raw in file.read_row_group(group, columns, use_threads=False).to_pylist():
                yield index, _row(raw)
                index += 1

    def read_columns(self, part: PlanPart) -> PlanColumns:
        """Return the rows of one part without messages and media files; DamagedPartError if the file was altered."""
        file = open_named_part(self.store, part.path)
        return PlanColumns(file.read([name for name in PLAN.names if name not in _PAYLOAD], use_threads=False))

    def __iter__(self) -> Iterator[PlanRow]:
        """Yield all rows."""
        return (row for part in self.parts for _, row in self.iter_part(part))

    def iter_columns(self) -> Iterator[PlanRow]:
        """Yield all rows without messages and media files."""
        return (row for part in self.parts for _, row in self.iter_part(part, payload=False))


class PlanReader:
    """Reads single rows of plans; the last few files stay in memory as they are stored, and row groups as read."""

    def __init__(self, store: Store) -> None:
        self._open = lru_cache(maxsize=CACHED_PARTS)(lambda path: open_named_part(store, path))
        self._group = lru_cache(maxsize=CACHED_PARTS)(self._read_group)

    def rows(self, path: str, indices: Sequence[int]) -> Iterator[PlanRow]:
        """Yield the rows of a part at these indices, without estimates; DamagedPartError if the file was altered."""
        return (_row(raw) for raw in self.raw_rows(path, indices))

    def raw_rows(self, path: str, indices: Sequence[int]) -> Iterator[dict[str, Any]]:
        """Yield the stored columns of the rows at these indices, in their order, without estimates."""
        for group, run in groupby(indices, lambda index: index // ROW_GROUP):
            offsets = [index % ROW_GROUP for index in run]
            table, first, count = self._group(path, group), offsets[0], len(offsets)
            are_consecutive = offsets == list(range(first, first + count))
            yield from (table.slice(first, count) if are_consecutive else table.take(offsets)).to_pylist()

    def _read_group(self, path: str, group: int) -> pa.Table:
        file = self._open(path)
        columns = [name for name in file.schema_arrow.names if name not in _ESTIMATES]
        return file.read_row_group(group, columns, use_threads=False)


def _as_numbers(array: Any) -> Numbers:
    return np.from_dlpack(array).astype(np.int64)  # `to_numpy` imports pandas, half of the time of a short command


def _row(raw: Mapping[str, Any]) -> PlanRow:
    return PlanRow(**{**raw, "media_files": dict(raw.get("media_files") or ()), "messages": raw.get("messages") or ""})


def iter_media(steps: Sequence[Step]) -> Iterator[Media]:
    """Yield the pictures and clips of a request in order, repeats kept."""
    return (part for step in steps for turn in step.turns for part in turn.parts if isinstance(part, Media))


def media_group_key(media: Media) -> str:
    """Return the media group of requests that start with this medium."""
    return f"{media.kind}:{media.source}:{media.frames}"
