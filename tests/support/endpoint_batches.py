"""The batch endpoint of a scripted endpoint: files and batches, with scripted outcomes, and billed requests counted."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable
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

    def to_json(self) -> dict[str, Any]:
        code, message, line = self.script.problem
        errors = [{"code": code, "message": message, "line": line, "object": "error"}]
        return {
            "id": self.batch_id,
            "object": "batch",
            "endpoint": "/v1/chat/completions",
            "input_file_id": self.file_id,
            "completion_window": "24h",
            "created_at": 0,
            "status": self.status,
            "metadata": self.metadata,
            "request_counts": {"total": len(self.lines), "completed": self.done, "failed": 0},
            "errors": {"object": "list", "data": errors} if self.status == "failed" else None,
            **self.files,
        }


class BatchServer:
    """Files and batches behind `/v1/files` and `/v1/batches`; `billed` counts answered requests by custom id."""

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
        self._lock = threading.RLock()

    def handle(self, method: str, path: str, body: bytes, content_type: str) -> tuple[int, bytes]:
        """Return status and body of one request; `path` follows the base address."""
        parts = path.partition("?")[0].strip("/").split("/")
        with self._lock:
            if override := self.override(method, path):
                return override
            reply = self._reply(method, parts, body, content_type)
            if isinstance(reply, bytes):
                return 200, reply
            if reply is None:
                return 404, json.dumps({"error": {"message": f"no such object: {path}", "code": None}}).encode()
            status = reply.pop("_status", 200)
            return status, json.dumps(reply).encode()

    def _reply(self, method: str, parts: list[str], body: bytes, content_type: str) -> dict[str, Any] | bytes | None:
        reply: dict[str, Any] | bytes | None = None
        match (method, parts):
            case ("POST", ["files"]):
                reply = self._upload(body, content_type)
            case ("GET", ["files", name, "content"]):
                self.on_download()
                reply = self.files.get(name)
            case ("POST", ["batches"]):
                reply = self._create(json.loads(body))
            case ("GET", ["batches"]):
                data = [batch.to_json() for batch in reversed(self.batches) if self.is_listed]
                reply = {"object": "list", "data": data, "has_more": False}
            case ("GET", ["batches", name]):
                reply = self._poll(name)
            case ("POST", ["batches", name, "cancel"]):
                reply = self._cancel(name)
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

    def _create(self, body: dict[str, Any]) -> dict[str, Any]:
        refusal = self.refusals.pop(0) if self.refusals else 0
        if 400 <= refusal < 500:
            return {"_status": refusal, "error": {"message": "refused by the script"}}
        number = len(self.batches)
        lines = [json.loads(line) for line in self.files[body["input_file_id"]].splitlines()]
        assert len({line["custom_id"] for line in lines}) == len(lines)
        batch = Batch(
            batch_id=f"batch_{number}",
            file_id=body["input_file_id"],
            metadata=body["metadata"],
            lines=lines,
            script=self.script(number),
        )
        self.batches.append(batch)
        self.on_create()
        if refusal:
            return {"_status": refusal, "error": {"message": "the reply is lost"}}
        return batch.to_json()

    def _poll(self, name: str) -> dict[str, Any] | None:
        batch = self._batch(name)
        self.polls += 1
        self.on_poll(self.polls)
        if batch is None or batch.script.lost:
            return None
        batch.polls += 1
        if batch.status == "in_progress" and batch.polls > batch.script.polls:
            self._end(batch, batch.script.end, batch.script.answered)
        elif batch.status == "cancelling":
            self._end(batch, "cancelled", batch.script.answered)
        return batch.to_json()

    def _cancel(self, name: str) -> dict[str, Any] | None:
        batch = self._batch(name)
        if batch is None:
            return None
        self.cancelled.append(name)
        if batch.status == "in_progress":
            batch.status = "cancelling"
        return batch.to_json()

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
            result = {"custom_id": line["custom_id"], "response": {"status_code": code, "body": body}, "error": None}
            (outputs if code < 400 else errors).append(result)
            if code < 400:
                self.billed[line["custom_id"]] += 1
        for line in batch.lines[count:]:
            if status in ("expired", "cancelled"):
                error = {"code": f"batch_{status}", "message": "ended before"}
                errors.append({"custom_id": line["custom_id"], "response": None, "error": error})
        batch.done = count
        for field_name, lines in (("output_file_id", outputs), ("error_file_id", errors)):
            if lines:
                batch.files[field_name] = self._store(b"\n".join(json.dumps(line).encode() for line in lines))
