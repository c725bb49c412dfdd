"""An S3 server whose answers fail: `python -m tests.support.flaky_s3 SOCKET SHARE SEED`.

A failing request is refused before it is done (503 SlowDown) or done and then answered by 500, as a seeded draw has it,
so that both a lost request and a lost answer happen. With a share of 0 it is a plain one. SOCKET is the number of an
open descriptor that listens already.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from random import Random
from threading import Lock
from typing import Any

from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

from tests.support.whole_bodies import WholeBodies

_BODY = b'<?xml version="1.0"?><Error><Code>%s</Code><Message>injected</Message></Error>'


class Flaky:
    """Fails a share of all requests but for those that make buckets."""

    def __init__(self, app: Any, share: float, seed: int) -> None:
        self._app, self._share, self._draw, self._lock = app, share, Random(seed), Lock()

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        with self._lock:
            fails, before = self._draw.random() < self._share, self._draw.random() < 0.5
        if not fails or environ["PATH_INFO"].count("/") < 2:
            return self._app(environ, start)
        if not before:
            for _ in self._app(environ, lambda *_: lambda _: None):
                pass
        code, name = ("503 Slow Down", b"SlowDown") if before else ("500 Internal Server Error", b"InternalError")
        start(code, [("Content-Type", "application/xml")])
        return [_BODY % name]


if __name__ == "__main__":
    listening, share, seed = sys.argv[1:]
    app = WholeBodies(Flaky(DomainDispatcherApplication(create_backend_app), float(share), int(seed)))
    make_server("127.0.0.1", 0, app, threaded=True, fd=int(listening)).serve_forever()
