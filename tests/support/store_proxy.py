"""A proxy before an S3 server that delays and counts requests: `python -m tests.support.store_proxy URL DELAY_S FILE`.

Prints its port. Counts go to a JSON file by kind after each request: `PUT`, `GET`, `HEAD`, `DELETE`, `LIST`, `MEDIA`
for reading a medium of a data set, and `UPLOAD` for what belongs to multipart uploads. A kind ends with ` 404` where
the server had no such object.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from pathlib import Path

from aiohttp import ClientSession, TCPConnector, web
from yarl import URL

MAX_BYTES = 1 << 30
_OWN_HEADERS = ("Transfer-Encoding", "Content-Length", "Connection")
"""Which each connection has of its own."""


def kind(method: str, path: str, query: str) -> str:
    """Return what a request is counted as."""
    if method == "GET" and "/media/" in path:
        return "MEDIA"
    if "uploadId=" in query or query.startswith("uploads"):
        return "UPLOAD"
    return "LIST" if method == "GET" and ("list-type=" in query or "prefix=" in query) else method


def application(upstream: str, delay_s: float, counts_file: Path) -> web.Application:
    """Return the proxy as a web application."""
    counts: Counter[str] = Counter()

    async def forward(request: web.Request) -> web.Response:
        body = await request.read()
        await asyncio.sleep(delay_s)
        url = URL(f"{upstream}{request.raw_path}", encoded=True)
        async with request.app[SESSION].request(request.method, url, headers=request.headers, data=body) as response:
            content = await response.read()
        name = kind(request.method, request.path, request.query_string)
        counts[f"{name} 404" if response.status == web.HTTPNotFound.status_code else name] += 1
        counts_file.write_text(json.dumps(counts))  # noqa: ASYNC240  a few bytes
        answer = web.Response(body=content, status=response.status)
        for header, value in response.headers.items():
            if header not in _OWN_HEADERS:
                answer.headers[header] = value
        if request.method == "HEAD":  # its length is that of the object, not of the empty body
            answer.headers["Content-Length"] = response.headers.get("Content-Length", "0")
        return answer

    async def session(app: web.Application):
        app[SESSION] = ClientSession(auto_decompress=False, connector=TCPConnector(limit=0))
        yield
        await app[SESSION].close()

    app = web.Application(client_max_size=MAX_BYTES)
    app.cleanup_ctx.append(session)
    app.router.add_route("*", "/{path:.*}", forward)
    return app


SESSION = web.AppKey("session", ClientSession)


async def serve(upstream: str, delay_s: float, counts_file: Path) -> None:
    """Serve until the process is ended."""
    runner = web.AppRunner(application(upstream, delay_s, counts_file), access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], float(sys.argv[2]), Path(sys.argv[3])))
