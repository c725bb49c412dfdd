"""The rows of one part of a plan as columns, without messages and media files: what planning computes with."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import starmap
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

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
    """The columns of one part."""

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
        return Codes(column.dictionary.to_pylist(), column.indices.to_numpy().astype(np.int64))

    def numbers(self, name: str) -> Numbers:
        """Return a column of integers."""
        numbers: Numbers = self._table[name].to_numpy()
        return numbers

    def cells(self) -> Codes[tuple[str, str]]:
        """Return task and setting."""
        tasks, settings = self.codes("task"), self.codes("setting")
        cells = [(task, setting) for task in tasks.values for setting in settings.values]
        return Codes(cells, tasks.codes * len(settings.values) + settings.codes)
