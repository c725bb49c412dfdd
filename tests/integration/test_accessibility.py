"""Every page that people read, in a wide and in a narrow window, light and dark: axe-core has no serious finding."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import requests

from jobs.cli.main import run
from jobs.nightly.history import History
from jobs.nightly.page import history_page
from models.spec import ModelSpec
from pipelines.ingest.dataset import load_tables
from pipelines.ingest.table import ingest_table
from pipelines.plan.run_spec import RunSpec
from pipelines.storage.store import Store
from pipelines.sweep.run import run_sweep
from tests.integration.test_view import serving
from tests.support.axe import axe_script, serious_faults
from tests.support.browser import CHROMIUM, Browser, browser
from tests.support.viewer_output import HOSTILE, metric, write_metrics, write_output, write_report
from tests.unit.jobs.nightly.test_page import write_nights

pytestmark = [pytest.mark.full, pytest.mark.skipif(CHROMIUM is None, reason="needs a Chromium")]

WINDOWS = ((1400, "light"), (400, "light"), (1400, "dark"), (400, "dark"))
HELPED = ("a sample", "")  # pages, of site and viewer, whose help is tested too
MODELS = {"guesses": ModelSpec(engine="random", seed=1), "others": ModelSpec(engine="random", seed=2)}


@pytest.fixture(scope="module")
def axe() -> str:
    script = axe_script()
    if script is None:
        pytest.skip("axe-core cannot be fetched: npm is missing or reaches no registry")
    return script


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Browser]:
    with browser(tmp_path / "browser") as opened:
        opened.call("Page.setBypassCSP", enabled=True)  # pages run no script but their own
        yield opened


@pytest.fixture(scope="module")
def table_output(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Two models that guess, asked a table's questions."""
    root = tmp_path_factory.mktemp("table")
    rows = [f"{number},Which is {number}?,one {number},two {number},{'AB'[number % 2]}" for number in range(24)]
    (root / "questions.csv").write_text("\n".join(["id,question,A,B,answer", *rows]))
    ingest_table(str(root / "questions.csv"), Store(str(root / "data")), name="mine")
    load_tables(str(root / "data"), ["mine"])
    run_sweep(RunSpec(data=str(root / "data"), out=str(root / "out"), models=MODELS, benchmarks=("mine",)))
    return str(root / "out")


@pytest.fixture(scope="module")
def maia_output(maia_data: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Hostile answers about clips, with numbers and a report."""
    out = write_output(
        str(tmp_path_factory.mktemp("maia") / "out"), maia_data, ["m1", "m2"],
        lambda model, _row: {"output": HOSTILE, "right": model == "m1"},
    )  # fmt: skip
    write_metrics(out, [metric(name, "black-video", 0.5) for name in ("m1", "m2")])
    write_report(out, "m1", HOSTILE)
    return out


def faults(page: Browser, axe: str, addresses: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the findings of pages, by name and window."""
    results = {}
    for (name, address), (width, scheme) in itertools.product(addresses.items(), WINDOWS):
        page.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        page.open_address("about:blank")  # a change behind # alone would load nothing
        page.open_address(address)
        results[f"{name}, {width}, {scheme}"] = serious_faults(page, axe)
        if name in HELPED:
            page.evaluate("document.getElementById('keys').showModal()")
            results[f"{name}, {width}, {scheme}"] += serious_faults(page, axe)
        shown = page.evaluate("document.documentElement.scrollWidth")
        if shown > width:
            results[f"{name}, {width}, {scheme}"].append(f"is {shown} pixels wide")
    return {name: texts for name, texts in results.items() if texts}


def test_report_and_site_have_no_serious_fault(page: Browser, axe: str, table_output: str, tmp_path: Path) -> None:
    assert run(["site", table_output, "--to", str(tmp_path / "site")]) == 0
    names = {path.name: path.as_uri() for path in sorted((tmp_path / "site").glob("*.html"))}
    assert {"index.html", "benchmark-mine.html", "samples.html"} <= set(names)
    assert faults(page, axe, {**names, "a sample": names["samples.html"] + "#item=0"}) == {}


def test_forms_leaderboard_and_history_have_no_serious_fault(
    page: Browser, axe: str, table_output: str, maia_output: str, tmp_path: Path
) -> None:
    assert run(["leaderboard", table_output, "--to", str(tmp_path / "board")]) == 0
    forms = ["--benchmark", "maia", "--n", "3", "--to", str(tmp_path / "forms")]
    assert run(["annotate", maia_output, *forms]) == 0
    history = History(str(tmp_path / "history"))
    write_nights(history, ["m", "a-model-of-a-very-long-name-" * 5])
    (tmp_path / "history.html").write_text(history_page(history), encoding="utf-8")
    files = [*tmp_path.glob("board/*.html"), *sorted(tmp_path.glob("forms/*.html"))[:1], tmp_path / "history.html"]
    assert len(files) == 3
    assert faults(page, axe, {path.name: path.as_uri() for path in files}) == {}


def test_viewer_has_no_serious_fault(page: Browser, axe: str, table_output: str, maia_output: str) -> None:
    with serving(maia_output, table_output) as (address, _):
        clip = "sample?benchmark=maia&task=oevqa&setting=32-frames&sample_id=video1/Sentiment_A&variant="
        assert "<video" in requests.get(address + clip, timeout=60).text
        paths = (
            "",
            "benchmark?name=maia",
            "samples?category=Sentiment_A",
            "samples?q=none",
            "diff?change=text",
            "none",
            clip,
        )
        assert faults(page, axe, {path: address + path for path in paths}) == {}
