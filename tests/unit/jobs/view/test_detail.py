from __future__ import annotations

import asyncio
import base64
import hashlib
import html
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient

from jobs.shared.auth import key_hash
from jobs.view.app import CHUNK, IN_FLIGHT, Gate, Guard
from jobs.view.detail import ShownAnswer
from jobs.view.index import Index
from pipelines.errors import StoreError
from pipelines.plan.options import SweepOptions
from pipelines.plan.run_manifest import RunManifest, save_run
from pipelines.samples.outputs import Output
from pipelines.storage.store import Store
from tests.support.viewer_output import HOSTILE, SAMPLE, write_report


@pytest.mark.parametrize(
    ("engine", "reason"), [("random", "The judge accepted it, tossing a coin."), ("openai", "The judge accepted it.")]
)
def test_a_judge_that_tosses_a_coin_is_named_so(tmp_path: Path, engine: str, reason: str) -> None:
    store = Store(str(tmp_path))
    save_run(store, RunManifest(), RunManifest(sweep=SweepOptions(judge="j"), models={"j": {"engine": engine}}))
    row = {"outcome": "right", "judge": "accepted"}
    assert ShownAnswer(label="m", output=Output(0, "out", store, ""), row=row).reason == reason


SCOPE = {"type": "http", "method": "GET", "path": "/secret/", "headers": [(b"host", b"127.0.0.1:8001")]}


def test_gate_lets_a_few_work_and_refuses_who_waits_too_long() -> None:
    async def visit() -> tuple[int, list[int]]:
        gate, leave, inside, most, refused = Gate(2, patience_s=0), asyncio.Event(), 0, 0, []

        async def work() -> None:
            nonlocal inside, most
            try:
                async with gate.entered():
                    inside += 1
                    most = max(most, inside)
                    await leave.wait()
                    inside -= 1
            except HTTPException as error:
                refused.append(error.status_code)
                leave.set()

        await asyncio.gather(*(work() for _ in range(5)))
        async with gate.entered():  # places are given back
            return most, refused

    assert asyncio.run(visit()) == (2, [503] * 3)


async def statuses(count: int, body: bytes = b"page") -> tuple[list[int], list[int]]:
    """Return the status of each of so many requests, whose application answers when all have come, and body sizes."""
    come, all_come, starts, sizes = 0, asyncio.Event(), [], []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await all_come.wait()
        await PlainTextResponse(body)(scope, receive, send)

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            starts.append(message["status"])
        else:
            sizes.append(len(message["body"]))

    async def request() -> None:
        nonlocal come
        come += 1
        if come == count:
            all_come.set()
        await guard(dict(SCOPE), lambda: asyncio.sleep(0), send)

    guard = Guard(app, key_hash("secret"))
    await asyncio.gather(*(request() for _ in range(count)))
    return starts, sizes


def test_requests_beyond_the_limit_are_refused_and_long_replies_leave_in_chunks() -> None:
    starts, _ = asyncio.run(statuses(IN_FLIGHT + 3))
    assert sorted(starts) == [200] * IN_FLIGHT + [503] * 3
    _, sizes = asyncio.run(statuses(1, b"x" * (2 * CHUNK + 5)))
    assert sizes == [CHUNK, CHUNK, 5]


def test_query_beyond_the_memory_is_a_sentence_and_the_next_one_works(tmp_path: Path) -> None:
    index = Index(tmp_path)
    with pytest.raises(StoreError, match=r"no room .*400MB.*try again"):
        index.rows("SELECT list(repeat('x', 1000) || range) FROM range(2000000)")
    assert index.rows("SELECT 1 AS n") == [{"n": 1}]
    index.close()


Open = Callable[..., TestClient]


@pytest.fixture
def reported(copied: str, opened: Open) -> tuple[TestClient, str]:
    """The viewer over an output with a report, and where that is."""
    write_report(copied, "good")
    return opened(copied), copied


