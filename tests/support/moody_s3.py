"""An S3 server that refuses requests with the error code in a file: `python -m tests.support.moody_s3 SOCKET FILE`.

The file's one line is the error code that every request is answered with; while there is none the server works. With
AccessDenied only what writes objects is refused, as to a user who may read alone.
SOCKET is the number of an open descriptor that listens already.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

_STATUS = {
    "ExpiredToken": "400 Bad Request",
    "SlowDown": "503 Slow Down",
    "RequestTimeTooSkewed": "403 Forbidden",
    "AccessDenied": "403 Forbidden",
}


class RefusingS3:
    """Reads its mode from a file before each request."""

    def __init__(self, app: Any, mode: Path) -> None:
        self._app, self._mode = app, mode

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        code = self._mode.read_text().strip() if self._mode.exists() else ""
        if not code or (code == "AccessDenied" and environ["REQUEST_METHOD"] in ("GET", "HEAD")):
            return self._app(environ, start)
        start(_STATUS[code], [("Content-Type", "application/xml")])
        if environ["REQUEST_METHOD"] == "HEAD":
            return []  # and so without the code, as S3 answers
        return [f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>scripted</Message></Error>'.encode()]


if __name__ == "__main__":
    listening, file = sys.argv[1:]
    app = RefusingS3(DomainDispatcherApplication(create_backend_app), Path(file))
    make_server("127.0.0.1", 0, app, threaded=True, fd=int(listening)).serve_forever()
