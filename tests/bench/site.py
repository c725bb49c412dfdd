"""`vlmsweep site` on 20,000 answers to all five benchmarks and a table: its size, and its pages in headless Chromium.

    python -m tests.bench.site demo-out     # what `make demo` left, whose answers 21 models repeat

Prints megabytes without media, seconds from the opening of the file to the first list, from there to a sample, and to a
search's result, and how many of the loaded addresses are no files.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from jobs.cli.main import run
from pipelines.ingest.known import load_tables
from pipelines.ingest.table import ingest_table
from pipelines.storage.parts import list_parts, read_part
from pipelines.storage.store import Store
from tests.support.browser import Browser, browser

MODELS, QUESTIONS = 21, 50
_KEYS = ("benchmark", "task", "setting", "sample_id", "variant", "output")


def answers(demo: Path) -> Iterator[dict[str, Any]]:
    """Yield the answers of the demo's model, and as many to a table's questions as it has, from each of many models."""
    parts = [info.path for info in list_parts(Store(str(demo / "results")), "predictions") if "chance" in info.path]
    rows = [row for path in parts for row in read_part(Store(str(demo / "results")), path).to_pylist()]
    rows += [
        {
            "benchmark": "mine",
            "task": "choice",
            "setting": "default",
            "sample_id": str(number),
            "output": "AB"[number % 2],
        }
        for number in range(QUESTIONS)
    ]
    for model in range(MODELS):
        for row in rows:
            yield {"model": f"model-{model}", **{name: row.get(name) or "" for name in _KEYS}}


def seconds_until(page: Browser, condition: str, since: float) -> float:
    """Wait until a condition holds; return the seconds since a time."""
    while not page.evaluate(condition):
        assert time.monotonic() - since < 60, condition
    return time.monotonic() - since


def main() -> None:
    """Build the site and open it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("demo", type=Path)
    demo = parser.parse_args().demo.resolve()
    with TemporaryDirectory() as name:
        folder = Path(name)
        data = folder / "data"
        data.mkdir()
        for benchmark in (demo / "data").iterdir():
            (data / benchmark.name).symlink_to(benchmark)
        lines = [f"{number},Which is {number}?,one {number},two {number},A" for number in range(QUESTIONS)]
        (folder / "questions.csv").write_text("\n".join(["id,question,A,B,answer", *lines]))
        ingest_table(str(folder / "questions.csv"), Store(str(data)), name="mine")
        load_tables(str(data), ["mine"])
        (folder / "answers.jsonl").write_text("\n".join(map(json.dumps, answers(demo))))
        out, site = str(folder / "out"), folder / "site"
        assert run(["score", "--predictions", str(folder / "answers.jsonl"), "--data", str(data), "--out", out]) == 0
        started = time.process_time()
        assert run(["site", out, "--to", str(site), "--no-media"]) == 0
        print(f"built in {time.process_time() - started:.1f} s of processor time")
        size = sum(path.stat().st_size for path in site.rglob("*") if path.is_file())
        print(f"{size / 1e6:.1f} MB, {len(list(site.rglob('*')))} files")
        with browser(folder / "browser") as page:
            measure(page, (site / "samples.html").as_uri())


def measure(page: Browser, address: str) -> None:
    """Print how long lists and a sample take, and what was loaded."""
    started = time.monotonic()
    page.call("Page.navigate", url=address)
    listed = seconds_until(page, "document.querySelectorAll('.samples > li').length === 50", started)
    started = time.monotonic()
    page.evaluate("document.querySelector('.samples a').click()")
    shown = seconds_until(page, "document.querySelectorAll('.card').length > 0", started)
    started = time.monotonic()
    page.evaluate("location.hash = '#q=mate&outcome=right'")
    searched = seconds_until(page, "/of [1-9].* samples$/.test(document.getElementById('count').textContent)", started)
    names = json.loads(
        page.evaluate("JSON.stringify(performance.getEntriesByType('resource').map((each) => each.name))")
    )
    elsewhere = sum(not name.startswith("file:") for name in names)
    print(f"first list {listed:.2f} s, a sample {shown:.2f} s, a search in all {searched:.2f} s; {elsewhere} requests")


if __name__ == "__main__":
    main()
