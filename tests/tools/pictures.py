"""Take the pictures of the documentation in headless Chromium: `make pictures`.

    python -m tests.tools.pictures OUT      # OUT: an output to show, such as demo-out/results

Each is a WebP file of at most 150 KB in docs/pictures/.
"""

from __future__ import annotations

import base64
import contextlib
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from jobs.demo.checkpoint import TRAINED_MODEL
from jobs.nightly.history import History
from jobs.nightly.page import history_page
from tests.support.browser import CHROMIUM, Browser, browser
from tests.support.paths import ROOT
from tests.unit.jobs.nightly.test_page import write_nights

PICTURES = ROOT / "docs" / "pictures"
WIDTH, HEIGHT = 1280, 800
MAX_BYTES = 150_000
REPORT_PAGES: Mapping[str, str] = {"report": "index.html", "benchmark": "benchmark-mate.html", "items": "items.html"}
SITE_PAGES: Mapping[str, str] = {
    "site": "site/samples.html#benchmark=mate",
    "leaderboard": "board/leaderboard.html",
    "form": "forms/vague-ann.html",
    "history": "history.html",
}
VIEWER_PAGES: Mapping[str, str] = {"viewer-list": "samples?benchmark=mate&task=img2img"}
_SHOWN = """new Promise((resolve) => setTimeout(resolve, 500)).then(() => Promise.all([...document.images]
  .filter((image) => image.getBoundingClientRect().top < innerHeight && image.getBoundingClientRect().left < innerWidth)
  .map((image) => image.decode()))).then((images) => images.length)"""
"""Wait until the pictures in the window are there: they are fetched when they come into it."""


def take(page: Browser, address: str, file: Path, quality: int = 80) -> None:
    """Write a picture of what a window shows of an address, at a lower quality where it would be too large."""
    page.call("Emulation.setDeviceMetricsOverride", width=WIDTH, height=HEIGHT, deviceScaleFactor=1, mobile=False)
    page.call("Emulation.setScrollbarsHidden", hidden=True)
    page.open_address(address)
    while page.evaluate("document.body.innerText.includes('not yet complete')"):
        time.sleep(0.5)
        page.open_address(address)
    page.evaluate(_SHOWN)
    while True:
        shot = page.call("Page.captureScreenshot", format="webp", quality=quality)
        content = base64.b64decode(shot["data"])
        if len(content) <= MAX_BYTES:
            file.write_bytes(content)
            return
        quality -= 10


@contextlib.contextmanager
def viewer(out: str) -> Iterator[str]:
    """Run the viewer of an output for the length of a block, and yield its address with the key."""
    command = [sys.executable, "-m", "jobs.cli", "view", out, "--port", "0"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield next(match[0] for line in process.stdout if (match := re.search(r"http://\S+", line)))
    finally:
        process.terminate()
        process.wait(30)


def own_questions(folder: Path) -> Path:
    """Do what the page on own questions shows, with the demo's model beside the guesses; return the output."""
    (folder / "models.yaml").write_text(
        f"trained-on-the-samples: {{engine: transformers, model: {TRAINED_MODEL}, dtype: float32, device: cpu}}\n"
    )
    where = ["--data", str(folder / "data")]
    models = ["--models", "random,trained-on-the-samples", "--models-file", str(folder / "models.yaml")]
    for command in (
        ["generate", "table", "--from", "mate", "--out", str(folder / "questions")],
        ["ingest", "table", str(folder / "questions"), "--as", "mine", *where],
        ["run", *models, "--benchmarks", "mine", *where, "--out", str(folder / "out")],
    ):
        subprocess.run([sys.executable, "-m", "jobs.cli", *command], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return folder / "out"


def write_pages(out: str, folder: Path) -> None:
    """Write an output's site, leaderboard and form, and the history of drawn nights."""
    for command, target, *flags in (
        ("site", "site"),
        ("leaderboard", "board"),
        ("annotate", "forms", "--benchmark", "vague", "--tasks", "mcq", "--n", "8", "--people", "ann"),
    ):
        arguments = [command, out, "--to", str(folder / target), *flags]
        subprocess.run([sys.executable, "-m", "jobs.cli", *arguments], cwd=ROOT, check=True)
    nights = History(f"{folder}/history")
    write_nights(nights, ["model-a", "model-b"])
    (folder / "history.html").write_text(history_page(nights).replace("<details", "<details open", 1), encoding="utf-8")


def main(out: str) -> None:
    """Take all pictures of an output's report, site, leaderboard and form, of a history, and of the viewer."""
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="pictures-") as folder, browser(Path(folder)) as page:
        for name, file in REPORT_PAGES.items():
            take(page, (Path(out) / "report" / file).resolve().as_uri(), PICTURES / f"{name}.webp")
        write_pages(out, Path(folder))
        for name, file in SITE_PAGES.items():
            take(page, f"{Path(folder).as_uri()}/{file}", PICTURES / f"{name}.webp")
        mine = own_questions(Path(folder)) / "report" / "benchmark-mine.html"
        take(page, mine.as_uri(), PICTURES / "own-questions.webp")
        with viewer(out) as address:
            for name, path in VIEWER_PAGES.items():
                take(page, address + path, PICTURES / f"{name}.webp")
            sample = page.evaluate("document.querySelector('a.open').href")
            take(page, sample, PICTURES / "viewer-sample.webp")
    print(*sorted(f"{path.name} {path.stat().st_size:,} bytes" for path in PICTURES.glob("*.webp")), sep="\n")


if __name__ == "__main__":
    if CHROMIUM is None:
        sys.exit("pictures: no Chromium found; install Debian's package chromium")
    main(sys.argv[1])
