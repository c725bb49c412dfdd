"""Parquet parts with a checksum: reading and writing."""

import hashlib
import io
import logging
import resource
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.errors import DamagedPartError
from pipelines.storage.backend import FileInfo
from pipelines.storage.local_store import is_part
from pipelines.storage.store import NAMED, Store

CHECKSUM_MARK = b"vlmsweep sha256:"

NO_REMEDY = "; nothing writes it again: delete it, and nights go on without it"
_REMEDIES = {
    "predictions": "; `vlmsweep run` with the same flags predicts its rows again",
    "imported": "; `vlmsweep score` with the same --predictions imports them again",
    "captions": "; `vlmsweep run` with the same flags writes them again",
    "judgements": "; `vlmsweep score` with the same flags asks the judge again",
    "scores": "; `vlmsweep score` with the same flags writes it again",
    "plan": "; `vlmsweep report` with the same flags writes it again",
    "examples": "; delete examples/complete.json, and `vlmsweep finetune` with the same flags copies it again",
    **dict.fromkeys(("items", "metrics", "pairs"), NO_REMEDY),
}
"""By kind of part: what writes a damaged one again."""

T = TypeVar("T")

log = logging.getLogger(__name__)

if resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY:  # `ulimit -v`
    pa.set_memory_pool(pa.system_memory_pool())  # mimalloc, the default, crashes where the limit refuses memory


def part_folder(kind: str, benchmark: str, model: str) -> str:
    """Return a model's folder, such as `predictions/benchmark=maia/model=gpt-4o`."""
    return f"{kind}/benchmark={benchmark}/model={safe_model(model)}"


def folder_names(path: str) -> tuple[str, str]:
    """Return the kind and the benchmark of a part's path."""
    kind, benchmark = path.split("/")[:2]
    return kind, benchmark.removeprefix("benchmark=")


def score_path(prediction_path: str) -> str:
    """Return where the scores of a prediction part are."""
    return prediction_path.replace("predictions/", "scores/", 1)


def safe_model(model: str) -> str:
    """Return a model's name as part of a path: unsafe bytes become %XX."""
    safe = "".join(
        c if c.isalnum() or c in "-_.+" else "".join(f"%{b:02X}" for b in c.encode("utf-8", "replace")) for c in model
    )
    return safe if safe.strip(".") else safe.replace(".", "%2E") or "%00"  # `..` is no name of a folder


def to_parquet(rows: Iterable[Mapping[str, Any]] | pa.Table, schema: pa.Schema) -> bytes:
    """Return rows as one Parquet file that contains its own checksum; missing columns are null."""
    table = rows if isinstance(rows, pa.Table) else pa.Table.from_pylist(list(rows), schema)
    sink = io.BytesIO()
    pq.write_table(table.cast(schema), sink, compression="zstd", write_page_checksum=True)
    return _add_checksum(sink.getvalue())


