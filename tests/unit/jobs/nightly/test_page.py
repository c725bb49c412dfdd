from __future__ import annotations

import html
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from jobs.nightly.history import History, Pair, run_name
from jobs.nightly.items import ScoreKey
from jobs.nightly.page import history_page
from jobs.nightly.records import GoneMetric, NightlyResult
from jobs.nightly.regressions import Change, Comparison
from jobs.nightly.summary import summary
from tests.support.browser import CHROMIUM, browser
from tests.support.measured import measured
from tests.unit.jobs.nightly.cases import EARLIER, NOW, metric

HOSTILE = "<script>alert(1)</script>"
NIGHTS = [run_name(datetime(2026, 1, 1, 2, tzinfo=UTC) + timedelta(days=day)) for day in range(5)]


def write_nights(history: History, models: Sequence[str], *, last_state: str = "ran") -> None:
    """Write five nights in which every model ran; the third reports a fall of the first one."""
    for number, night in enumerate(NIGHTS):
        state = last_state if night == NIGHTS[-1] else "ran"
        why = {"failed": f"lost {HOSTILE}"}.get(state, "changed: code, prompt" if number else "new")
        measured = night if state == "ran" else NIGHTS[-2]
        pairs = [
            Pair(night=night, model=model, benchmark="maia", state=state, why=why, measured=measured)
            for model in models
        ]
        value = 0.5 if number < 2 else 0.4
        rows = [
            metric(value, model=model, setting=setting, ci_low=value - 0.1, ci_high=value + 0.1)
            for model in models
            for setting in ("32-frames", "1-frame")
            if state == "ran"
        ]
        change = Change(
            key=ScoreKey(models[0], "maia", "vsv", "", "correct"), direction="fell", before=0.5, now=0.4, n=48, p=1e-6,
            test="paired", since=NIGHTS[0],
        )  # fmt: skip
        history.write(night, pairs, rows, "", Comparison(changes=[change] if number == 2 else []))


def test_page_has_one_line_a_pair_with_its_curve_interval_and_reason(tmp_path: Path) -> None:
    history = History(str(tmp_path))
    write_nights(history, ["m", "n"])
    page = history_page(history)
    assert "5 nights, 2026-01-01 to 2026-01-05; 2 pairs" in page
    assert page.count("<details") == 2
    assert page.count("<b>40.0% (30.0 to 50.0)</b> <small>statement accuracy, vsv 32-frames</small>") == 2
    assert page.count('<span class="changed">code, prompt</span>') == 2
    assert page.count('class="point alarm"') == 3  # one model: the line, and both settings in its details
    assert "correct of vsv in all settings fell: 0.500 to 0.400 on 48 paired samples, p 1e-06 by paired" in page
    for text in re.findall(r'aria-label="([^"]*)"', page):
        assert "40.0%" in text


def test_foreign_text_is_escaped_and_nothing_is_fetched(tmp_path: Path) -> None:
    history = History(str(tmp_path))
    write_nights(history, [HOSTILE], last_state="failed")
    page = history_page(history)
    assert "<script" not in page
    assert page.count("&lt;script&gt;") >= 2  # name and failure
    assert "http" not in page.replace("http-equiv", "")
    assert "default-src 'none'" in html.unescape(page)
    assert '<span class="state failed">failed</span>' in page
    assert "2026-01-04" in page  # when it was measured


def test_page_of_no_night_is_a_page_and_a_removed_benchmark_has_no_line(tmp_path: Path) -> None:
    assert "0 nights; 0 pairs" in history_page(History(str(tmp_path)))
    history = History(str(tmp_path))
    pairs = [
        Pair(night=NIGHTS[0], model="m", benchmark=name, state="ran", measured=NIGHTS[0])
        for name in ("maia", "removed")
    ]
    change = Change(
        key=ScoreKey("m", "removed", "vsv", "", "correct"), direction="fell", before=0.5, now=0.4, n=48, p=1e-6,
        test="paired", since=NIGHTS[0],
    )  # fmt: skip
    rows = [metric(0.5), metric(0.5, benchmark="removed")]
    history.write(NIGHTS[0], pairs, rows, "", Comparison(changes=[change]))
    page = history_page(history)
    assert page.count("<details") == 1
    assert "removed" not in page


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on the PATH")
@pytest.mark.parametrize("width", [400, 1400])
def test_page_is_never_wider_than_the_window(tmp_path: Path, width: int) -> None:
    history = History(str(tmp_path / "history"))
    write_nights(history, ["m", "a-model-of-a-very-long-name-" * 5])
    file = tmp_path / "index.html"
    file.write_text(history_page(history), encoding="utf-8")
    with browser(tmp_path / "browser") as page:
        page.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 500
        )
        page.open(file)
        page.evaluate("document.querySelectorAll('details').forEach(line => line.open = true)")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate("getComputedStyle(document.querySelector('.line')).stroke") != "none"  # the style applies


