"""The batch endpoint of an OpenAI-compatible provider: a file of chat requests, a batch, files of results."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import partial
from typing import IO, Any, Final

from pydantic import BaseModel

from models.engines.endpoints.batch_api import (
    KEY,
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
from models.engines.endpoints.failures import FailedAttempt, FailureScope, reply_text
from models.engines.openai.endpoint import api_address
from models.engines.openai.engine import OpenAIDialect
from models.messages import Failure

_CHAT_PATH: Final = "/v1/chat/completions"
_ENDED: Final = frozenset({"completed", "failed", "expired", "cancelled"})
_NOT_SENT: Final = ("batch_expired", "batch_cancelled", "batch_canceled", "request_expired", "request_cancelled")
"""Codes of requests that the provider never answered, because their batch ended before."""


class _File(BaseModel):
    id: str


class _Counts(BaseModel):
    completed: int = 0
    failed: int = 0


class _Error(BaseModel):
    code: str | int | None = None
    message: str | None = None
    line: int | None = None


class _Errors(BaseModel):
    data: list[_Error] | None = None


class _Batch(BaseModel):
    id: str
    status: str
    request_counts: _Counts | None = None
    output_file_id: str | None = None
    error_file_id: str | None = None
    errors: _Errors | None = None
    metadata: dict[str, Any] | None = None


class _Page(BaseModel):
    data: list[_Batch]
    has_more: bool | None = None


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
    follows_redirects = True

    def line(self, custom_id: str, body: Mapping[str, Any]) -> bytes:
        """Return the line of one request."""
        fields = {name: value for name, value in body.items() if name != "extra_body"}
        fields |= body.get("extra_body") or {}
        return json_line({"custom_id": custom_id, "method": "POST", "url": _CHAT_PATH, "body": fields})

    def upload(self, name: str, content: IO[bytes]) -> str:
        """Upload a file of requests; return its id."""

        def send() -> _File:
            content.seek(0)
            parts: dict[str, Any] = {"files": {"file": (name, content)}, "data": {"purpose": "batch"}}
            return self.ask("upload", "POST", api_address(self.spec, "files"), _File, timeout=TRANSFER_S, **parts)

        return self.repeat(send).id

    def create(self, uploaded: str | IO[bytes], key: str) -> BatchState:
        """Create the batch of an uploaded file."""
        body = {
            "input_file_id": uploaded,
            "endpoint": _CHAT_PATH,
            "completion_window": self.spec.batch_window,
            "metadata": {KEY: key},
        }
        return self._state(self.ask("create", "POST", api_address(self.spec, "batches"), _Batch, json=body))

    def retrieve(self, batch_id: str) -> BatchState | None:
        """Return a batch; None where the provider knows none of this id."""
        address = api_address(self.spec, f"batches/{batch_id}")
        return unless_missing(lambda: self._state(self.repeat(lambda: self.ask("retrieve", "GET", address, _Batch))))

    def find(self, sent: SentBatch) -> BatchState | None:
        """Return the batch that was created under a key; None where there is none."""
        batches = (batch for batch in self._listed() if (batch.metadata or {}).get(KEY) == sent.key)
        return next(map(self._state, batches), None)

    def cancel(self, batch_id: str) -> None:
        """Ask the provider to end a batch."""
        self.repeat(lambda: self.send("cancel", "POST", api_address(self.spec, f"batches/{batch_id}/cancel")))

    def results(self, state: BatchState) -> bytes | None:
        """Return the lines of a batch's result files."""
        addresses = (api_address(self.spec, f"files/{name}/content") for name in state.result_files)
        return unless_missing(lambda: b"\n".join(map(self.download, addresses)))

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

    def _listed(self) -> Iterator[_Batch]:
        after: dict[str, str] = {}
        for _ in range(MOST_LISTED // PAGE):
            address = api_address(self.spec, "batches", limit=str(PAGE), **after)
            page = self.repeat(partial(self.ask, "list", "GET", address, _Page))
            yield from page.data
            if not page.has_more or not page.data:
                return
            after = {"after": page.data[-1].id}

    def _state(self, batch: _Batch) -> BatchState:
        counts = batch.request_counts or _Counts()
        errors = (batch.errors.data if batch.errors else None) or []
        return BatchState(
            batch_id=batch.id,
            status=batch.status,
            is_ended=batch.status in _ENDED,
            done=counts.completed + counts.failed,
            result_files=tuple(name for name in (batch.output_file_id, batch.error_file_id) if name),
            problems=tuple(
                BatchProblem(
                    code=str(error.code or ""),
                    message=reply_text(self.endpoint.redact(error.message or "")),
                    line=error.line,
                )
                for error in errors
            ),
        )
