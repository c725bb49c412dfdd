"""Records of batches in the output, by which a killed run finds again what it has sent."""

import gzip
import hashlib
import json
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from models.engines.endpoints.batch_api import KEY
from pipelines.errors import DamagedPartError
from pipelines.storage.errors import retry_store
from pipelines.storage.local_store import is_owned
from pipelines.storage.parts import iter_parts, safe_model
from pipelines.storage.store import Store

FOLDER = "batches"
_CHECKSUM = "sha256"
_LISTS = ("custom_ids", "request_ids", "folders", "omitted")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRecord:
    """One batch: written before it is created at the provider, again with its id, and again when it has ended."""

    key: str  # our name for it, in its metadata at the provider
    created: float  # when it was recorded, in seconds since the epoch
    custom_ids: tuple[str, ...]  # its requests, in the order of the lines of its file
    request_ids: tuple[str, ...]  # requests of the plan that it serves
    folders: tuple[str, ...]  # where the parts of these requests are committed
    dollars: float = 0.0  # what it may cost at the most, estimated
    omitted: tuple[str, ...] = ()  # parameters that were refused before, and left out of its requests
    batch_id: str = ""  # the provider's name; '' while it is unknown whether the provider has it
    is_ended: bool = False  # its results are in the output
    results: str = ""  # SHA-256 of the results; '' before it has ended


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
        content = json.dumps({**asdict(record), _CHECKSUM: _checksum(record)}).encode()
        retry_store(lambda: self._out.put(self._path(record.key), content))

    def put_results(self, key: str, results: bytes) -> str:
        """Write the lines of a batch's result files; return their SHA-256."""
        content = gzip.compress(results, mtime=0)
        retry_store(lambda: self._out.put(self._results_path(key), content))
        return hashlib.sha256(results).hexdigest()

    def results(self, record: BatchRecord) -> bytes:
        """Return the lines of a batch's result files (DamagedPartError)."""
        path = self._results_path(record.key)
        try:
            content = gzip.decompress(retry_store(lambda: self._out.get(path)))
        except (EOFError, OSError, zlib.error) as error:  # also where it is gone
            raise DamagedPartError(f"{self._out.uri}/{path}: {error}") from error
        if record.results not in ("", hashlib.sha256(content).hexdigest()):
            raise DamagedPartError(f"{self._out.uri}/{path}: these are not the results of its batch")
        return content

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
            checksum = raw.pop(_CHECKSUM, None)
            lists = {name: tuple(raw[name]) for name in _LISTS if name in raw}
            record = BatchRecord(**{**raw, **lists})
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise self._damaged(path, f"{type(error).__name__}: {error}") from error
        # A person writes the id of a batch that was found by hand, next to the checksum of a record without one.
        if checksum not in (None, _checksum(record), _checksum(replace(record, batch_id=""))):
            raise self._damaged(path, "its checksum does not match")
        if self._path(record.key) != path:
            raise self._damaged(path, f"it is that of batch {record.key}")
        return record

    def _damaged(self, path: str, problem: str) -> DamagedPartError:
        return DamagedPartError(
            f"{self._out.uri}/{path}: not a record of a batch ({problem}); restore it, or delete it, and the requests "
            "of its batch are sent and paid again"
        )

    def _path(self, key: str) -> str:
        return f"{self._folder}/{key}.json"

    def _results_path(self, key: str) -> str:
        return f"{self._folder}/{key}.results.gz"


def _checksum(record: BatchRecord) -> str:
    return hashlib.sha256(json.dumps(asdict(record), sort_keys=True).encode()).hexdigest()
