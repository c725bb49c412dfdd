"""Lines of a batch's files: requests as they are uploaded, and what became of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from models.engines.endpoints.endpoint import Endpoint
from models.engines.openai.endpoint import rejects_max_tokens
from models.messages import Answer, Failure

CHAT_PATH = "/v1/chat/completions"

_NOT_SENT = ("batch_expired", "batch_cancelled", "batch_canceled", "request_expired", "request_cancelled")
"""Codes of requests that the provider never answered, because their batch ended before."""


def request_line(custom_id: str, body: Mapping[str, Any]) -> bytes:
    """Return the line of one request; `body` is of `messages.request_body`."""
    fields = {name: value for name, value in body.items() if name != "extra_body"}
    fields |= body.get("extra_body") or {}
    line = {"custom_id": custom_id, "method": "POST", "url": CHAT_PATH, "body": fields}
    return json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


class _Error(BaseModel):
    code: str | int | None = None
    message: str | None = None


class _Response(BaseModel):
    status_code: int
    body: Any = None


class _Line(BaseModel):
    custom_id: str
    response: _Response | None = None
    error: _Error | None = None


def read_results(content: bytes, endpoint: Endpoint) -> Iterator[tuple[str, Answer | Failure]]:
    """Yield request and outcome of each line of a batch's output or error file.

    Requests that ended with their batch are left out, and so are lines that are no result: they have no outcome yet.
    """
    for text in content.split(b"\n"):
        if not text.strip():
            continue
        try:
            line = _Line.model_validate_json(text)
        except ValidationError:
            continue  # a request without a result is sent again; one that is cut off cannot even be attributed
        outcome = _outcome(line, endpoint)
        if outcome is not None:
            yield line.custom_id, outcome


def needs_other_limit_name(outcome: Answer | Failure) -> bool:
    """Return whether a request was refused only because its limit must be named `max_completion_tokens`."""
    return isinstance(outcome, Failure) and rejects_max_tokens(outcome)


def _outcome(line: _Line, endpoint: Endpoint) -> Answer | Failure | None:
    if line.response is not None:
        body = line.response.body
        text = json.dumps(body)
        if line.response.status_code < 400:
            outcome = endpoint.read_completion(text.encode())
        else:
            error = body.get("error", body) if isinstance(body, Mapping) else None
            outcome = endpoint.failed_status(line.response.status_code, error, text)
        return outcome if isinstance(outcome, Answer) else outcome.failure
    if line.error is None or str(line.error.code) in _NOT_SENT:
        return None
    return Failure(type="batch_request", message=endpoint.redact(f"{line.error.code}: {line.error.message}"))
