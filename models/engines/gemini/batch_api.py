"""Batches of the Gemini API: a file of requests, a batch by our name, a file of responses."""

import json
from collections.abc import Mapping
from functools import partial
from os import SEEK_END
from types import MappingProxyType
from typing import IO, Any, Final
from urllib.parse import urlsplit

from pydantic import AliasPath, BaseModel, Field

from models.engines.endpoints.batch_api import (
    TRANSFER_S,
    BatchApi,
    BatchPage,
    BatchProblem,
    BatchRecord,
    BatchState,
    ResultLine,
    field_at,
)
from models.engines.gemini.engine import GeminiDialect, model_path

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
_NOT_SENT: Final = (1, "CANCELLED")  # code and status of requests that the provider never answered


class _Error(BaseModel):
    code: int | str | None = None
    message: str | None = None
    status: str | None = None


class _Batch(BatchRecord):
    name: str
    key: str = field_at("metadata", "displayName", default="")
    stage: str = field_at("metadata", "state", default="")
    successful: int = field_at("metadata", "batchStats", "successfulRequestCount", default=0)
    failed: int = field_at("metadata", "batchStats", "failedRequestCount", default=0)
    responses: str | None = field_at("metadata", "output", "responsesFile", default=None)
    error: _Error | None = None

    @property
    def state(self) -> BatchState:
        stage, error = self.stage.removeprefix("BATCH_STATE_").removeprefix("JOB_STATE_"), self.error
        return BatchState(
            batch_id=self.name,
            status=_STATES.get(stage, stage.lower()),
            is_ended=stage in _STATES,
            done=self.successful + self.failed,
            result_files=(self.responses,) if self.responses else (),
            problems=(BatchProblem(code=str(error.status or error.code), message=error.message or ""),)
            if error
            else (),
        )


class _Page(BatchPage):
    data: list[_Batch] = Field(default=[], alias="operations")
    next_page: str = Field(default="", alias="nextPageToken")

    @property
    def after(self) -> Mapping[str, str]:
        return {"pageToken": self.next_page} if self.next_page else {}


class _File(BaseModel):
    name: str = Field(validation_alias=AliasPath("file", "name"))


class _Line(BaseModel):
    key: str
    response: dict[str, Any] | None = None
    error: _Error | None = None


class GeminiBatchApi(BatchApi):
    """`batchGenerateContent`, `/files` and `/batches`, as a `BatchApi`. Our name for a batch is the one it shows."""

    dialect_type = GeminiDialect
    batch_type = _Batch
    page_type = _Page
    page_size_name = "pageSize"
    batch_path = "/{}"
    cancel_path = "/{}:cancel"
    results_path = "/{}:download"
    results_query = MappingProxyType({"alt": "media"})

    def request_fields(self, custom_id: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what a line of requests holds."""
        return {"key": custom_id, "request": body}

    def upload(self, name: str, content: IO[bytes]) -> str:
        """Upload a file of requests; return its name."""
        return self.repeat(partial(self._upload, name, content))

    def _upload(self, name: str, content: IO[bytes]) -> str:
        size = content.seek(0, SEEK_END)
        content.seek(0)
        address = urlsplit(self.dialect.address("/files"))
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
        ).name

    def create(self, uploaded: str | IO[bytes], key: str) -> BatchState:
        """Create the batch of an uploaded file."""
        body = {"batch": {"displayName": key, "inputConfig": {"fileName": uploaded}}}
        address = self.dialect.address(f"{model_path(self.spec)}:batchGenerateContent")
        return self.state(self.ask("create", "POST", address, _Batch, json=body))

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
