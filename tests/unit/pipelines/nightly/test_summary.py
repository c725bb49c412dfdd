"""The summary of a night."""

from __future__ import annotations

from pipelines.nightly.history import Pair
from pipelines.nightly.records import MetricShift, NightlyResult
from pipelines.nightly.summary import summary
from tests.unit.pipelines.nightly.cases import EARLIER, NOW


def test_hostile_message_is_escaped() -> None:
    bad = "a|b\n# head <script> @everyone [x](http://evil) `c`"
    pair = Pair(night=NOW, model=bad, benchmark="maia", state="failed", why=bad)
    text = summary(NightlyResult(name=NOW, pairs=[pair]), {bad})
    assert "<script>" not in text
    assert "@everyone" not in text
    assert "](http" not in text
    assert text.startswith("# Nightly 2026-01-02 02:00 UTC: 1 models failed\n")
    assert sum(line.startswith("#") for line in text.splitlines()) == 2


def test_summary_lists_shifts_runs_and_costs() -> None:
    key = ("maia", "vsv", "m", "1-frame", "", "", "agg_acc")
    shift = MetricShift(key=key, before=0.5, now=None, interval=(0.4, 0.6), since=EARLIER)
    ran = Pair(night=NOW, model="m", benchmark="maia", state="ran", why="new", seconds=7200.0, cost_usd=1.5)
    row = dict(zip(("benchmark", "task", "model", "setting", "subset", "category", "metric"), key, strict=True))
    night = NightlyResult(name=NOW, pairs=[ran], metrics=[{**row, "value": 0.5}], shifts=[shift])
    text = summary(night, set())
    assert "1 numbers moved" in text
    assert "| maia | m | vsv | 1-frame | all | agg&#95;acc | 0.500 | 0.400 to 0.600 | gone |" in text
    assert "vsv 1-frame 0.500 | $1.50 |" in text
    assert "Cost: $1.50, 2.0 h of run time." in text
