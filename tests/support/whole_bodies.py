"""An S3 behaviour that the test server lacks: a request with an incomplete body is refused."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from typing import Any

__all__ = ["WholeBodies"]


class WholeBodies:
    """Reads each body before the application does, and counts those that broke off."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self.broken = 0

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        expected = int(environ.get("CONTENT_LENGTH") or 0)
        try:
            body = environ["wsgi.input"].read(expected) if expected else b""
        except ConnectionError:  # ended with an answer of this server's unread: its system resets the connection
            body = b""
        if len(body) < expected:
            self.broken += 1
            start("400 Bad Request", [])
            return [b"IncompleteBody"]
        return self._app({**environ, "wsgi.input": io.BytesIO(body)}, start)
