"""A headless Chromium that is driven over its DevTools protocol."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CHROMIUM = next(
    (path for name in ("chromium-headless-shell", "chromium", "google-chrome") if (path := shutil.which(name))), None
)
_START_S = 60.0
_DOWNLOAD_S = 60.0


class Browser:
    """One page of a browser."""

    def __init__(self, connection: Any, downloads: Path) -> None:
        self._connection, self._downloads = connection, downloads
        self._numbers = itertools.count(1)
        self.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(downloads))
        self.call("Page.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and return its result; events on the way are dropped."""
        number = next(self._numbers)
        self._connection.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._connection.recv(timeout=_START_S))
            if message.get("id") == number:
                assert "error" not in message, message
                result: dict[str, Any] = message["result"]
                return result

    def open(self, path: Path) -> None:
        """Open a file and wait until it is loaded."""
        self.open_address(path.as_uri())

    def open_address(self, address: str) -> None:
        """Open an address and wait until it is loaded."""
        self.call("Page.navigate", url=address)
        deadline = time.monotonic() + _START_S
        while self.evaluate("document.readyState + location.href") != f"complete{address}":
            assert time.monotonic() < deadline, f"{address} was not loaded"
            time.sleep(0.05)

    def evaluate(self, expression: str) -> Any:
        """Return the value of an expression in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def click_and_download(self, selector: str, name: str) -> Path:
        """Click what saves a file, and return the file once it is written."""
        self.evaluate(f"document.querySelector({json.dumps(selector)}).click()")
        path, deadline = self._downloads / name, time.monotonic() + _DOWNLOAD_S
        while not path.exists() or not path.stat().st_size:
            assert time.monotonic() < deadline, f"{name} was not downloaded"
            time.sleep(0.05)
        return path


@contextlib.contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """Start a browser with its profile under a folder; files are downloaded to `downloads` in it."""
    from websockets.sync.client import connect

    profile, downloads = folder / "profile", folder / "downloads"
    downloads.mkdir(parents=True)
    assert CHROMIUM is not None
    flags = ("--no-sandbox", "--disable-gpu", "--remote-debugging-port=0", f"--user-data-dir={profile}", "about:blank")
    # The program may be a shell script that starts the browser: both are in a process group, which is ended as a whole.
    process = subprocess.Popen(
        [CHROMIUM, "--headless", *flags],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        address = _page_address(profile / "DevToolsActivePort", process)
        with connect(address, max_size=None) as connection:
            yield Browser(connection, downloads)
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(30)


def _page_address(file: Path, process: subprocess.Popen[bytes]) -> str:
    """Return the address of the first page, once the browser listens."""
    import requests

    deadline = time.monotonic() + _START_S
    while not file.exists() or len(file.read_text().splitlines()) < 2:
        assert process.poll() is None, "the browser ended"
        assert time.monotonic() < deadline, "the browser did not start"
        time.sleep(0.05)
    pages = requests.get(f"http://127.0.0.1:{file.read_text().splitlines()[0]}/json/list", timeout=_START_S).json()
    address: str = next(page["webSocketDebuggerUrl"] for page in pages if page["type"] == "page")
    return address
