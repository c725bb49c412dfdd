"""The batch endpoint of an OpenAI-compatible provider: a file of chat requests, a batch, files of results."""

import json
from collections.abc import Mapping
from typing import IO, Any, Final

from pydantic import BaseModel

from models.engines.endpoints.batch_api import (
    KEY,
    TRANSFER_S,
    BatchApi,
    BatchPage,
    BatchProblem,
    BatchRecord,
    BatchState,
    ResultLine,
    field_at,
)
from models.engines.endpoints.failures import FailedAttempt, FailureScope
from models.engines.openai.engine import OpenAIDialect
from models.messages import Failure

_CHAT_PATH: Final = "/v1/chat/completions"
_ENDED: Final = frozenset({"completed", "failed", "expired", "cancelled"})
_NOT_SENT: Final = ("batch_expired", "batch_cancelled", "batch_canceled", "request_expired", "request_cancelled")
"""Codes of requests that the provider never answered, because their batch ended before."""


class _File(BaseModel):
    id: str


class _Error(BaseModel):
    code: str | int | None = None
    message: str | None = None
    line: int | None = None


class _Batch(BatchRecord):
    id: str
    status: str
    key: Any = field_at("metadata", KEY, default=None)
    completed: int = field_at("request_counts", "completed", default=0)
    failed: int = field_at("request_counts", "failed", default=0)
    output_file_id: str | None = None
    error_file_id: str | None = None
    errors: list[_Error] | None = field_at("errors", "data", default=None)

    @property
    def state(self) -> BatchState:
        return BatchState(
            batch_id=self.id,
            status=self.status,
            is_ended=self.status in _ENDED,
            done=self.completed + self.failed,
            result_files=tuple(filter(None, (self.output_file_id, self.error_file_id))),
            problems=tuple(
                BatchProblem(code=str(error.code or ""), message=error.message or "", line=error.line)
                for error in self.errors or ()
            ),
        )


class _Page(BatchPage):
    data: list[_Batch]
    has_more: bool | None = None

    @property
    def after(self) -> Mapping[str, str]:
        return {"after": self.data[-1].id} if self.has_more and self.data else {}


class _Response(BaseModel):
    status_code: int
    body: Any = None


class _Line(BaseModel):
    custom_id: str
    response: _Response | None = None
    error: _Error | None = None


class OpenAIBatchApi(BatchApi):
    """`/files` and `/batches`, as a `BatchApi`. Our name for a batch is in its metadata."""

    dialect_type = OpenAIDialect
    batch_type = _Batch
    page_type = _Page
    results_path = "/files/{}/content"

    def request_fields(self, custom_id: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what a line of requests holds."""
        return {"custom_id": custom_id, "method": "POST", "url": _CHAT_PATH, "body": body}

    def upload(self, name: str, content: IO[bytes]) -> str:
        """Upload a file of requests; return its id."""

        def send() -> _File:
            content.seek(0)
            parts: dict[str, Any] = {"files": {"file": (name, content)}, "data": {"purpose": "batch"}}
            return self.ask("upload", "POST", self.dialect.address("/files"), _File, timeout=TRANSFER_S, **parts)

        return self.repeat(send).id

    def create(self, uploaded: str | IO[bytes], key: str) -> BatchState:
        """Create the batch of an uploaded file."""
        body = {
            "input_file_id": uploaded,
            "endpoint": _CHAT_PATH,
            "completion_window": self.spec.batch_window,
            "metadata": {KEY: key},
        }
        return self.state(self.ask("create", "POST", self.dialect.address("/batches"), _Batch, json=body))

    def read_line(self, line: bytes) -> ResultLine:
        """Return the outcome in a line of an output or error file."""
        result = _Line.model_validate_json(line)
        if result.response is not None:
            body = result.response.body
            text = json.dumps(body)
            if result.response.status_code < 400:
                return result.custom_id, self.endpoint.read_completion(text.encode())
            error = body.get("error", body) if isinstance(body, Mapping) else None
            return result.custom_id, self.endpoint.failed_status(result.response.status_code, error, text)
        if result.error is None or str(result.error.code) in _NOT_SENT:
            return result.custom_id, None
        message = self.endpoint.redact(f"{result.error.code}: {result.error.message}")
        failure = Failure(type="batch_request", message=message)
        return result.custom_id, FailedAttempt(failure=failure, scope=FailureScope.PROMPT, is_transient=False)
