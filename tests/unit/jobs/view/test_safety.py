"""Nothing is shown without the key, nothing outside the outputs and data, and foreign text stays text."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

import duckdb
import pytest
from PIL import Image
from starlette.testclient import TestClient

from jobs.view.index import Index
from pipelines.benchmarks.records import MediaRef
from pipelines.samples.media import media_type
from pipelines.storage.store import Store
from tests.support.viewer_output import HOSTILE, write_output


@pytest.mark.parametrize(
    "path", ["/", "//", "/samples", "/wrong/", "/secre/", "/secrets/", "/static/view.css", "/%2e/"]
)
def test_nothing_is_shown_without_the_key(client: TestClient, path: str) -> None:
    response = client.get(f"http://127.0.0.1{path}")
    assert response.status_code == 404
    assert "vlmsweep view" in response.text
    assert "secret" not in response.text


def test_nothing_can_be_sent(client: TestClient) -> None:
    assert [client.request(method, "samples").status_code for method in ("POST", "PUT", "DELETE")] == [405] * 3


ROUTES = {
    "": 200, "benchmark?name=maia": 200, "samples": 200, "sample?sample_id=x": 404, "diff": 404, "text": 404,
    "media": 404, "frame": 404, "report/0/index.html": 404, "static/view.css": 200, "no-such": 404,
    "//127.0.0.1/wrong/": 404,
}  # fmt: skip


@pytest.mark.parametrize("path", ROUTES)
def test_headers_keep_foreign_text_harmless(client: TestClient, path: str) -> None:
    response = client.get(f"http:{path}" if path.startswith("//") else path)
    assert response.status_code == ROUTES[path]
    headers = response.headers
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert (headers["x-content-type-options"], headers["referrer-policy"]) == ("nosniff", "no-referrer")
    assert headers["cross-origin-resource-policy"] == "same-origin"


def test_every_route_is_among_those_whose_headers_are_tested(client: TestClient) -> None:
    routes = {route.path.partition("{")[0].strip("/") for route in client.app._app.routes}  # type: ignore[attr-defined]
    assert routes <= {path.partition("?")[0].partition("/")[0] for path in ROUTES}


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:8001", "localhost:9000", "[::1]:8001"])
def test_names_of_this_machine_are_answered(client: TestClient, host: str) -> None:
    assert client.get("", headers={"host": host}).status_code == 200
    assert client.get("", headers={"host": host, "origin": f"http://{host}"}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "attacker.example"},
        {"host": "attacker.example:8001"},
        {"host": "127.0.0.1.attacker.example"},
        {"host": "localhost.attacker.example:8001"},
        {"host": "attacker.example/127.0.0.1"},
        {"host": "127.0.0.1\u0663"},
        {"host": ""},
        {"origin": "http://attacker.example"},
        {"origin": "https://127.0.0.1.attacker.example"},
        {"origin": "null"},
    ],
)
def test_other_names_and_origins_are_refused(client: TestClient, headers: dict[str, str]) -> None:
    response = client.get("", headers={name: value.encode() for name, value in headers.items()})  # type: ignore[misc]
    assert (response.status_code, "127.0.0.1 and localhost alone" in response.text) == (403, True)
    assert "frame-ancestors 'none'" in response.headers["content-security-policy"]


@pytest.mark.parametrize(
    "path",
    ["static/..%2f..%2f..%2fpyproject.toml", "static/%2e%2e/app.py", "static//etc/passwd",
     "media?out=results&benchmark=maia&sample_id=video1/Sentiment_A&sha256=../../../../etc/passwd",
     "media?out=results&benchmark=../../..&sample_id=x&sha256=y",
     "media?out=../results&benchmark=maia&sample_id=x&sha256=y",
     "frame?out=results&benchmark=maia&sample_id=video1/Sentiment_A&sha256=/etc/passwd&frames=1",
     "text?out=results&model=../../etc/passwd", "benchmark?name=../../etc"],
)  # fmt: skip
def test_no_path_of_a_visitor_is_opened(client: TestClient, path: str) -> None:
    response = client.get(path)
    assert response.status_code == 404
    assert "root:" not in response.text


def test_link_out_of_the_data_folder_is_not_followed(out: str, opened: Any, maia_data: str, tmp_path: Path) -> None:
    import shutil

    data = Path(shutil.copytree(maia_data, tmp_path / "data"))
    client = opened(out, data=str(data))
    page = html.unescape(client.get(html.unescape(first_item(client, "samples?task=oevqa"))).text)
    clip = re.search(r'src="/secret/(media\?[^"]+)"', page)[1]
    assert client.get(clip).status_code == 200
    secret = tmp_path / "secret.mp4"
    secret.write_bytes(b"outside")
    for file in (data / "maia" / "media").iterdir():
        file.unlink()
        file.symlink_to(secret)
    response = client.get(clip)
    assert response.status_code == 404
    assert "leads out of the data" in html.unescape(response.text)


@pytest.mark.parametrize(
    "content",
    [
        b"<!doctype html><script>window.hacked = 1</script>",
        b'<svg xmlns="http://www.w3.org/2000/svg"><script>window.hacked = 1</script></svg>',
        b"#EXTM3U\n/etc/passwd\n",
        b"",
    ],
)
def test_what_is_no_medium_is_kept(out: str, opened: Any, maia_data: str, tmp_path: Path, content: bytes) -> None:
    import shutil

    data = Path(shutil.copytree(maia_data, tmp_path / "data"))
    client = opened(out, data=str(data))
    page = html.unescape(client.get(html.unescape(first_item(client, "samples?task=oevqa"))).text)
    clip = re.search(r'src="/secret/(media\?[^"]+)"', page)[1]
    served = client.get(clip)
    assert (served.status_code, served.headers["content-type"]) == (200, "video/mp4")
    for file in (data / "maia" / "media").iterdir():
        file.write_bytes(content)
    response = client.get(clip)
    assert (response.status_code, response.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert "hacked" not in response.text


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "AVIF"])
def test_picture_is_served_as_what_it_is(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "picture.svg"
    Image.new("RGB", (8, 8)).save(file, kind)
    ref = MediaRef(role="a", kind="image", sha256="0", extension=".svg", bytes=0, width=8, height=8)
    assert media_type(file, ref) == f"image/{kind.lower()}"


def first_item(client: TestClient, path: str) -> str:
    """Return the address of a list's first item."""
    return re.search(r'class="open" href="/secret/([^"]+)"', client.get(path).text)[1]


