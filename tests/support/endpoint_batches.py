"""The batch endpoint of a scripted endpoint: files and batches, with scripted outcomes, and billed requests counted."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

__all__ = ["Answer", "Batch", "BatchScript", "BatchServer"]

Answer = Callable[[dict[str, Any]], tuple[int, dict[str, Any]]]
"""Status and body for the body of a chat request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchScript:
    """What the endpoint does with a batch."""

    polls: int = 1
    """It ends at the poll after so many."""
    end: Literal["completed", "expired", "failed", "cancelled"] = "completed"
    answered: float = 1.0
    """Share of its requests, the first ones, that are answered; the others have a line with a code, or none."""
    lost: bool = False
    """Its id is unknown from the first poll on."""
    problem: tuple[str, str, int | None] = ("invalid", "refused by the script", None)
    """Code, message and line of a failed batch."""


@dataclass(slots=True, kw_only=True)
class Batch:
    """One batch."""

    batch_id: str
    file_id: str
    metadata: dict[str, str]
    lines: list[dict[str, Any]]
    script: BatchScript
    polls: int = 0
    status: str = "in_progress"
    done: int = 0
    files: dict[str, str] = field(default_factory=dict)
    """Ids of its result files by the field that names them."""
    created: float = field(default_factory=time.time)
    failed: int = 0
    """Requests that ended with an error."""


