"""The batch endpoints of the Anthropic Messages and Gemini protocols, over the scripted one of chat completions."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from tests.support.endpoint_batches import Batch, BatchServer
from tests.support.endpoint_protocols import ChatProtocol, protocol_of

__all__ = ["SERVERS", "AnthropicBatchServer", "GeminiBatchServer"]

MESSAGES = "/v1/messages"
GENERATE = "/v1beta/models/m:generateContent"
_CODES = {400: 3, 401: 16, 403: 7, 404: 5, 429: 8, 500: 13, 503: 14}


def _protocol(path: str) -> ChatProtocol:
    protocol = protocol_of(path)
    assert protocol
    return protocol


class AnthropicBatchServer(BatchServer):
    """Message Batches: no files, no names, results by the id of the batch."""

    root, paths = MESSAGES, (f"{MESSAGES}/batches",)

    def _reply(
        self, method: str, parts: list[str], body: bytes, headers: Mapping[str, str]
    ) -> dict[str, Any] | bytes | None:
        assert headers["anthropic-version"]
        reply: dict[str, Any] | bytes | None = None
        match (method, parts):
            case ("POST", ["batches"]):
                lines = [self._line(each, headers) for each in json.loads(body)["requests"]]
                self.on_upload()
                reply = self.create(lines, file_id=self._store(body), metadata={})
            case ("GET", ["batches"]):
                reply = {"data": self.listed(), "has_more": False, "first_id": None, "last_id": None}
            case ("GET", ["batches", name]):
                reply = self.poll(name)
            case ("POST", ["batches", name, "cancel"]):
                reply = self.cancel(name)
            case ("GET", ["batches", name, "results"]):
                self.on_download()
                batch = self._batch(name)
                reply = self.files.get(batch.files.get("results", "")) if batch else None
        return reply

    def _line(self, line: Mapping[str, Any], headers: Mapping[str, str]) -> dict[str, Any]:
        assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", line["custom_id"])
        params = line["params"]
        optional = {"temperature": params["temperature"]} if "temperature" in params else {}
        return {
            "custom_id": line["custom_id"],
            "body": _protocol(MESSAGES).to_chat(params, MESSAGES, headers) | optional,
        }

    def listed(self) -> list[dict[str, Any]]:
        for batch in self.batches:  # a run that only lists them sees them end, too
            self.advance(batch)
        return super().listed()

    def to_json(self, batch: Batch) -> dict[str, Any]:
        is_ended = batch.status not in ("in_progress", "cancelling")
        ended = {"succeeded": batch.done - batch.failed, "errored": batch.failed} if is_ended else {}
        left = len(batch.lines) - sum(ended.values())
        return {
            "id": batch.batch_id,
            "type": "message_batch",
            "processing_status": {"cancelling": "canceling", "in_progress": "in_progress"}.get(batch.status, "ended"),
            "request_counts": {"processing": 0, "succeeded": 0, "errored": 0, "canceled": 0, "expired": 0}
            | ended
            | {"expired" if is_ended else "processing": left},
            "created_at": datetime.fromtimestamp(batch.created, UTC).isoformat(),
            "expires_at": datetime.fromtimestamp(batch.created + 86_400, UTC).isoformat(),
            "ended_at": None,
            "archived_at": None,
            "cancel_initiated_at": None,
            "results_url": f"https://elsewhere.invalid/{batch.batch_id}" if is_ended else None,
        }

    def result(self, line: Mapping[str, Any], code: int, body: Mapping[str, Any]) -> dict[str, Any]:
        protocol = _protocol(MESSAGES)
        if code < 400:
            result = {"type": "succeeded", "message": protocol.reply(body)}
        else:
            error = protocol.error(code, body["error"]["message"], None)
            result = {"type": "errored", "error": {**error, "request_id": "req_1"}}
        return {"custom_id": line["custom_id"], "result": result}

    def unanswered(self, custom_id: str, status: str) -> dict[str, Any]:
        return {"custom_id": custom_id, "result": {"type": "canceled" if status == "cancelled" else "expired"}}

    def finish(self, batch: Batch, outputs: list[dict[str, Any]], errors: list[dict[str, Any]]) -> None:
        batch.files["results"] = self.store_lines([*errors, *outputs])  # in no certain order


class GeminiBatchServer(BatchServer):
    """Batches of generateContent: files by resumable upload, a name that is shown, one file of responses."""

    root, paths = "/v1beta", ("/upload/v1beta/files", "/v1beta/files", "/v1beta/batches", "/v1beta/models/")

    def serves(self, path: str) -> bool:
        return super().serves(path) and not path.endswith(":generateContent")

    def _reply(
        self, method: str, parts: list[str], body: bytes, headers: Mapping[str, str]
    ) -> dict[str, Any] | bytes | None:
        reply: dict[str, Any] | bytes | None = None
        match (method, parts):
            case ("POST", ["upload", "v1beta", "files"]):
                reply = self._receive(body, headers)
            case ("POST", ["models", method_name]):
                model, _, action = method_name.partition(":")
                assert action == "batchGenerateContent"
                fields = json.loads(body)["batch"]
                file_id = fields["inputConfig"]["fileName"].removeprefix("files/")
                lines = [self._line(json.loads(line), model) for line in self.files[file_id].splitlines()]
                reply = self.create(lines, file_id=file_id, metadata={"name": fields["displayName"]})
            case ("GET", ["batches"]):
                reply = {"operations": self.listed()}
            case ("GET", ["batches", name]):
                reply = self.poll(name)
            case ("POST", ["batches", name]) if name.endswith(":cancel"):
                reply = self.cancel(name.removesuffix(":cancel"))
            case ("GET", ["files", name]) if name.endswith(":download"):
                self.on_download()
                reply = self.files.get(name.removesuffix(":download"))
        return reply

    def _receive(self, body: bytes, headers: Mapping[str, str]) -> dict[str, Any]:
        if headers["x-goog-upload-command"] == "start":
            address = f"http://{headers['host']}/upload/v1beta/files?upload_id=1"
            return {"_headers": {"X-Goog-Upload-URL": address, "X-Goog-Upload-Status": "active"}}
        assert "x-goog-api-key" not in headers
        name = self._store(body)
        self.on_upload()
        return {"file": {"name": f"files/{name}", "sizeBytes": str(len(body))}}

    def _line(self, line: Mapping[str, Any], model: str) -> dict[str, Any]:
        settings = line["request"]["generationConfig"]
        optional = {name: settings[name] for name in ("temperature", "seed") if name in settings}
        body = _protocol(GENERATE).to_chat(line["request"], GENERATE, {})
        return {"custom_id": line["key"], "body": {**body, **optional, "model": model}}

    def to_json(self, batch: Batch) -> dict[str, Any]:
        states = {"in_progress": "RUNNING", "cancelling": "RUNNING", "completed": "SUCCEEDED"}
        code, message, _ = batch.script.problem
        counts = {"requestCount": len(batch.lines), "successfulRequestCount": batch.done - batch.failed}
        counts |= {"failedRequestCount": batch.failed, "pendingRequestCount": len(batch.lines) - batch.done}
        output = {"output": {"responsesFile": f"files/{batch.files['responses']}"}} if batch.files else {}
        state = states.get(batch.status, batch.status.upper())
        return {
            "name": f"batches/{batch.batch_id}",
            "metadata": {
                "@type": "type.googleapis.com/google.ai.generativelanguage.v1main.GenerateContentBatch",
                "displayName": batch.metadata["name"],
                "state": f"BATCH_STATE_{state}",
                "batchStats": {name: str(count) for name, count in counts.items() if count},
                **output,
            },
            **({"done": True} if state != "RUNNING" else {}),
            **({"error": {"code": 3, "status": code, "message": message}} if batch.status == "failed" else {}),
        }

    def result(self, line: Mapping[str, Any], code: int, body: Mapping[str, Any]) -> dict[str, Any]:
        if code < 400:
            return {"key": line["custom_id"], "response": _protocol(GENERATE).reply(body)}
        return {"key": line["custom_id"], "error": {"code": _CODES[code], "message": body["error"]["message"]}}

    def unanswered(self, custom_id: str, status: str) -> dict[str, Any] | None:
        return {"key": custom_id, "error": {"code": 1, "message": "ended before"}} if status == "cancelled" else None

    def finish(self, batch: Batch, outputs: list[dict[str, Any]], errors: list[dict[str, Any]]) -> None:
        batch.files["responses"] = self.store_lines([*errors, *outputs])


SERVERS: dict[str, type[BatchServer]] = {
    "openai": BatchServer,
    "anthropic": AnthropicBatchServer,
    "gemini": GeminiBatchServer,
}