def batched(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield lists of `size` items, the last one shorter (itertools.batched of Python 3.12)."""
    batch: list[T] = []
    for item in items:
        batch.append(item)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


def tables_to_parquet(tables: Iterable[pa.Table], schema: pa.Schema) -> bytes:
    """Write tables as one Parquet file with its checksum, one row group per table."""
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, schema, compression="zstd", write_page_checksum=True) as writer:
        for table in tables:
            writer.write_table(table)
    return _add_checksum(sink.getvalue())


def _add_checksum(content: bytes) -> bytes:
    """Insert a hash before a Parquet file's footer, where readers ignore it: page checksums do not cover the footer."""
    footer = _footer_start(content)
    return content[:footer] + CHECKSUM_MARK + hashlib.sha256(content).digest() + content[footer:]


def _footer_start(content: bytes) -> int:
    return len(content) - 8 - int.from_bytes(content[-8:-4], "little")


def _verify_checksum(content: bytes) -> None:
    """Compare a file with its checksum; files of other tools have none and rely on their page checksums."""
    footer = _footer_start(content)
    start = footer - len(CHECKSUM_MARK) - hashlib.sha256().digest_size
    if start < 0 or content[start : start + len(CHECKSUM_MARK)] != CHECKSUM_MARK:
        return
    digest = hashlib.sha256(content[:start])
    digest.update(content[footer:])
    if digest.digest() != content[start + len(CHECKSUM_MARK) : footer]:
        raise ValueError("its bytes are not those that were written")


def read_parquet(content: bytes, columns: list[str] | None = None) -> pa.Table:
    """Read a Parquet file in memory without threads: Arrow's idle ones make a short process abort at its end.

    A Python file would be read by a thread of Arrow in any case.
    """
    return open_parquet(content).read(columns=columns, use_threads=False)


def open_parquet(content: bytes) -> pq.ParquetFile:
    """Open a Parquet file in memory; its pages are checked as they are read."""
    return pq.ParquetFile(pa.BufferReader(content), page_checksum_verification=True)


def num_rows(content: bytes) -> int:
    """Return the number of rows of a Parquet file."""
    return int(pq.read_metadata(pa.BufferReader(content)).num_rows)


def list_parts(store: Store, folder: str) -> list[FileInfo]:
    """Return the parts anywhere below a folder; other files there are not ours."""
    return [info for info in store.list(folder, "*.parquet") if is_part(info.path)]


def iter_parts(
    store: Store, folder: str, columns: list[str] | None = None, *, repair: bool = False
) -> Iterator[tuple[str, pa.Table]]:
    """Yield path and table of each readable part; skip damaged ones with a warning; `repair` moves them away."""
    for path, table in read_parts(store, folder, columns):
        if not isinstance(table, DamagedPartError):
            yield path, table
        elif repair:
            move_aside(store, path, table)
        else:
            log.warning("%s; skipped", table)


def read_parts(
    store: Store, folder: str, columns: list[str] | None = None
) -> Iterator[tuple[str, pa.Table | DamagedPartError]]:
    """Yield path and table of each part; of a damaged one its error."""
    for info in list_parts(store, folder):
        try:
            yield info.path, read_part(store, info, columns)
        except DamagedPartError as error:
            yield info.path, error


def move_aside(store: Store, path: str, error: DamagedPartError) -> None:
    """Move a damaged part to `damaged/`, so that its rows are computed again."""
    log.warning("%s; moved to damaged/, its rows will be recomputed", error)
    store.copy_aside(path, "damaged")
    store.delete(path)


def open_part(store: Store, path: str) -> pq.ParquetFile:
    """Open one part to read row groups of it; raise DamagedPartError if its checksum is wrong."""
    return _open(store, path, store.get(path))


def open_named_part(store: Store, path: str) -> pq.ParquetFile:
    """Open one part whose name is a hash of its content, as `open_part`; a store may hold it."""
    return _open(store, path, store.get_cached(path, NAMED))


def _open(store: Store, path: str, content: bytes) -> pq.ParquetFile:
    with _checked(store, path, content):
        return open_parquet(content)


def read_part(store: Store, part: str | FileInfo, columns: list[str] | None = None) -> pa.Table:
    """Read one part by path, or from a listing; raise DamagedPartError if it is not a complete Parquet file."""
    path, content = (part, store.get(part)) if isinstance(part, str) else (part.path, store.get_listed(part))
    with _checked(store, path, content):
        return read_parquet(content, columns)


@contextmanager
def _checked(store: Store, path: str, content: bytes) -> Iterator[None]:
    """Check a part before its content is read; DamagedPartError if either fails."""
    try:
        _verify_checksum(content)
        yield
    except (pa.ArrowException, OSError, ValueError) as error:
        store.forget(path)
        remedy = _REMEDIES.get("imported" if "/external-" in path else path.partition("/")[0], "")
        raise DamagedPartError(f"{store.uri}/{path}: {str(error)[:200].rstrip('.')}{remedy}") from error