def test_hostile_text_stays_text(maia_data: str, opened: Any, tmp_path: Path) -> None:
    out = write_output(
        str(tmp_path / "out"), maia_data, ["<b>m</b>"], lambda *_: {"output": HOSTILE, "answer": HOSTILE}
    )
    client = opened(out)
    for path in ("", "samples", "samples?q=<script>", first_item(client, "samples")):
        page = client.get(html.unescape(path)).text
        assert re.findall(r"<script[^>]*>", page) == ['<script src="/secret/static/view.js" defer>']
        assert "<img src=x" not in page
        assert "<b>m</b>" not in page
        assert "\u202e" not in page


def test_long_answer_is_cut_and_its_whole_is_plain_text(maia_data: str, opened: Any, tmp_path: Path) -> None:
    long = "<b>" + "x" * 1_000_000
    out = write_output(
        str(tmp_path / "out"), maia_data, ["m"], lambda _m, row: {"output": long if row.task == "oevqa" else "short"}
    )
    client = opened(out)
    assert len(client.get("samples").text) < 100_000
    page = client.get(html.unescape(first_item(client, "samples?task=oevqa"))).text
    assert len(page) < 60_000
    assert "8,000 of 1,000,003 characters" in page
    whole = client.get(html.unescape(re.search(r'href="/secret/(text\?[^"]+)"', page)[1]))
    assert (whole.text, whole.headers["content-type"]) == (long, "text/plain; charset=utf-8")


def test_index_reads_no_file_and_cannot_be_opened_up(tmp_path: Path) -> None:
    index = Index(tmp_path)
    (tmp_path / "x.csv").write_text("a\n1\n")
    for query in (
        f"SELECT * FROM read_csv('{tmp_path}/x.csv')",
        f"COPY answers TO '{tmp_path}/y.csv'",
        f"ATTACH '{tmp_path}/z.db'",
        "SET enable_external_access = true",
        "SET memory_limit = '99GB'",
        "INSTALL httpfs",
    ):
        with pytest.raises(duckdb.Error):
            index.rows(query)
    index.close()


def test_search_text_is_never_part_of_a_query(client: TestClient) -> None:
    for text in ("' OR 1=1 --", '"; DROP TABLE answers; --', "%", "_", "\\"):
        page = client.get("samples", params={"q": text, "model": text}).text
        assert ">0 items" in page
    assert ">0 items" not in client.get("samples").text


def test_outputs_and_data_stay_as_they_are(out: str, maia_data: str, opened: Any) -> None:
    before = snapshot(out), snapshot(maia_data)
    client = opened(out)
    for path in ("", "samples?q=a", first_item(client, "samples"), "benchmark?name=maia"):
        assert client.get(html.unescape(path)).status_code == 200
    assert (snapshot(out), snapshot(maia_data)) == before


def snapshot(folder: str) -> dict[str, tuple[int, int]]:
    return {info.path: (info.size, Path(folder, info.path).stat().st_mtime_ns) for info in Store(folder).list()}
