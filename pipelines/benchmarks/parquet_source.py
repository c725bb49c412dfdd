"""Foreign Parquet files, read in batches with limits: a file of a kilobyte can unfold to gigabytes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from pipelines.errors import SourceError

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

MAX_ROWS: Final = 2_000_000  # rows of one file
MAX_TEXT_BYTES: Final = 512 << 20  # decoded bytes of the text columns of one file or row group, held together
MAX_PICTURE_BYTES: Final = 16 << 30  # decoded bytes of all columns of one file, of which a batch is held at a time
_AT_ONCE: Final = 128 << 20  # bytes that a batch may decode to when every value is as large as its packed column
_MAX_RATIO: Final = 100  # of what a file unfolds to, to its size: of text that repeats itself it is some twenty
_MAX_ROW: Final = 64 << 20  # bytes of a row, on average over a batch
_FREE_BYTES: Final = 16 << 20  # to which a file may unfold whatever its size


def open_parquet(content: bytes | BinaryIO, where: str, required: Sequence[str] = ()) -> pq.ParquetFile:
    """Open a file, or its content; SourceError if it is not Parquet or lacks one of the `required` columns."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    source = pa.BufferReader(content) if isinstance(content, bytes) else content
    with _readable(where):
        size = source.seek(0, os.SEEK_END)
        source.seek(0)
        file = pq.ParquetFile(source, page_checksum_verification=True)
        names = file.schema_arrow.names
        groups = [file.metadata.row_group(number) for number in range(file.num_row_groups)]
        sizes = [(int(group.total_byte_size), int(group.num_rows)) for group in groups]
    if (unfolded := sum(group for group, _ in sizes)) > max(_FREE_BYTES, size * _MAX_RATIO):
        raise SourceError(
            f"{where}: its {size:,} bytes unfold to {unfolded:,}, over {_MAX_RATIO} times as many: it is no data set; "
            "fetch it again"
        )
    for group, rows in sizes:
        _small_enough(group, rows, where)
    missing = [name for name in required if name not in names]
    if missing:
        raise SourceError(f"{where}: no column {', '.join(missing)}; found {', '.join(names)}")
    return file


@contextlib.contextmanager
def _readable(where: str) -> Iterator[None]:
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise SourceError(f"{where}: cannot be read as Parquet ({str(error)[:200]}); fetch the file again") from error


def parquet_rows(
    file: pq.ParquetFile, columns: Sequence[str], *, rows: int, max_bytes: int, where: str
) -> Iterator[dict[str, Any]]:
    """Yield the rows of some columns of a file; arguments and errors as of `batches`."""
    for batch in batches(file, columns, rows=rows, max_bytes=max_bytes, where=where):
        with _readable(where):
            values = batch.to_pylist()
        yield from values


def batches(
    file: pq.ParquetFile, columns: Sequence[str], *, rows: int, max_bytes: int, where: str, group: int | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield batches of at most `rows` rows of some top-level columns of a file, or of one of its row groups.

    `max_bytes` is what all batches together may decode to, `where` the file's address for messages. Raises SourceError
    where there are too many rows or bytes, or the file is damaged.
    """
    groups = range(file.num_row_groups) if group is None else [group]
    seen = decoded = 0
    _few_enough(file.metadata.num_rows, where)
    with _readable(where):
        for batch in file.iter_batches(
            batch_size=min(rows, _fitting(file, groups)),
            row_groups=list(groups),
            columns=list(columns),
            use_threads=False,
        ):
            seen, decoded = seen + batch.num_rows, decoded + batch.nbytes
            _few_enough(seen, where)  # what the footer says may be untrue
            _small_enough(batch.nbytes, batch.num_rows, where)
            if decoded > max_bytes:
                raise SourceError(
                    f"{where}: {', '.join(columns)} unfold to more than {max_bytes:,} bytes in {seen:,} rows, the "
                    "limit for one file; a file of this benchmark is far smaller: fetch it again, or split it"
                )
            yield batch


def _few_enough(rows: int, where: str) -> None:
    if rows > MAX_ROWS:
        raise SourceError(f"{where}: {rows:,} rows, more than the limit of {MAX_ROWS:,} for one file; split it")


def _small_enough(size: int, rows: int, where: str) -> None:
    if size > max(_AT_ONCE, rows * _MAX_ROW):
        raise SourceError(
            f"{where}: {size:,} bytes in {rows:,} rows, over {_MAX_ROW >> 20} MiB a row; make pictures smaller, or "
            "give their files"
        )


def _fitting(file: pq.ParquetFile, groups: Sequence[int]) -> int:
    """Return how many rows fit in `_AT_ONCE`: a dictionary's value is packed once and repeated in every row.

    Sizes of single columns are not asked for: Arrow ends the process where their statistics are damaged.
    """
    sizes = (int(file.metadata.row_group(group).total_byte_size) for group in groups)
    return max(1, _AT_ONCE // max([1, *sizes]))


def picture_bytes(cell: Any) -> bytes:
    """Return the bytes of a picture's cell, alone or as `{"bytes": ..}`; b"" where it is empty."""
    content = cell.get("bytes") if isinstance(cell, Mapping) else cell
    return content if isinstance(content, bytes) else b""
