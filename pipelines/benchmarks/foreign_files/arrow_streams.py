"""Foreign Arrow files, such as `datasets` saves with `save_to_disk`: mapped, never trusted, read a few rows at a time.

A batch is checked before its rows are made: a message of a kilobyte can say that it unfolds to gigabytes.
"""

from __future__ import annotations

import contextlib
import mmap
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from pipelines.errors import SourceError

if TYPE_CHECKING:
    import pyarrow as pa

MAX_ROWS: Final = 2_000_000  # rows of one file
MAX_ROW_BYTES: Final = 64 << 20
_ROWS: Final = 64  # at a time: each may hold a picture
_AT_ONCE: Final = 128 << 20  # bytes of these rows
_FREE_ELEMENTS: Final = 1 << 20  # elements of the lists of a batch, whatever its size
_ELEMENTS_A_BYTE: Final = 8  # of a batch: truth values take a bit each
_MAGIC: Final = b"ARROW1\x00\x00"  # of Arrow's file format, in which a stream follows
_ENDS: Final = (b"\xff\xff\xff\xff\x00\x00\x00\x00", b"\x00\x00\x00\x00")  # the second before Arrow 0.15


class ArrowStream:
    """An open Arrow file, called `where` in messages; SourceError if it is none, or its types are not read."""

    def __init__(self, file: BinaryIO, where: str) -> None:
        import pyarrow as pa

        self._where, self._rows = where, 0
        with self._readable():
            self._source = pa.BufferReader(_content(file))
            if self._source.read(len(_MAGIC)) != _MAGIC:
                self._source.seek(0)
            self._messages = pa.ipc.MessageReader.open_stream(self._source)
            message = self._messages.read_next_message()
            if message.type != "schema":  # which Arrow would take for one, and end the process
                raise SourceError(f"{where}: begins with a {message.type}, not with its columns; save it again")
            self._schema = pa.ipc.read_schema(message)
            self.columns: Sequence[str] = self._schema.names  # which may be no text
            self.metadata: Mapping[bytes, bytes] | None = self._schema.metadata
            for field in self._schema:
                if refused := _refused(field.type):
                    raise SourceError(
                        f"{where}: column {field.name!r} is a {refused} of Arrow, which is not read; save it as Parquet"
                    )

    def rows(self, columns: Sequence[str]) -> Iterator[Mapping[str, Any] | ValueError]:
        """Yield some columns of each row, or why it cannot be read; SourceError if the file is damaged."""
        for batch in self._batches(columns):
            for start in range(0, batch.num_rows, _ROWS):
                part = batch.slice(start, _ROWS)
                step = _ROWS if part.nbytes <= _AT_ONCE else 1
                for place in range(0, part.num_rows, step):
                    yield from _values(part.slice(place, step))
                    self._rows += min(step, part.num_rows - place)
        end = max(0, self._source.tell() - 8)
        self._source.seek(end)
        if not self._source.read(8).endswith(_ENDS):
            raise SourceError(f"{self._where}: ends after row {self._rows:,} without its mark; copy the file again")

    def _batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        seen = 0
        while True:
            with self._readable():
                try:
                    message = self._messages.read_next_message()
                except StopIteration:
                    return
                if message.type != "record batch":
                    raise SourceError(f"{self._where}: holds a {message.type}, which is not read; save it as Parquet")
                if _is_compressed(message.metadata.to_pybytes()):
                    raise SourceError(
                        f"{self._where}: is compressed, which is not read; save it with `Dataset.save_to_disk`, or as "
                        "Parquet"
                    )
                batch = pa.ipc.read_record_batch(message, self._schema).select([*columns])
                batch.validate(full=True)
            if (seen := seen + batch.num_rows) > MAX_ROWS:
                raise SourceError(f"{self._where}: over {MAX_ROWS:,} rows, the limit for one file; split it")
            if sum(map(_elements, batch.columns)) > max(_FREE_ELEMENTS, _ELEMENTS_A_BYTE * message.body.size):
                raise SourceError(f"{self._where}: lists after row {self._rows:,} unfold to more than they hold")
            yield batch

    @contextlib.contextmanager
    def _readable(self) -> Iterator[None]:
        import pyarrow as pa

        try:
            yield
        except (pa.ArrowException, OSError, ValueError, KeyError, StopIteration, struct.error) as error:
            after = f" after row {self._rows:,}" if self._rows else ""
            raise SourceError(
                f"{self._where}: cannot be read as Arrow{after} ({str(error)[:200]}); save it again, or as Parquet"
            ) from error


def _content(file: BinaryIO) -> pa.Buffer:
    """Return a file's bytes, mapped if it is on this machine."""
    import pyarrow as pa

    try:
        number = file.fileno()
    except OSError:  # of an object store, held already
        return pa.py_buffer(file.read())
    return pa.py_buffer(mmap.mmap(number, 0, access=mmap.ACCESS_READ))


def _refused(of: pa.DataType) -> str:
    """Return the first type in a type whose values may stand for more bytes than they take; '' for none."""
    from pyarrow import types

    kinds = (
        types.is_dictionary,
        types.is_run_end_encoded,
        types.is_union,
        types.is_list_view,
        types.is_large_list_view,
        types.is_string_view,
        types.is_binary_view,
    )
    if any(is_kind(of) for is_kind in kinds):
        return str(of)
    inner = [of.storage_type] if hasattr(of, "storage_type") else [of.field(n).type for n in range(of.num_fields)]
    return next(filter(None, map(_refused, inner)), "")


def _elements(array: pa.Array) -> int:
    """Return how many elements the lists of a column have, at every depth."""
    from pyarrow import types

    of = array.type
    if hasattr(of, "storage_type"):
        return _elements(array.storage)
    if types.is_struct(of):
        return sum(_elements(array.field(number)) for number in range(of.num_fields))
    if types.is_map(of):
        return len(array.keys) + _elements(array.keys) + _elements(array.items)
    if types.is_list(of) or types.is_large_list(of) or types.is_fixed_size_list(of):
        return len(array.values) + _elements(array.values)
    return 0


def _values(part: pa.RecordBatch) -> Iterator[Mapping[str, Any] | ValueError]:
    """Yield the rows of a part; one that has no value in Python, or is too large, costs itself alone."""
    if part.num_rows == 1 and part.nbytes > MAX_ROW_BYTES:
        yield ValueError(f"{part.nbytes:,} bytes, over {MAX_ROW_BYTES >> 20} MiB a row; give the files of pictures")
        return
    try:
        rows = part.to_pylist()
    except (ValueError, OverflowError, LookupError) as error:  # a date of the year 20,000, an unknown time zone
        if part.num_rows == 1:
            yield ValueError(f"a value that cannot be read ({str(error)[:200]})")
            return
        for place in range(part.num_rows):
            yield from _values(part.slice(place, 1))
    else:
        yield from rows


def _is_compressed(metadata: bytes) -> bool:
    """Return whether a batch's message, a FlatBuffer, has field 3 of a `RecordBatch`, its compression."""
    message = struct.unpack_from("<I", metadata)[0]
    header = message + _field(metadata, message, 2)
    batch = header + struct.unpack_from("<I", metadata, header)[0]
    return _field(metadata, batch, 3) != 0


def _field(content: bytes, table: int, number: int) -> int:
    """Return the place of a field in a FlatBuffer's table; 0 if it is absent."""
    slots = table - struct.unpack_from("<i", content, table)[0]
    place = 4 + 2 * number
    size: int = struct.unpack_from("<H", content, slots)[0]
    return int(struct.unpack_from("<H", content, slots + place)[0]) if place < size else 0
