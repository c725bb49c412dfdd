"""The leaderboard's page in a browser: tables are chosen and sorted, and it fits a narrow screen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jobs.cli.main import run
from tests.support.browser import CHROMIUM, Browser, browser
from tests.support.leaderboard_output import entry, metric, write_output

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs a Chromium")

HOSTILE = "<script>window.hacked = 1</script>" + "x" * 200
SHOWN = "[...document.querySelectorAll('tbody tr')].filter(row => !row.hidden)"


def models(page: Browser) -> list[str]:
    """Return the models of the shown rows, in order."""
    names: list[str] = json.loads(page.evaluate(f"JSON.stringify({SHOWN}.map(row => row.cells[0].textContent.trim()))"))
    return [name.removesuffix(" published") for name in names]


def click(page: Browser, head: str) -> None:
    """Click a column's head."""
    heads = "[...document.querySelectorAll('thead button')]"
    page.evaluate(f"{heads}.find(button => button.textContent === {json.dumps(head)}).click()")


def choose(page: Browser, selector: str, assignment: str) -> None:
    """Change a control."""
    control = f"document.querySelector({json.dumps(selector)})"
    page.evaluate(f"{control}.{assignment}; {control}.dispatchEvent(new Event('change'))")


def test_page_is_sorted_filtered_and_narrow(tmp_path: Path) -> None:
    values = {"b": 0.1, "a": 0.9, HOSTILE: None}
    rows = [metric(model, value) for model, value in values.items()] + [metric("a", 0.3, setting="1-frame")]
    out = write_output(str(tmp_path / "out"), [entry(model) for model in values], rows)
    assert run(["leaderboard", out, "--to", str(tmp_path / "to")]) == 0
    with browser(tmp_path / "browser") as page:
        page.call("Emulation.setDeviceMetricsOverride", width=400, height=900, deviceScaleFactor=1, mobile=True)
        page.open(tmp_path / "to" / "leaderboard.html")
        assert page.evaluate("document.documentElement.scrollWidth") <= 400
        assert page.evaluate("typeof window.hacked") == "undefined"
        assert models(page) == ["a", "Qwen-2.5-VL 72B", "b", HOSTILE]
        click(page, "Value")
        assert models(page) == ["b", "Qwen-2.5-VL 72B", "a", HOSTILE]
        click(page, "Model")
        assert models(page)[1:3] == ["a", "b"]
        choose(page, ".published", "checked = false")
        assert models(page)[1:] == ["a", "b"]
        choose(page, ".board", "value = ''")
        assert models(page)[1:] == ["a", "a", "b"]
