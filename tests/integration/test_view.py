"""`vlmsweep view` as a process: in a browser, over an object store, and until it is stopped."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import requests

from jobs.cli.main import run
from pipelines.storage.store import Store
from tests.bench.view import write_output as write_answers
from tests.integration.conftest import S3
from tests.support.browser import CHROMIUM, Browser, browser
from tests.support.paths import ROOT
from tests.support.viewer_output import HOSTILE, metric, write_metrics, write_output, write_report

needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="needs a Chromium")
_START_S = 300.0


@contextlib.contextmanager
def serving(*outs: str, env: dict[str, str] | None = None) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Start the command and yield its address, once all outputs are read."""
    command = [sys.executable, "-m", "jobs.cli", "view", *outs, "--port", "0", "--json"]
    process = subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, **(env or {})}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.communicate()[1]
        address = json.loads(line)["address"]
        deadline = time.monotonic() + _START_S
        while "Reading the outputs" in requests.get(address, timeout=_START_S).text:
            assert time.monotonic() < deadline
            time.sleep(0.2)
        yield address, process
    finally:
        process.terminate()  # not killed: its temporary folder would stay
        process.communicate(timeout=_START_S)


@pytest.fixture(scope="module")
def outputs(maia_data: str, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Two outputs: hostile answers in one, changed ones in the other."""
    root = tmp_path_factory.mktemp("outputs")
    first = write_output(str(root / "first"), maia_data, ["m1", "m2"], lambda *_: {"output": HOSTILE})
    second = write_output(
        str(root / "second"),
        maia_data,
        ["m1", "m2"],
        lambda model, _row: {"output": "مرحبا hello", "right": model == "m1"},
    )
    write_metrics(first, [metric(name, "black-video", 0.5) for name in ("m1", "m2")])
    return [first, second]


def visit(page: Browser, address: str) -> None:
    """Open an address and wait until it is loaded."""
    page.call("Page.navigate", url=address)
    _await(page, f"location.href === {json.dumps(address)}")


def press(page: Browser, key: str) -> None:
    """Press and release a key."""
    code = {"Enter": 13, "/": 191}.get(key, ord(key[0].upper()))
    text = "\r" if key == "Enter" else key
    for kind in ("keyDown", "keyUp"):
        more = {"text": text} if kind == "keyDown" else {}
        page.call("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **more)


def _await(page: Browser, condition: str) -> None:
    """Wait until a condition holds in a page that is loaded; one that is just being left answers with an error."""
    deadline = time.monotonic() + _START_S
    while True:
        with contextlib.suppress(AssertionError):
            if page.evaluate(f"document.readyState === 'complete' && ({condition})"):
                return
        assert time.monotonic() < deadline, condition
        time.sleep(0.05)


@needs_chromium
def test_pages_fit_the_screen_and_run_no_foreign_script(outputs: list[str], tmp_path: Path) -> None:
    with serving(*outputs) as (address, _), browser(tmp_path) as page:
        for path in ("", "benchmark?name=maia", "samples", "samples?q=script", "diff?change=worse", "no-such-page"):
            for width in (1400, 400):
                page.call(
                    "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False
                )
                visit(page, address + path)
                assert page.evaluate("document.documentElement.scrollWidth") <= width, path
                assert page.evaluate("document.querySelectorAll('script').length") == 1
                assert page.evaluate("window.hacked ?? 0") == 0


@needs_chromium
def test_long_names_fit_a_narrow_screen(tmp_path: Path) -> None:
    name, rows = "x" * 120, ["id,question,answer,category"]
    (tmp_path / "rows.csv").write_text("\n".join([*rows, *(f"{name}{n},Is it {n}?,yes,{name}" for n in range(3))]))
    data, out = str(tmp_path / "data"), str(tmp_path / "out")
    (tmp_path / "models.yaml").write_text(f"short: {{engine: random}}\n{name}: {{engine: random, seed: 1}}\n")
    assert run(["ingest", "table", str(tmp_path / "rows.csv"), "--as", "mine", "--data", data]) == 0
    flags = ["--models", f"short,{name}", "--models-file", str(tmp_path / "models.yaml"), "--benchmarks", "mine"]
    assert run(["run", *flags, "--data", data, "--out", out]) == 0
    item = f"sample?benchmark=mine&task=yes-no&setting=default&sample_id={name}0&variant="
    with serving(out) as (address, _), browser(tmp_path / "browser") as page:
        page.call("Emulation.setDeviceMetricsOverride", width=400, height=900, deviceScaleFactor=1, mobile=False)
        for path in ("", "benchmark?name=mine", "samples", item):
            visit(page, address + path)
            page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
            assert page.evaluate("document.documentElement.scrollWidth") <= 400, path
        visit(page, address + "samples?q=nowhere")  # what was searched stands behind the count
        assert page.evaluate("document.querySelector('.count q').getBoundingClientRect().left") < 200


@needs_chromium
def test_keys_lead_from_the_list_to_samples_and_on(outputs: list[str], tmp_path: Path) -> None:
    with serving(*outputs) as (address, _), browser(tmp_path) as page:
        visit(page, address + "samples?task=oevqa")
        for key in "jjk":
            press(page, key)
        titles = page.evaluate("[...document.querySelectorAll('.list .id')].map((item) => item.textContent)")
        assert page.evaluate("[...document.querySelectorAll('.list > li')].findIndex((i) => i.matches('.here'))") == 0
        press(page, "Enter")
        _await(page, f"document.querySelector('h1')?.textContent.trim() === {json.dumps(titles[0])}")
        assert page.evaluate("document.querySelector('.card .text').textContent").startswith("</p></section><script>")
        page.evaluate("document.querySelector('.strip').scrollIntoView()")
        _await(page, "[...document.querySelectorAll('.strip img')].some((image) => image.naturalWidth > 0)")
        press(page, "j")
        _await(page, f"document.querySelector('h1')?.textContent.trim() === {json.dumps(titles[1])}")
        press(page, "/")
        assert page.evaluate("document.activeElement.id") == "search"
        press(page, "j")  # a letter of the search, no command
        press(page, "Enter")
        _await(page, "location.search === '?q=j'")
        press(page, "?")
        assert page.evaluate("document.getElementById('keys').open")
        press(page, "/")  # no command of the page behind
        assert page.evaluate("document.activeElement.id") != "search"
        press(page, "?")
        assert not page.evaluate("document.getElementById('keys').open")


@needs_chromium
def test_report_fits_the_screen_and_leads_to_samples(maia_data: str, tmp_path: Path) -> None:
    out = write_output(str(tmp_path / "out"), maia_data, ["m1"])
    write_report(out, "m1", HOSTILE)
    with serving(out) as (address, _), browser(tmp_path / "browser") as page:
        for width in (1400, 400):
            page.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
            for name in ("index", "benchmark-maia"):
                visit(page, f"{address}report/0/{name}.html")
                page.evaluate("document.querySelectorAll('details').forEach(item => item.open = true)")
                assert page.evaluate("document.documentElement.scrollWidth") <= width
                assert page.evaluate("getComputedStyle(document.querySelector('nav ul')).display") == "flex"
        page.evaluate("document.querySelector('.answer > a.viewer').click()")
        _await(page, "location.pathname.endsWith('/sample')")
        assert "Sentiment_A" in page.evaluate("document.title + document.body.textContent")
        assert page.evaluate("window.hacked") is None


@needs_chromium
def test_choice_in_a_filter_changes_the_address(outputs: list[str], tmp_path: Path) -> None:
    with serving(*outputs) as (address, _), browser(tmp_path) as page:
        visit(page, address + "samples")
        page.evaluate(
            "(() => { const box = document.querySelector('select[name=outcome]'); box.value = 'wrong';"
            " box.dispatchEvent(new Event('change', { bubbles: true })); })()"
        )
        _await(page, "location.search === '?outcome=wrong'")
        assert page.evaluate("document.querySelectorAll('.badge.wrong').length") > 0


@pytest.mark.full
def test_sixty_searches_at_once_end_as_pages_or_as_busy(tmp_path: Path) -> None:
    write_answers(tmp_path / "out", rows=20_000, part=2_000)
    with serving(str(tmp_path / "out")) as (address, process), ThreadPoolExecutor(60) as pool:

        def search(number: int) -> tuple[int, bool, bool]:
            words = {"q": ("bridge", "zebra", "dog", "the")[number % 4], "sort": ("", "disagreement")[number % 2]}
            reply = requests.get(address + "samples", params=words, timeout=_START_S)
            sentence = " item" in reply.text if reply.status_code == 200 else "try again in a moment" in reply.text
            return reply.status_code, sentence, "retry-after" in reply.headers

        outcomes = set(pool.map(search, range(60)))
        assert outcomes <= {(200, True, False), (503, True, True)}
        assert (200, True, False) in outcomes
        peak_kb = int(Path(f"/proc/{process.pid}/status").read_text().partition("VmHWM:")[2].split()[0])
        assert peak_kb < 900_000  # 300,000 alone; the database's 400 MB are within
        process.terminate()
        assert process.communicate(timeout=_START_S)[1] == ""


def test_clients_that_do_not_move_keep_nobody_from_reading(outputs: list[str]) -> None:
    with serving(*outputs) as (address, _), contextlib.ExitStack() as stack:
        place, _, path = address.removeprefix("http://").partition("/")
        for part in [b"GET / HTTP/1.1\r\nHost", f"GET /{path}samples HTTP/1.1\r\nHost: {place}\r\n\r\n".encode()] * 30:
            client = stack.enter_context(socket.create_connection(("127.0.0.1", int(place.rpartition(":")[2]))))
            client.sendall(part)  # and nothing is read
        sessions = [stack.enter_context(requests.Session()) for _ in range(2)]
        pages = [session.get(address + "samples?q=hello", timeout=_START_S) for session in sessions]
        assert [page.status_code for page in pages] == [200, 200]
        assert pages[0].text == pages[1].text


def test_output_on_an_object_store_is_shown(s3: S3, maia_data: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in s3.env.items():
        monkeypatch.setenv(name, value)
    data, out = Store("s3://bench/view/data"), "s3://bench/view/out"
    for info in Store(maia_data).list():
        data.put(info.path, Store(maia_data).get(info.path))
    write_output(out, data.uri, ["m1"])
    before = [(info.path, info.size) for info in Store(out).list()]
    with serving(out, env=s3.env) as (address, _):
        page = requests.get(address + "samples?task=oevqa", timeout=_START_S).text
        assert "Sentiment_A answered" in page
        item = "benchmark=maia&sample_id=video1/Sentiment_A&task=oevqa&setting=32-frames&variant="
        page = requests.get(f"{address}sample?{item}", timeout=_START_S).text
        assert "not what was sent" not in page
        clip = page.partition("<video")[2].partition(' src="')[2].partition('"')[0].replace("&amp;", "&")
        response = requests.get(address.rpartition("/")[0].rpartition("/")[0] + clip, timeout=_START_S)
        assert (response.status_code, response.headers["content-type"]) == (200, "video/mp4")
    assert [(info.path, info.size) for info in Store(out).list()] == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_it_and_removes_its_files(outputs: list[str], tmp_path: Path, number: signal.Signals) -> None:
    with serving(outputs[0], env={"TMPDIR": str(tmp_path)}) as (address, process):
        assert len(list(tmp_path.glob("vlmsweep-*/*"))) == 1
        process.send_signal(number)
        out, error = process.communicate(timeout=_START_S)
        assert (process.returncode, error) == (0, "")
        assert address.rsplit("/", 2)[1] not in out
        assert list(tmp_path.glob("*/*")) == []
