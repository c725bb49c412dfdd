"""The columns of what a run leaves, and how parts are read and written."""

from __future__ import annotations

import hashlib
import io
import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.storage.store import Store

SEAL = b"vlmsweep sha256:"

log = logging.getLogger(__name__)


class DamagedPartError(ValueError):
    """A Parquet part is truncated or altered."""


def part_folder(kind: str, benchmark: str, model: str) -> str:
    """Folder of a model's parts, such as `predictions/benchmark=maia/model=gpt-4o`.

    A model's name is the user's: what could leave the folder or upset a store is written as %XX.
    """
    safe = "".join(
        c if c.isalnum() or c in "-_.+" else "".join(f"%{b:02X}" for b in c.encode("utf-8", "replace")) for c in model
    )
    return f"{kind}/benchmark={benchmark}/model={safe or '%00'}"


def to_parquet(rows: Iterable[Mapping[str, Any]] | pa.Table, schema: pa.Schema) -> bytes:
    """Rows as one Parquet file that carries its own checksum; columns that a row does not name are null."""
    table = rows if isinstance(rows, pa.Table) else pa.Table.from_pylist(list(rows), schema)
    sink = io.BytesIO()
    pq.write_table(table.cast(schema), sink, compression="zstd", write_page_checksum=True)
    return _sealed(sink.getvalue())


def _sealed(content: bytes) -> bytes:
    """A Parquet file with the hash of all its other bytes before its footer, where readers look at nothing.

    Page checksums do not cover the footer, and a flipped bit there gives a column another name.
    """
    at = _footer_start(content)
    return content[:at] + SEAL + hashlib.sha256(content).digest() + content[at:]


def _footer_start(content: bytes) -> int:
    return len(content) - 8 - int.from_bytes(content[-8:-4], "little")


def _check_seal(content: bytes) -> None:
    """Compare a file with its seal; one without a seal was written by another tool and has its page checksums only."""
    at = _footer_start(content)
    start = at - len(SEAL) - hashlib.sha256().digest_size
    if start < 0 or content[start : start + len(SEAL)] != SEAL:
        return
    whole = hashlib.sha256(content[:start])
    whole.update(content[at:])
    if whole.digest() != content[start + len(SEAL) : at]:
        raise ValueError("its bytes are not those that were written")


def read_parquet(content: bytes, columns: list[str] | None = None) -> pa.Table:
    """A Parquet file in memory, read by this thread alone.

    Parts are small, and Arrow's idle threads make a short process abort when it ends right after.
    """
    file = pq.ParquetFile(io.BytesIO(content), page_checksum_verification=True)
    return file.read(columns=columns, use_threads=False)


def iter_parts(
    store: Store, folder: str, columns: list[str] | None = None, *, mend: bool = False
) -> Iterator[tuple[str, pa.Table]]:
    """All parts of a folder that can be read.

    Args:
        store: the output.
        folder: relative to it.
        columns: only these.
        mend: move a damaged part to `damaged/`, so that its rows are done again; else it is only left out, with a
            message.
    """
    for info in store.list(folder, "*.parquet"):
        try:
            yield info.path, read_part(store, info.path, columns)
        except DamagedPartError as error:
            if not mend:
                log.warning("%s; left out", error)
                continue
            log.warning("%s; set aside under damaged/, its rows are done again", error)
            store.put(f"damaged/{info.path}", store.get(info.path))
            store.delete(info.path)


def read_part(store: Store, path: str, columns: list[str] | None = None) -> pa.Table:
    """One part.

    Raises:
        DamagedPartError: it is no whole Parquet file.
    """
    content = store.get(path)
    try:
        _check_seal(content)
        return read_parquet(content, columns)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise DamagedPartError(f"{store.uri}/{path}: {str(error)[:200]}") from error