class BatchServer:
    """Files and batches behind `/v1/files` and `/v1/batches`; `billed` counts answered requests by custom id."""

    root = "/v1"
    """What comes before the paths that its hooks get."""
    paths: tuple[str, ...] = ("/v1/files", "/v1/batches")
    """How the paths that it serves begin."""

    def __init__(self, answer: Answer, script: Callable[[int], BatchScript] = lambda _: BatchScript()) -> None:
        """`script` gets the number of batches that were created before."""
        self._answer, self.script = answer, script
        self.files: dict[str, bytes] = {}
        self.batches: list[Batch] = []
        self.billed: Counter[str] = Counter()
        self.cancelled: list[str] = []
        self.polls = 0
        self.on_upload: Callable[[], None] = lambda: None
        self.on_create: Callable[[], None] = lambda: None
        """Called when a batch exists, before its reply is sent."""
        self.on_download: Callable[[], None] = lambda: None
        self.on_poll: Callable[[int], None] = lambda _: None
        """Called with the number of polls so far, before the reply."""
        self.override: Callable[[str, str], tuple[int, bytes] | None] = lambda method, path: None
        """Called with method and path of each request; status and body that it returns replace the server's."""
        self.is_listed = True
        """Whether the list shows batches already."""
        self.refusals: list[int] = []
        """Statuses of the next replies to a creation; the batch exists nevertheless where one is 500 or more."""
        self.refusal_message = "refused by the script"
        self._lock = threading.RLock()

    def serves(self, path: str) -> bool:
        """Whether a path is one of its own."""
        return path.startswith(self.paths)

    def handle(
        self, method: str, path: str, body: bytes, headers: Mapping[str, str]
    ) -> tuple[int, bytes, dict[str, str]]:
        """Return status, body and headers of the reply to one request; names of headers are in lower case."""
        path = path.removeprefix(self.root)
        parts = path.partition("?")[0].strip("/").split("/")
        with self._lock:
            if override := self.override(method, path):
                return (*override, {})
            reply = self._reply(method, parts, body, headers)
            if isinstance(reply, bytes):
                return 200, reply, {}
            if reply is None:
                message = {"error": {"message": f"no such object: {path}", "code": None}}
                return 404, json.dumps(message).encode(), {}
            status, more = reply.pop("_status", 200), reply.pop("_headers", {})
            return status, json.dumps(reply).encode(), more

    def _reply(
        self, method: str, parts: list[str], body: bytes, headers: Mapping[str, str]
    ) -> dict[str, Any] | bytes | None:
        reply: dict[str, Any] | bytes | None = None
        match (method, parts):
            case ("POST", ["files"]):
                reply = self._upload(body, headers["content-type"])
            case ("GET", ["files", name, "content"]):
                self.on_download()
                reply = self.files.get(name)
            case ("POST", ["batches"]):
                fields = json.loads(body)
                lines = [json.loads(line) for line in self.files[fields["input_file_id"]].splitlines()]
                reply = self.create(lines, file_id=fields["input_file_id"], metadata=fields["metadata"])
            case ("GET", ["batches"]):
                reply = {"object": "list", "data": self.listed(), "has_more": False}
            case ("GET", ["batches", name]):
                reply = self.poll(name)
            case ("POST", ["batches", name, "cancel"]):
                reply = self.cancel(name)
        return reply

    def _upload(self, body: bytes, content_type: str) -> dict[str, Any]:
        boundary = content_type.partition("boundary=")[2].encode()
        part = next(part for part in body.split(b"--" + boundary) if b"filename=" in part)
        content = part.partition(b"\r\n\r\n")[2].removesuffix(b"\r\n")
        name = self._store(content)
        self.on_upload()
        return {"id": name, "object": "file", "bytes": len(content), "created_at": 0, "purpose": "batch"} | {
            "filename": "requests.jsonl",
            "status": "processed",
        }

    def _store(self, content: bytes) -> str:
        name = f"file-{len(self.files)}"
        self.files[name] = content
        return name

    def listed(self) -> list[dict[str, Any]]:
        """The batches of its list, the newest first."""
        return [self.to_json(batch) for batch in reversed(self.batches) if self.is_listed]

    def create(self, lines: list[dict[str, Any]], *, file_id: str, metadata: dict[str, str]) -> dict[str, Any]:
        """Create a batch of lines, each with `custom_id` and the `body` of a chat request."""
        refusal = self.refusals.pop(0) if self.refusals else 0
        if 400 <= refusal < 500:
            return {"_status": refusal, "error": {"message": self.refusal_message}}
        number = len(self.batches)
        assert len({line["custom_id"] for line in lines}) == len(lines)
        batch = Batch(
            batch_id=f"batch_{number}",
            file_id=file_id,
            metadata=metadata,
            lines=lines,
            script=self.script(number),
        )
        self.batches.append(batch)
        self.on_create()
        if refusal:
            return {"_status": refusal, "error": {"message": "the reply is lost"}}
        return self.to_json(batch)

    def poll(self, name: str) -> dict[str, Any] | None:
        batch = self._batch(name)
        self.polls += 1
        self.on_poll(self.polls)
        if batch is None or batch.script.lost:
            return None
        self.advance(batch)
        return self.to_json(batch)

    def advance(self, batch: Batch) -> None:
        """Count a look at a batch, which may end it."""
        batch.polls += 1
        if batch.status == "in_progress" and batch.polls > batch.script.polls:
            self._end(batch, batch.script.end, batch.script.answered)
        elif batch.status == "cancelling":
            self._end(batch, "cancelled", batch.script.answered)

    def cancel(self, name: str) -> dict[str, Any] | None:
        batch = self._batch(name)
        if batch is None:
            return None
        self.cancelled.append(name)
        if batch.status == "in_progress":
            batch.status = "cancelling"
        return self.to_json(batch)

    def _batch(self, name: str) -> Batch | None:
        return next((batch for batch in self.batches if batch.batch_id == name), None)

    def _end(self, batch: Batch, status: str, answered: float) -> None:
        batch.status = status
        if status == "failed":
            return
        count = round(answered * len(batch.lines))
        outputs, errors = [], []
        for line in batch.lines[:count]:
            code, body = self._answer(line["body"])
            (outputs if code < 400 else errors).append(self.result(line, code, body))
            if code < 400:
                self.billed[line["custom_id"]] += 1
        batch.done, batch.failed = count, len(errors)
        errors += filter(None, (self.unanswered(line["custom_id"], status) for line in batch.lines[count:]))
        self.finish(batch, outputs, errors)

    def to_json(self, batch: Batch) -> dict[str, Any]:
        """A batch as the provider shows it."""
        code, message, line = batch.script.problem
        errors = [{"code": code, "message": message, "line": line, "object": "error"}]
        return {
            "id": batch.batch_id,
            "object": "batch",
            "endpoint": "/v1/chat/completions",
            "input_file_id": batch.file_id,
            "completion_window": "24h",
            "created_at": 0,
            "status": batch.status,
            "metadata": batch.metadata,
            "request_counts": {"total": len(batch.lines), "completed": batch.done, "failed": 0},
            "errors": {"object": "list", "data": errors} if batch.status == "failed" else None,
            **batch.files,
        }

    def result(self, line: Mapping[str, Any], code: int, body: Mapping[str, Any]) -> dict[str, Any]:
        """The line of an answered request."""
        return {"custom_id": line["custom_id"], "response": {"status_code": code, "body": body}, "error": None}

    def unanswered(self, custom_id: str, status: str) -> dict[str, Any] | None:
        """The line of a request that ended with its batch, where there is one."""
        if status not in ("expired", "cancelled"):
            return None
        error = {"code": f"batch_{status}", "message": "ended before"}
        return {"custom_id": custom_id, "response": None, "error": error}

    def finish(self, batch: Batch, outputs: list[dict[str, Any]], errors: list[dict[str, Any]]) -> None:
        """Store the result files of a batch."""
        for field_name, lines in (("output_file_id", outputs), ("error_file_id", errors)):
            if lines:
                batch.files[field_name] = self.store_lines(lines)

    def store_lines(self, lines: list[dict[str, Any]]) -> str:
        """Store a file of lines; return its id."""
        return self._store(b"\n".join(json.dumps(line).encode() for line in lines))
