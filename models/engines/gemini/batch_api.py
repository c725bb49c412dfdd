"""Batches of the Gemini API: a file of requests, a batch by our name, a file of responses."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import partial
from os import SEEK_END
from typing import IO, Any, Final
from urllib.parse import urlsplit

from pydantic import BaseModel, Field

from models.engines.endpoints.batch_api import (
    MOST_LISTED,
    PAGE,
    TRANSFER_S,
    BatchApi,
    BatchProblem,
    BatchState,
    ResultLine,
    SentBatch,
    json_line,
    unless_missing,
)
from models.engines.gemini.engine import GeminiDialect, api_address, model_address

_STATES: Final = {
    "SUCCEEDED": "completed",
    "PARTIALLY_SUCCEEDED": "completed",
    "FAILED": "failed",
    "EXPIRED": "expired",
    "CANCELLED": "cancelled",
}
"""Last part of a state, which begins with BATCH_STATE_ or JOB_STATE_, and what it means where it is an end."""
_HTTP: Final[Mapping[object, int]] = dict(
    zip((3, 4, 5, 7, 8, 9, 11, 13, 14, 16), (400, 504, 404, 403, 429, 400, 400, 500, 503, 401), strict=True)
)
"""Status of HTTP by the code of gRPC that errors of requests in a batch have."""
_NOT_SENT: Final = (1, "CANCELLED")
"""Code and status of requests that the provider never answered."""


class _Stats(BaseModel):
    successful: int = Field(default=0, alias="successfulRequestCount")
    failed: int = Field(default=0, alias="failedRequestCount")


class _Output(BaseModel):
    responses: str | None = Field(default=None, alias="responsesFile")


class _Metadata(BaseModel):
    state: str = ""
    name: str = Field(default="", alias="displayName")
    stats: _Stats = Field(default=_Stats(), alias="batchStats")
    output: _Output | None = None


class _Error(BaseModel):
    code: int | str | None = None
    message: str | None = None
    status: str | None = None


class _Batch(BaseModel):
    name: str
    metadata: _Metadata = _Metadata()
    error: _Error | None = None


class _Page(BaseModel):
    operations: list[_Batch] = Field(default=[])
    next_page: str = Field(default="", alias="nextPageToken")


class _Name(BaseModel):
    name: str


class _File(BaseModel):
    file: _Name


class _Line(BaseModel):
    key: str
    response: dict[str, Any] | None = None
    error: _Error | None = None


class GeminiBatchApi(BatchApi):
    """`batchGenerateContent`, `/files` and `/batches`, as a `BatchApi`. Our name for a batch is the one it shows."""

    dialect_type = GeminiDialect

    def line(self, custom_id: str, body: Mapping[str, Any]) -> bytes:
        """Return the line of one request."""
        return json_line({"key": custom_id, "request": body})

    def upload(self, name: str, content: IO[bytes]) -> str:
        """Upload a file of requests; return its name."""
        return self.repeat(partial(self._upload, name, content))

    def _upload(self, name: str, content: IO[bytes]) -> str:
        size = content.seek(0, SEEK_END)
        content.seek(0)
        address = urlsplit(api_address(self.spec, "files"))
        root, _, version = address.path.removesuffix("/files").rpartition("/")
        start = address._replace(path=f"{root}/upload/{version}/files").geturl()
        headers = {
            "X-Goog-Upload-Protocol": "resumable",
            "X-Goog-Upload-Command": "start",
            "X-Goog-Upload-Header-Content-Length": str(size),
            "X-Goog-Upload-Header-Content-Type": "application/jsonl",
        }
        file = {"file": {"displayName": name, "mimeType": "application/jsonl"}}
        reply = self.send("upload", "POST", start, headers={**self._headers, **headers}, json=file)
        return self.ask(
            *("upload", "POST", reply.headers.get("X-Goog-Upload-URL", start), _File),
            content=content,
            headers={"X-Goog-Upload-Command": "upload, finalize", "X-Goog-Upload-Offset": "0"},
            timeout=TRANSFER_S,
        ).file.name

    def create(self, uploaded: str | IO[bytes], key: str) -> BatchState:
        """Create the batch of an uploaded file."""
        body = {"batch": {"displayName": key, "inputConfig": {"fileName": uploaded}}}
        return self._state(
            self.ask("create", "POST", model_address(self.spec, "batchGenerateContent"), _Batch, json=body)
        )

    def retrieve(self, batch_id: str) -> BatchState | None:
        """Return a batch; None where the provider knows none of this name."""
        address = api_address(self.spec, batch_id)
        return unless_missing(lambda: self._state(self.repeat(lambda: self.ask("retrieve", "GET", address, _Batch))))

    def find(self, sent: SentBatch) -> BatchState | None:
        """Return the batch that was created under a key; None where there is none."""
        return next((self._state(batch) for batch in self._listed() if batch.metadata.name == sent.key), None)

    def cancel(self, batch_id: str) -> None:
        """Ask the provider to end a batch."""
        self.repeat(lambda: self.send("cancel", "POST", api_address(self.spec, f"{batch_id}:cancel")))

    def results(self, state: BatchState) -> bytes | None:
        """Return the lines of a batch's responses, empty where it has none."""
        addresses = (api_address(self.spec, f"{name}:download", alt="media") for name in state.result_files)
        return unless_missing(lambda: b"\n".join(map(self.download, addresses)))

    def read_line(self, line: bytes) -> ResultLine:
        """Return the outcome in a line of responses."""
        record = _Line.model_validate_json(line)
        body: dict[str, Any] | None = record.response
        if record.error is not None:
            if record.error.code in _NOT_SENT or record.error.status in _NOT_SENT:
                return record.key, None
            code = record.error.code
            body = {"error": {**record.error.model_dump(exclude_none=True), "code": _HTTP.get(code, code)}}
        return record.key, self.endpoint.read_completion(json.dumps(body).encode()) if body else None

    def _listed(self) -> Iterator[_Batch]:
        query: dict[str, str] = {}
        for _ in range(MOST_LISTED // PAGE):
            address = api_address(self.spec, "batches", pageSize=str(PAGE), **query)
            page = self.repeat(partial(self.ask, "list", "GET", address, _Page))
            yield from page.operations
            if not page.next_page:
                return
            query = {"pageToken": page.next_page}

    def _state(self, batch: _Batch) -> BatchState:
        state = batch.metadata.state.removeprefix("BATCH_STATE_").removeprefix("JOB_STATE_")
        output, error, stats = batch.metadata.output, batch.error, batch.metadata.stats
        message = self.endpoint.redact(error.message or "") if error else ""
        return BatchState(
            batch_id=batch.name,
            status=_STATES.get(state, state.lower()),
            is_ended=state in _STATES,
            done=stats.successful + stats.failed,
            result_files=(output.responses,) if output and output.responses else (),
            problems=(BatchProblem(code=str(error.status or error.code), message=message),) if error else (),
        )
