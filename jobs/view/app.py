"""The pages and files of the application, each at an address below the key."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from functools import partial
from importlib.resources import files
from typing import Any, Final

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import Route

from jobs.shared.auth import is_authorized
from jobs.view.pages import Pages
from pipelines.benchmarks.records import MediaRef
from pipelines.errors import DatasetError, PipelineError, UnknownNameError
from pipelines.ingest.dataset import Dataset
from pipelines.plan.stress.conditions import is_change
from pipelines.samples.media import find_ref, media_type

RETRY_AFTER: Final = {"Retry-After": "5"}
IN_FLIGHT: Final = 100  # requests, a slow client's until it has read its reply
CHUNK: Final = 1 << 18  # bytes of a reply that are handed to the connection at once


class Gate:
    """Lets a few requests work at once; others wait in order, without a thread, and are refused after a while."""

    def __init__(self, running: int, patience_s: float = 10.0) -> None:
        self._free, self._patience_s = asyncio.Semaphore(running), patience_s

    @contextlib.asynccontextmanager
    async def entered(self) -> AsyncIterator[None]:
        """Wait for a place and hold it; HTTPException (503) when none becomes free in time."""
        try:
            async with asyncio.timeout(self._patience_s):
                await self._free.acquire()
        except TimeoutError:
            raise HTTPException(503, "Too many pages are being made at once; try again in a moment.") from None
        try:
            yield
        finally:
            self._free.release()


_Scope = MutableMapping[str, Any]
_App = Callable[[_Scope, Callable[[], Awaitable[Any]], Callable[[Any], Awaitable[None]]], Awaitable[None]]

_POLICY: Final = (
    b"default-src 'none'; img-src 'self' data:; media-src 'self'; style-src 'self'; script-src 'self'; "
    b"base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_POLICY_NAME: Final = b"content-security-policy"
_HEADERS: Final = [
    (_POLICY_NAME, _POLICY),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
_STYLES: Final = {"view.css": "text/css", "view.js": "text/javascript"}
_NO_KEY: Final = "Not found. The address, with its key, is printed where `vlmsweep view` was started.\n"
_LOCAL: Final = re.compile(r"(?:http://)?(?:127\.0\.0\.1|localhost|\[::1\])(?::[0-9]{1,5})?", re.ASCII)
_NOT_LOCAL: Final = "Refused. The viewer answers at 127.0.0.1 and localhost alone; open the address that it printed.\n"
_TOO_BUSY: Final = "Too many requests at once; try again in a moment.\n"
_PAGES_AT_ONCE: Final = 4
_MEDIA_AT_ONCE: Final = 4  # apart from pages: a clip that is slow to decode delays no list


class Guard:
    """Passes on requests that name this machine and begin with the key; adds headers that keep foreign text harmless.

    A site whose name was bound to 127.0.0.1 sends its own name as Host, and a page of another site its Origin.
    """

    def __init__(self, app: _App, required_hash: str) -> None:
        self._app, self._required_hash, self._in_flight = app, required_hash, 0

    async def __call__(self, scope: _Scope, receive: Callable[[], Awaitable[Any]], send: Any) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                headers = list(message.get("headers", ()))
                own_policy = any(name == _POLICY_NAME for name, _ in headers)
                message["headers"] = [*headers, *(_HEADERS[1:] if own_policy else _HEADERS)]
            # A long reply goes out as it is read, so that a slow client counts as in flight.
            while len(message.get("body", b"")) > CHUNK:
                await send({**message, "body": message["body"][:CHUNK], "more_body": True})
                message["body"] = message["body"][CHUNK:]
            await send(message)

        key = scope["path"].split("/", 2)[1] if "/" in scope["path"] else ""
        if not _is_local(Headers(scope=scope)):
            await PlainTextResponse(_NOT_LOCAL, 403)(scope, receive, send_with_headers)
        elif not is_authorized(f"Bearer {key}", self._required_hash):
            await PlainTextResponse(_NO_KEY, 404)(scope, receive, send_with_headers)
        elif self._in_flight >= IN_FLIGHT:
            await PlainTextResponse(_TOO_BUSY, 503, RETRY_AFTER)(scope, receive, send_with_headers)
        else:
            self._in_flight += 1
            try:
                await self._app({**scope, "root_path": f"/{key}"}, receive, send_with_headers)
            finally:
                self._in_flight -= 1


def _is_local(headers: Headers) -> bool:
    hosts, origins = headers.getlist("host"), headers.getlist("origin")
    return len(hosts) == 1 and all(_LOCAL.fullmatch(name) for name in (*hosts, *origins))


def create_app(pages: Pages, required_hash: str) -> _App:
    """Return the application; all its addresses begin with the key of this hash."""
    page, media = Gate(_PAGES_AT_ONCE), Gate(_MEDIA_AT_ONCE)
    routes = [
        Route("/", _behind(page, _page(pages.overview))),
        Route("/benchmark", _behind(page, _page(pages.benchmark))),
        Route("/samples", _behind(page, _page(pages.samples))),
        Route("/sample", _behind(page, _page(pages.sample))),
        Route("/diff", _behind(page, _page(pages.diff))),
        Route("/text", _behind(page, partial(_text, pages))),
        Route("/media", _behind(media, partial(_media, pages))),
        Route("/frame", _behind(media, partial(_frame, pages))),
        Route("/report/{number:int}/{path:path}", _behind(page, partial(_report, pages))),
        Route("/static/{name}", _static),
    ]
    handlers = dict.fromkeys((HTTPException, PipelineError, Exception), partial(_failure, pages))
    return Guard(Starlette(routes=routes, exception_handlers=handlers), required_hash)


def _behind(gate: Gate, make: Callable[[Request], Response]) -> Callable[[Request], Awaitable[Response]]:
    async def respond(request: Request) -> Response:
        async with gate.entered():
            return await run_in_threadpool(make, request)

    return respond


def _page(render: Callable[[Request], str]) -> Callable[[Request], Response]:
    return lambda request: _html(render(request))


def _html(text: str, status: int = 200) -> Response:
    content, busy = text.encode("utf-8", "replace"), RETRY_AFTER if status == 503 else {}
    return Response(content, status, {"cache-control": "no-store", **busy}, "text/html; charset=utf-8")


def _failure(pages: Pages, request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        return _html(pages.problem(request, str(error.detail)), error.status_code)
    if isinstance(error, PipelineError):
        is_absent = isinstance(error, (DatasetError, UnknownNameError))
        return _html(pages.problem(request, str(error)), 404 if is_absent else 503)
    return _html(pages.problem(request, "An internal error; the terminal shows its traceback."), 500)


def _text(pages: Pages, request: Request) -> Response:
    return PlainTextResponse(pages.full_text(request).encode("utf-8", "replace"))


def _media(pages: Pages, request: Request) -> Response:
    dataset, ref = _requested_media(pages, request)
    file = pages.media.file(dataset, ref)
    return FileResponse(file, media_type=media_type(file, ref))


def _frame(pages: Pages, request: Request) -> Response:
    dataset, ref = _requested_media(pages, request)
    numbers = [request.query_params.get(name, "0") for name in ("frames", "number")]
    if not all(number.isascii() and number.isdigit() and len(number) < 7 for number in numbers):
        raise HTTPException(404, "no such frame")
    change = request.query_params.get("change", "")
    if change and not is_change(change):
        raise HTTPException(404, "no such change")
    content = pages.media.frame(dataset, ref, int(numbers[0]), int(numbers[1]), change)
    return Response(content, media_type="image/jpeg", headers={"cache-control": "private, max-age=3600"})


def _report(pages: Pages, request: Request) -> Response:
    file = pages.report_file(request)
    headers = {"cache-control": "no-store", "content-security-policy": file.policy}
    return Response(file.content, headers=headers, media_type=file.media_type)


def _requested_media(pages: Pages, request: Request) -> tuple[Dataset, MediaRef]:
    query = request.query_params
    dataset, sample = pages.find_sample(query.get("out", ""), query.get("benchmark", ""), query.get("sample_id", ""))
    return dataset, find_ref(sample, query.get("sha256", ""))


def _static(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in _STYLES:
        raise HTTPException(404, "no such file")
    content = files("jobs.view").joinpath("templates", name).read_bytes()
    return Response(content, media_type=_STYLES[name], headers={"cache-control": "no-cache"})
