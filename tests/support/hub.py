"""A small Hugging Face hub over real HTTP on loopback: commits of revisions, and the files of one folder a model."""

from __future__ import annotations

import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import unquote

COMMITS = tuple(hashlib.sha1(bytes([number])).hexdigest() for number in range(4))


class LocalHub:
    """Serves `models`: id -> revision -> commit, between `with LocalHub(models) as hub` and its end, at `hub.url`."""

    def __init__(self, models: dict[str, dict[str, str]], files: dict[str, Path] | None = None) -> None:
        self.models, self.files = models, files or {}
        self.status: dict[str, int] = {}  # model -> status of every answer about it
        self.page: bytes | None = None  # answers everything, as the page of a network's login does
        self.silent = threading.Event()  # while it is set, requests are read and not answered
        self.requests: list[str] = []  # paths
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.hub = self
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.silent.clear()
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    hub: LocalHub


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, *args: object) -> None:
        """Silence."""

    def do_GET(self) -> None:
        hub, path = self.server.hub, unquote(self.path.partition("?")[0]).removeprefix("/")
        hub.requests.append(path)
        while hub.silent.is_set():
            threading.Event().wait(0.05)
        if hub.page is not None:
            self._send(200, hub.page, {"Content-Type": "text/html"})
            return
        path = path.removeprefix("api/models/")
        kind = next((kind for kind in ("revision", "tree", "resolve") if f"/{kind}/" in path), "revision")
        model, _, rest = path.partition(f"/{kind}/")
        revision, _, file = (rest, "", "") if kind == "revision" else rest.partition("/")
        if model in hub.status:
            self._send(hub.status[model])
        elif model not in hub.models:
            self._send(401, headers={"X-Error-Code": "RepoNotFound"})
        elif not (commit := self._commit(model, revision)):
            self._send(404, headers={"X-Error-Code": "RevisionNotFound"})
        elif kind == "revision":
            self._send_json({"id": model, "sha": commit, "siblings": []})
        else:  # no folder below the files is listed
            self._send_file(model, commit, file if kind == "resolve" else "")

    def do_HEAD(self) -> None:
        self.do_GET()

    def _commit(self, model: str, revision: str) -> str:
        revisions = self.server.hub.models[model]
        return revisions.get(revision, revision if revision in COMMITS else "")

    def _send_file(self, model: str, commit: str, file: str) -> None:
        path = self.server.hub.files.get(model, Path("/nowhere")) / file
        if not path.is_file():
            self._send(404, headers={"X-Error-Code": "EntryNotFound", "X-Repo-Commit": commit})
            return
        content = path.read_bytes()
        etag = hashlib.sha256(content).hexdigest()
        self._send(200, content, {"X-Repo-Commit": commit, "ETag": f'"{etag}"'})

    def _send_json(self, value: Any) -> None:
        self._send(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _send(self, status: int, content: bytes = b"", headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)
