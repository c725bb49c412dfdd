"""UNPIE's picture loader: every form of a picture, and which addresses are downloaded."""

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from pipelines.benchmarks.unpie import download
from pipelines.benchmarks.unpie.download import PictureError, fetch, is_public
from pipelines.benchmarks.unpie.pictures import PictureLoader
from pipelines.ingest.source_folder import Folder
from tests.support.paths import GOLDEN
from tests.support.unpie_source import mirror, picture

GOLDEN_ROWS = GOLDEN / "unpie" / "addresses.jsonl"
ROWS = [json.loads(line) for line in GOLDEN_ROWS.read_text().splitlines()]
PNG = picture("one")


def offline(address: str) -> bytes:
    raise PictureError(f"nobody answers for {address}")


# ------------------------------------------------------------------------------------------------------------ forms


@pytest.mark.parametrize(
    "value",
    [
        PNG,
        {"bytes": PNG, "path": None},
        {"bytes": None, "path": "pictures/one.png"},
        "pictures/one.png",
        "./pictures/one.png",
        "data:image/png;base64," + base64.b64encode(PNG).decode(),
        base64.b64encode(PNG).decode(),
        base64.urlsafe_b64encode(PNG).decode().rstrip("="),
    ],
)
def test_picture_loader_accepts_every_form(tmp_path: Path, value: Any) -> None:
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "one.png").write_bytes(PNG)
    loaded = PictureLoader(Folder(str(tmp_path)), offline).get(value)
    assert (loaded.content, loaded.extension) == (PNG, ".png")


@pytest.mark.parametrize(("form", "extension"), [("JPEG", ".jpg"), ("GIF", ".gif"), ("WEBP", ".webp"), ("BMP", ".bmp")])
def test_extension_follows_the_content(tmp_path: Path, form: str, extension: str) -> None:
    assert PictureLoader(Folder(str(tmp_path)), offline).get(picture("x", form)).extension == extension


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (None, "no picture is given"),
        ("", "no picture is given"),
        ({"bytes": None, "path": None}, "no picture is given"),
        (7, "a int is no picture"),
        ("pictures/absent.png", "no such file"),
        ("../outside.png", "no such file"),
        ("/etc/hostname", "no such file"),
        ("x" * 5000, "no picture that can be decoded"),
        ("data:image/png;base64,@@@", "invalid base64"),
        ("data:text/plain,hello", "no picture that can be decoded"),
        (PNG[:50], "no picture that can be decoded"),
        (b"<html>not found</html>", "no picture that can be decoded"),
        ("https://photos.example.org/a.png", "nobody answers"),
    ],
)
def test_picture_error_says_why_a_picture_is_unavailable(tmp_path: Path, value: Any, why: str) -> None:
    (tmp_path.parent / "outside.png").write_bytes(PNG)
    with pytest.raises(PictureError, match=why):
        PictureLoader(Folder(str(tmp_path)), offline).get(value)


@pytest.mark.parametrize("by", ["sha256", "name"])
def test_mirror_precedes_the_network(tmp_path: Path, by: str) -> None:
    address = "https://photos.example.org/kneaded.png?size=large"
    mirror(tmp_path, [address], by=by)
    assert PictureLoader(Folder(str(tmp_path)), offline).get(address).content == picture(address)


def test_mirrored_file_may_have_an_extension(tmp_path: Path) -> None:
    address = "https://photos.example.org/a"
    mirror(tmp_path, [address])
    (file,) = (tmp_path / "mirror").iterdir()
    file.rename(file.with_suffix(".jpg"))
    assert PictureLoader(Folder(str(tmp_path)), offline).get(address).content == picture(address)


def test_prefetch_downloads_each_address_once(tmp_path: Path) -> None:
    requested: list[str] = []

    def fetcher(address: str) -> bytes:
        requested.append(address)
        if "gone" in address:
            raise PictureError("HTTP 404")
        return picture(address)

    pictures = PictureLoader(Folder(str(tmp_path)), fetcher)
    available, missing = "http://photos.example.org/a.png", "HTTP://photos.example.org/gone.png"
    pictures.prefetch([available, missing, available, None, PNG, "local.png"])
    assert sorted(requested) == sorted([available, missing])
    assert pictures.get(available).content == picture(available)
    with pytest.raises(PictureError, match="HTTP 404"):
        pictures.get(missing)
    assert len(requested) == 2


# --------------------------------------------------------------------------------------------------------- addresses


