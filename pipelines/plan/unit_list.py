"""The units of a plan in a file, so that memory does not grow with them."""

import json
import os
import threading
import weakref
from array import array
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from tempfile import TemporaryFile, gettempdir
from typing import overload

from pipelines.errors import StoreError
from pipelines.plan.units import WorkUnit
from pipelines.storage.errors import describe


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
