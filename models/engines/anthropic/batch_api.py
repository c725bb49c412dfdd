"""The Message Batches API: requests in one body, a batch, its results.

A batch has no field for our name. Which one a run created that died at once is seen by its time, its number of
requests and, when it has ended, by the ids of its requests.
"""

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from os import SEEK_END
from typing import IO, Any, Final

from pydantic import AwareDatetime, BaseModel, Field

from models.engines.anthropic.engine import AnthropicDialect
from models.engines.endpoints.batch_api import (
    TRANSFER_S,
    BatchApi,
    BatchPage,
    BatchRecord,
    BatchState,
    ResultLine,
    SentBatch,
)

_HEAD: Final = b'{"requests":['
_TAIL: Final = b"]}"
_EARLIER_S: Final = 300.0  # by which the provider's clock may differ from ours
_LATER_S: Final = 3_600.0  # within which a batch was created, once it was recorded
_DONE: Final = ("succeeded", "errored", "canceled", "expired")


class _Batch(BatchRecord):
    id: str
    created_at: AwareDatetime
    processing_status: str
    request_counts: dict[str, int] = Field(default={})
    archived_at: datetime | None = None

    @property
    def state(self) -> BatchState:
        is_ended = self.processing_status == "ended"
        return BatchState(
            batch_id=self.id,
            status=self.processing_status,
            is_ended=is_ended,
            done=sum(self.request_counts.get(name, 0) for name in _DONE),
            result_files=(self.id,) if is_ended and self.archived_at is None else (),
        )


class _Page(BatchPage):
    data: list[_Batch]
    has_more: bool = False

    @property
    def after(self) -> Mapping[str, str]:
        return {"after_id": self.data[-1].id} if self.has_more and self.data else {}


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
    batch_type = _Batch
    page_type = _Page
    results_path = "/batches/{}/results"

    def request_fields(self, custom_id: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return one request of the body."""
        return {"custom_id": custom_id, "params": body}

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
        sent = {"content": _body(uploaded), "headers": headers, "timeout": TRANSFER_S}
        return self.state(self.ask("create", "POST", self.dialect.address("/batches"), _Batch, **sent))

    def find(self, sent: SentBatch) -> BatchState | None:
        """Return the newest batch that has the requests of a record, without its id while it has not ended; or None."""
        custom_ids = frozenset(sent.custom_ids)
        for batch in self.listed():
            assert isinstance(batch, _Batch)
            state, age = batch.state, batch.created_at.timestamp() - sent.created
            total = state.done + batch.request_counts.get("processing", 0)
            if age < -_EARLIER_S:
                return None
            if age > _LATER_S or batch.id in sent.other_ids or total != len(custom_ids):
                continue
            if not state.is_ended:
                return BatchState(batch_id="", status="undecided")
            if any(name in custom_ids for name, _ in self._lines(state)):
                return state
        return None

    def results(self, state: BatchState) -> bytes | None:
        """Return the lines of a batch's results; None where they are gone, as those of an archived batch are."""
        return super().results(state) if state.result_files else None

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


def _body(lines: IO[bytes]) -> Iterator[bytes]:
    yield _HEAD
    for number, line in enumerate(lines):
        yield (b"," if number else b"") + line.rstrip(b"\n")
    yield _TAIL