@pytest.mark.parametrize("row", ROWS, ids=[row["address"] for row in ROWS])
def test_is_public_agrees_with_golden_addresses(row: dict[str, Any]) -> None:
    assert is_public(row["address"]) == row["public"]


class Handler(BaseHTTPRequestHandler):
    """Answers as the requested path says."""

    requested: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.requested.append(self.path)
        name = self.path.strip("/").partition("?")[0]
        if name == "inside":
            self._answer(302, {"Location": "http://inside.test/secret"})
        elif name == "moved":
            self._answer(301, {"Location": "/good%20one.png"})
        elif name == "loop":
            self._answer(302, {"Location": "/loop"})
        elif name.isdigit():
            self._answer(int(name), {})
        elif name == "page":
            self._answer(200, {"Content-Type": "text/html"}, b"<html>")
        elif name == "large":
            self._answer(200, {"Content-Type": "image/png", "Content-Length": "20000001"})
        elif name == "short":
            self._answer(200, {"Content-Type": "image/png", "Content-Length": "5000"}, PNG)
        else:
            self._answer(200, {"Content-Type": "image/png"}, PNG)

    def _answer(self, status: int, headers: dict[str, str], body: bytes = b"") -> None:
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        """Print no log."""


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Start a local server that counts as public; other private addresses stay private."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    Handler.requested.clear()
    real = download.is_public
    monkeypatch.setattr(download, "is_public", lambda address: address == "127.0.0.1" or real(address))
    yield f"http://photos.test:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def resolver(name: str, port: int) -> list[str]:
    del port
    return {"photos.test": ["127.0.0.1"], "inside.test": ["10.0.0.7"], "both.test": ["8.8.8.8", "10.0.0.7"]}[name]


def fetched(address: str, pauses: list[float] | None = None) -> bytes:
    return fetch(address, resolver=resolver, pause=(pauses if pauses is not None else []).append)


def test_fetch_follows_redirects(host: str) -> None:
    assert fetched(f"{host}/good one.png?a=b c") == PNG
    assert fetched(f"{host}/moved") == PNG
    assert Handler.requested == ["/good%20one.png?a=b%20c", "/moved", "/good%20one.png"]


@pytest.mark.parametrize(
    ("path", "why", "attempts"),
    [
        ("404", "HTTP 404", 1),
        ("403", "HTTP 403", 1),
        ("503", "HTTP 503", 3),
        ("429", "HTTP 429", 3),
        ("page", "the content is no picture", 1),
        ("large", "larger than 20 MB", 1),
        ("short", "broke off", 3),
        ("loop", "too many redirects", 6),
        ("inside", "not on the public internet", 1),
    ],
)
def test_fetch_rejects_response(host: str, path: str, why: str, attempts: int) -> None:
    pauses: list[float] = []
    with pytest.raises(PictureError, match=why):
        fetched(f"{host}/{path}", pauses)
    assert len(Handler.requested) == attempts
    assert pauses == ([1.0, 2.0] if attempts == 3 else [])


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("http://inside.test/a.png", "not on the public internet"),
        ("http://both.test/a.png", "not on the public internet"),
        ("ftp://photos.test/a.png", "not an http address"),
        ("http://", "not an http address"),
        ("http://photos.test:99999/a.png", "not a valid address"),
        ("http://[::1/a.png", "not a valid address"),
    ],
)
def test_fetch_refuses_address_before_connecting(address: str, why: str) -> None:
    with pytest.raises(PictureError, match=why):
        fetched(address)


@pytest.mark.parametrize(
    "address", ["http://127.0.0.1:1/a", "http://localhost:1/a", "http://[::1]:1/a", "http://0x7f.1/a"]
)
def test_fetch_refuses_loopback_by_any_name(address: str) -> None:
    with pytest.raises(PictureError, match=r"not on the public internet|is unknown"):
        fetch(address, pause=lambda _: None)


def test_fetch_aborts_a_slow_host(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "TIMEOUT_S", 0.3)
    slow = threading.Event()

    def drip(self: Handler) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "image/png")
        self.end_headers()
        try:
            while not slow.wait(0.1):
                self.wfile.write(b"x")
                self.wfile.flush()
        except OSError:
            return

    monkeypatch.setattr(Handler, "do_GET", drip)
    with pytest.raises(PictureError, match=r"too long|no answer"):
        fetched(f"{host}/slow.png")
    slow.set()