def test_hostile_message_is_escaped() -> None:
    bad = "a|b\n# head <script> @everyone [x](http://evil) `c`"
    pair = Pair(night=NOW, model=bad, benchmark="maia", state="failed", why=bad)
    text = summary(NightlyResult(name=NOW, pairs=[pair]), {bad})
    assert "<script>" not in text
    assert "@everyone" not in text
    assert "](http" not in text
    assert text.startswith("# Nightly 2026-01-02 02:00 UTC: 1 model failed\n")
    assert sum(line.startswith("#") for line in text.splitlines()) == 2


def test_summary_lists_gone_numbers_runs_and_costs() -> None:
    key = ("maia", "vsv", "m", "1-frame", "", "", "agg_acc")
    gone = GoneMetric(key=key, before=0.5, since=EARLIER)
    ran = Pair(night=NOW, model="m", benchmark="maia", state="ran", why="new", seconds=7200.0, cost_usd=1.5)
    row = dict(zip(("benchmark", "task", "model", "setting", "subset", "category", "metric"), key, strict=True))
    metrics = [measured(**{**row, "setting": setting}, value=0.5) for setting in ("1-frame", "32-frames")]
    night = NightlyResult(name=NOW, pairs=[ran], metrics=metrics, gone=[gone])
    text = summary(night, set())
    assert "1 number moved" in text
    assert "| maia | m | vsv | 1-frame | all | agg&#95;acc | 0.500 | gone |" in text
    assert "| 50.0% vsv 32-frames | $1.50 |" in text
    assert "Cost: $1.50, 2.0 h of run time." in text
    pairs = [Pair(night=NOW, model=name, benchmark="maia", state="ran") for name in ("guesses", "local")]
    night = NightlyResult(name=NOW, pairs=pairs)
    assert "Cost: $0.00 and 1 pair without a known price, " in summary(night, {"guesses"})
    assert "Cost: $0.00, " in summary(night, {"guesses", "local"})


def test_moves_show_their_values_paired_samples_and_whether_chance_may_make_them() -> None:
    key = ScoreKey("m", "maia", "vsv", "1-frame", "correct")
    fell = Change(key=key, direction="fell", before=0.5, now=0.4, n=1048, p=1e-6, test="paired", since=EARLIER)
    gone = Change(
        key=key._replace(setting=""), direction="gone", before=0.5, now=None, n=9, p=0.0, test="paired", since=EARLIER
    )
    text = summary(NightlyResult(name=NOW, comparison=Comparison(changes=[fell, gone])), set())
    row = "| maia | m | vsv | {} | correct | 0.500 | {} | {} | {} by paired | 2026-01-01 02:00 UTC |"
    assert row.format("1-frame", "**0.400** fell", "1,048 paired", "1e-06") in text
    assert row.format("all", "gone", "9", "0") in text
    key = ScoreKey("m", "maia", "", "", "correct")
    change = Change(key=key, direction="fell", before=0.5, now=0.48, n=723, p=0.02, test="paired", since=EARLIER)
    night = NightlyResult(name=NOW, comparison=Comparison(unconfirmed=[change]))
    text = summary(night, set())
    assert "1 score of 0 differ at p < 0.05 from their level" in text
    assert "| maia | m | all | all | correct | 0.500 | **0.480** fell | 723 paired | 0.02 by paired |" in text
    assert not night.has_alarm
    assert ": all well" in text
