from __future__ import annotations

from jobs.nightly.history import Pair
from jobs.nightly.items import ScoreKey
from jobs.nightly.records import GoneMetric, NightlyResult
from jobs.nightly.regressions import Change, Comparison
from jobs.nightly.summary import summary
from tests.support.measured import measured
from tests.unit.jobs.nightly.cases import EARLIER, NOW


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
