"""Records of batches in the output, by which a killed run finds again what it has sent."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from models.engines.openai.batch_api import KEY
from pipelines.errors import DamagedPartError
from pipelines.storage.owned_files import is_owned
from pipelines.storage.parts import iter_parts, safe_model
from pipelines.storage.retry import retry_store
from pipelines.storage.store import Store

FOLDER = "batches"
_LISTS = ("custom_ids", "request_ids", "folders")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRecord:
    """One batch: written before it is created at the provider, again with its id, and again when it has ended."""

    key: str
    """Our name for it, in its metadata at the provider."""
    created: float
    """When it was recorded, in seconds since the epoch."""
    custom_ids: tuple[str, ...]
    """Its requests, in the order of the lines of its file."""
    request_ids: tuple[str, ...]
    """Requests of the plan that it serves."""
    folders: tuple[str, ...]
    """Where the parts of these requests are committed."""
    dollars: float = 0.0
    """What it may cost at the most, estimated."""
    batch_id: str = ""
    """The provider's name; '' while it is unknown whether the provider has it."""
    is_ended: bool = False
    """Its results are in the output."""


class BatchRecords:
    """The records and results of a model's batches in an output."""

    def __init__(self, out: Store, model: str) -> None:
        self._out, self._folder = out, f"{FOLDER}/model={safe_model(model)}"

    def load(self) -> Iterator[BatchRecord]:
        """Yield all records (DamagedPartError)."""
        for info in retry_store(lambda: self._out.list(self._folder, "*.json")):
            if is_owned(info.path):
                yield self._read(info.path)

    def put(self, record: BatchRecord) -> None:
        """Write a record."""
        content = json.dumps(asdict(record)).encode()
        retry_store(lambda: self._out.put(self._path(record.key), content))

    def put_results(self, key: str, results: bytes) -> None:
        """Write the lines of a batch's result files."""
        content = gzip.compress(results, mtime=0)
        retry_store(lambda: self._out.put(self._results_path(key), content))

    def results(self, key: str) -> bytes:
        """Return the lines of a batch's result files (DamagedPartError)."""
        path = self._results_path(key)
        try:
            return gzip.decompress(retry_store(lambda: self._out.get(path)))
        except (FileNotFoundError, EOFError, gzip.BadGzipFile) as error:
            raise self._damaged(path, error) from error

    def delete(self, key: str) -> None:
        """Delete a record and its results: its requests are committed, or must be sent again."""
        for path in (self._path(key), self._results_path(key)):  # results without a record are never read
            retry_store(partial(self._out.delete, path))

    def address(self, key: str) -> str:
        """Return where a record is, for messages."""
        return f"{self._out.uri}/{self._path(key)}"

    def unlisted(self, record: BatchRecord, status: int | None) -> str:
        """Return what to do about a batch that only a person can find, as its provider lists none (HTTP `status`)."""
        created = datetime.fromtimestamp(record.created, UTC)
        return (
            f"the provider may have a batch of {len(record.custom_ids):,} requests, sent at {created:%Y-%m-%d %H:%M} "
            f"UTC without a reply, and does not list its batches (HTTP {status}). Look in its console for a batch with "
            f"{KEY} {record.key} in its metadata. If there is one, write its id as `batch_id` into "
            f"{self.address(record.key)}; if there is none, delete that file. Then run the same command again, which "
            "collects the batch, or sends and pays its requests; until then nothing more is sent"
        )

    def unfinished(self, record: BatchRecord) -> set[str]:
        """Return the requests that a record serves which are in no part of the output."""
        missing = set(record.request_ids)
        for folder in record.folders:
            for _, rows in iter_parts(self._out, folder, ["request_id"]):
                missing.difference_update(rows["request_id"].to_pylist())
        return missing

    def _read(self, path: str) -> BatchRecord:
        try:
            raw: dict[str, Any] = json.loads(retry_store(lambda: self._out.get(path)))
            return BatchRecord(**{**raw, **{name: tuple(raw[name]) for name in _LISTS}})
        except (ValueError, TypeError, KeyError) as error:
            raise self._damaged(path, error) from error

    def _damaged(self, path: str, error: Exception) -> DamagedPartError:
        return DamagedPartError(
            f"{self._out.uri}/{path}: not a record of a batch ({type(error).__name__}: {error}); restore it, or delete "
            "it, and the requests of its batch are sent and paid again"
        )

    def _path(self, key: str) -> str:
        return f"{self._folder}/{key}.json"

    def _results_path(self, key: str) -> str:
        return f"{self._folder}/{key}.results.gz"
