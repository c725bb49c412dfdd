"""Pages on paper, in Chromium: no table is wider than the sheet, no row is divided, figures are there."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.cli.main import run
from pipelines.benchmarks.figures import Bars, Series
from pipelines.benchmarks.tables import Table, TableRow, TableValue
from pipelines.report.model import BenchmarkSection, ReportData
from pipelines.report.render import render
from pipelines.storage.store import Store
from tests.support.browser import CHROMIUM, Browser, browser
from tests.support.leaderboard_output import entry, metric, write_output

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs a Chromium")

A4, A4_ACROSS = 718, 1045  # pixels between the margins
WIDE = "[...document.querySelectorAll('table, figure')].filter((item) => item.getBoundingClientRect().right > {})"
DIVIDED = "[...document.querySelectorAll('tr')].filter((row) => getComputedStyle(row).breakInside !== 'avoid')"
BOXES = "[...document.querySelectorAll('.scroll')].filter((box) => box.scrollHeight > box.clientHeight + 1)"


def show(page: Browser, file: Path, width: int, media: str = "print") -> None:
    page.call("Emulation.setDeviceMetricsOverride", width=width, height=600, deviceScaleFactor=1, mobile=False)
    page.call("Emulation.setScrollbarsHidden", hidden=True)
    page.call("Emulation.setEmulatedMedia", media=media)
    page.open(file)


def test_wide_and_long_tables_of_a_report_fit_the_sheet(tmp_path: Path) -> None:
    columns = tuple(f"Category {number}" for number in range(15))
    cells = tuple(TableValue(value=0.5, low=0.25, high=0.75) for _ in columns)
    rows = tuple(TableRow(label=f"model-{number}-of-a-long-name", cells=cells) for number in range(80))
    table = Table(id="wide", title="Wide", columns=columns, rows=rows)
    bars = Bars(id="bars", title="Bars", categories=("a", "b"), series=(Series(label="m", values=(0.1, 0.9)),))
    part = BenchmarkSection(name="maia", title="MAIA", headline="agg_acc", tables=(table,), figures=(bars,))
    for path, content in render(ReportData(benchmarks=(part,))).items():
        Store(str(tmp_path)).put(path, content)
    with browser(tmp_path / "browser") as page:
        for media, width in (("print", A4), ("screen", 1400)):
            show(page, tmp_path / "report" / "benchmark-maia.html", width, media)
            assert page.evaluate("document.querySelectorAll('tbody tr').length") >= 80
            assert page.evaluate("[...document.images].map((image) => image.decode()).length") == 1
            assert page.evaluate(f"{BOXES}.length") == 0
            if media == "print":
                assert page.evaluate(f"{WIDE.format(A4)}.length") == 0
                assert page.evaluate(f"{DIVIDED}.length") == 0


def test_leaderboard_is_no_box_in_the_page_and_fits_the_sheet(tmp_path: Path) -> None:
    models = [f"organisation/model-{number}-of-a-long-name" for number in range(40)]
    rows = [metric(model, 0.5) for model in models]
    out = write_output(str(tmp_path / "out"), [entry(model) for model in models], rows)
    assert run(["leaderboard", out, "--to", str(tmp_path)]) == 0
    with browser(tmp_path / "browser") as page:
        show(page, tmp_path / "leaderboard.html", 1400, "screen")
        assert page.evaluate(f"{BOXES}.length") == 0
        show(page, tmp_path / "leaderboard.html", A4_ACROSS)
        assert page.evaluate(f"{WIDE.format(A4_ACROSS)}.length") == 0
        assert page.evaluate(f"{DIVIDED}.length") == 0