def links(page: str) -> dict[str, str]:
    """Return text or label -> address, below the key, of the viewer's links."""
    matches = re.findall(r'<a class="viewer" href="/secret/([^"]+)"(?: aria-label="([^"]+)")?>([^<]+)</a>', page)
    return {label or text: html.unescape(address) for address, label, text in matches}


def test_page_of_the_report_leads_to_samples_and_answers(reported: tuple[TestClient, str]) -> None:
    client, _ = reported
    assert 'href="/secret/report/0/index.html"' in client.get("").text
    to = links(client.get("report/0/benchmark-maia.html").text)
    assert set(to) == {"Samples and answers", "answers of good", "Answers of all models"}
    sample = client.get(to["Answers of all models"])
    assert sample.status_code == 200
    assert "poor" in sample.text
    assert SAMPLE in sample.text
    listed = client.get(to["answers of good"])
    assert listed.status_code == 200
    assert {"benchmark=maia", "model=good"} <= set(to["answers of good"].partition("?")[2].split("&"))
    assert "unknown" not in str(to)


def test_report_opened_as_a_file_has_no_link_of_the_viewer(reported: tuple[TestClient, str]) -> None:
    _, out = reported
    page = (Path(out) / "report" / "benchmark-maia.html").read_text()
    assert "<!-- view?" in page
    assert links(page) == {}
    assert "sample?" not in re.sub(r"<!--.*?-->", "", page)


@pytest.mark.parametrize(
    ("name", "kind"), [("tables/t.csv", "text/csv"), ("metrics.json", "application/json"), ("report.md", "text/plain")]
)
def test_files_beside_the_pages_are_served_as_they_are(reported: tuple[TestClient, str], name: str, kind: str) -> None:
    client, out = reported
    response = client.get(f"report/0/{name}")
    assert response.headers["content-type"].startswith(kind)
    assert response.content == (Path(out) / "report" / name).read_bytes()


@pytest.mark.parametrize(
    "path",
    ["report/0/../run.json", "report/0/%2e%2e/run.json", "report/0/..%2frun.json", "report/0/tables/..%2f..%2frun.json",
     "report/0//etc/passwd", "report/0/.hidden.json", "report/0/part.parquet", "report/0/no-such.html", "report/0/",
     "report/1/index.html", "report/x/index.html"],
)  # fmt: skip
def test_nothing_outside_the_report_is_served(reported: tuple[TestClient, str], path: str) -> None:
    client, out = reported
    for name in (".hidden.json", "part.parquet"):
        (Path(out) / "report" / name).write_text("secret content")
    response = client.get(path)
    assert response.status_code == 404
    assert "secret content" not in response.text
    assert "entries" not in response.text


def test_link_out_of_the_report_s_folder_is_not_followed(reported: tuple[TestClient, str]) -> None:
    client, out = reported
    (Path(out) / "report" / "metrics.json").unlink()
    (Path(out) / "report" / "metrics.json").symlink_to(Path(out) / "run.json")
    response = client.get("report/0/metrics.json")
    assert response.status_code == 404
    assert "leads out of the report" in html.unescape(response.text)


def test_report_needs_the_key_and_is_allowed_its_own_style_alone(reported: tuple[TestClient, str]) -> None:
    client, _ = reported
    assert client.get("http://127.0.0.1/wrong/report/0/index.html").status_code == 404
    client, _ = reported
    response = client.get("report/0/index.html")
    (style,) = re.findall(r"<style>(.*?)</style>", response.text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    (policy,) = response.headers.get_list("content-security-policy")
    assert policy.startswith(f"default-src 'none'; img-src 'self'; style-src 'sha256-{digest}'; ")
    assert "unsafe" not in policy
    assert response.headers["x-content-type-options"] == "nosniff"


def test_text_of_a_model_is_no_link(copied: str, opened: Open) -> None:
    write_report(copied, "good", f"<!-- view?sample_id=x --> {HOSTILE}")
    to = links(opened(copied).get("report/0/benchmark-maia.html").text)
    assert len(to) == 3
    assert "sample_id=x" not in str(to)


def test_output_without_a_report_offers_none(client: TestClient) -> None:
    assert "report/0" not in client.get("").text
