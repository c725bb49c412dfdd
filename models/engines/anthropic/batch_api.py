"""The Message Batches API: requests in one body, a batch, its results.

A batch has no field for our name. Which one a run created that died at once is seen by its time, its number of
requests and, when it has ended, by the ids of its requests.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import partial
from os import SEEK_END
from typing import IO, Any, Final

from pydantic import AwareDatetime, BaseModel

from models.engines.anthropic.engine import AnthropicDialect, request_address
from models.engines.endpoints.batch_api import (
    MOST_LISTED,
    PAGE,
    TRANSFER_S,
    BatchApi,
    BatchState,
    ResultLine,
    SentBatch,
    json_line,
    unless_missing,
)

_HEAD: Final = b'{"requests":['
_TAIL: Final = b"]}"
_EARLIER_S: Final = 300.0  # by which the provider's clock may differ from ours
_LATER_S: Final = 3_600.0  # within which a batch was created, once it was recorded


class _Counts(BaseModel):
    processing: int = 0
    succeeded: int = 0
    errored: int = 0
    canceled: int = 0
    expired: int = 0


class _Batch(BaseModel):
    id: str
    created_at: AwareDatetime
    processing_status: str
    request_counts: _Counts = _Counts()
    archived_at: datetime | None = None


class _Page(BaseModel):
    data: list[_Batch]
    has_more: bool = False


class _Result(BaseModel):
    type: str
    message: dict[str, Any] | None = None
    error: dict[str, Any] | None = None


class _Line(BaseModel):
    custom_id: str
    result: _Result


class AnthropicBatchApi(BatchApi):
    """`/v1/messages/batches`, as a `BatchApi`."""

    dialect_type = AnthropicDialect

    def line(self, custom_id: str, body: Mapping[str, Any]) -> bytes:
        """Return one request of the body."""
        return json_line({"custom_id": custom_id, "params": body})

    def upload(self, name: str, content: IO[bytes]) -> IO[bytes]:
        """Return the content: the API takes no files."""
        del name
        return content

    def create(self, uploaded: str | IO[bytes], key: str) -> BatchState:
        """Create a batch of the requests in a file."""
        del key
        assert not isinstance(uploaded, str)
        # Its lines and the commas between them: a comma takes the place of a line break, except for the last one.
        size = len(_HEAD) + uploaded.seek(0, SEEK_END) - 1 + len(_TAIL)
        uploaded.seek(0)
        headers = {**self._headers, "Content-Type": "application/json", "Content-Length": str(size)}
        address = request_address(self.spec, "/batches")
        batch = self.ask(
            "create", "POST", address, _Batch, content=_body(uploaded), headers=headers, timeout=TRANSFER_S
        )
        return _state(batch)

    def retrieve(self, batch_id: str) -> BatchState | None:
        """Return a batch; None where the provider knows none of this id."""
        address = request_address(self.spec, f"/batches/{batch_id}")
        return unless_missing(lambda: _state(self.repeat(lambda: self.ask("retrieve", "GET", address, _Batch))))

    def find(self, sent: SentBatch) -> BatchState | None:
        """Return the newest batch that has the requests of a record, without its id while it has not ended; or None."""
        custom_ids = frozenset(sent.custom_ids)
        for batch in self._listed(sent.created):
            state = _state(batch)
            if batch.id in sent.other_ids or _total(batch.request_counts) != len(custom_ids):
                continue
            if not state.is_ended:
                return BatchState(batch_id="", status="undecided")
            if any(name in custom_ids for name, _ in self._lines(state)):
                return state
        return None

    def cancel(self, batch_id: str) -> None:
        """Ask the provider to end a batch."""
        address = request_address(self.spec, f"/batches/{batch_id}/cancel")
        self.repeat(lambda: self.send("cancel", "POST", address))

    def results(self, state: BatchState) -> bytes | None:
        """Return the lines of a batch's results; None where they are gone."""
        if not state.result_files:
            return None
        address = request_address(self.spec, f"/batches/{state.result_files[0]}/results")
        return unless_missing(lambda: self.download(address))

    def read_line(self, line: bytes) -> ResultLine:
        """Return the outcome in a line of results."""
        record = _Line.model_validate_json(line)
        body = record.result.message or record.result.error
        # Those of type `canceled` and `expired` have neither.
        return record.custom_id, self.endpoint.read_completion(json.dumps(body).encode()) if body else None

    def _lines(self, state: BatchState) -> Iterator[ResultLine]:
        for line in (self.results(state) or b"").split(b"\n"):
            if line.strip():
                yield self.read_line(line)

    def _listed(self, created: float) -> Iterator[_Batch]:
        """Yield the batches that were created about this time, the newest first."""
        after: dict[str, str] = {}
        for _ in range(MOST_LISTED // PAGE):
            address = request_address(self.spec, "/batches", limit=str(PAGE), **after)
            page = self.repeat(partial(self.ask, "list", "GET", address, _Page))
            for batch in page.data:
                age = batch.created_at.timestamp() - created
                if age < -_EARLIER_S:
                    return
                if age <= _LATER_S:
                    yield batch
            if not page.has_more or not page.data:
                return
            after = {"after_id": page.data[-1].id}


def _total(counts: _Counts) -> int:
    return counts.processing + _done(counts)


def _done(counts: _Counts) -> int:
    return counts.succeeded + counts.errored + counts.canceled + counts.expired


def _state(batch: _Batch) -> BatchState:
    is_ended = batch.processing_status == "ended"
    return BatchState(
        batch_id=batch.id,
        status=batch.processing_status,
        is_ended=is_ended,
        done=_done(batch.request_counts),
        result_files=(batch.id,) if is_ended and batch.archived_at is None else (),
    )


def _body(lines: IO[bytes]) -> Iterator[bytes]:
    yield _HEAD
    for number, line in enumerate(lines):
        yield (b"," if number else b"") + line.rstrip(b"\n")
    yield _TAIL
