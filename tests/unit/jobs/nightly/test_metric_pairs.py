from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from jobs.nightly.history import History, Pair
from jobs.nightly.metric_pairs import gone_metrics, metric_pairs
from jobs.nightly.records import NightlyResult, PairStatus
from jobs.nightly.run import failed_pair
from tests.unit.jobs.nightly.cases import EARLIER, NOW, metric

BEFORE = Pair(night=EARLIER, model="m", benchmark="maia", state="ran", measured=EARLIER, parts={"prompt": "1"})


def night_with(value: float | None) -> NightlyResult:
    return NightlyResult(name=NOW, pairs=[replace(BEFORE, night=NOW, measured=NOW)], metrics=[metric(value)])


def status(**parts: str) -> PairStatus:
    return PairStatus(model="m", benchmark="maia", parts=parts, why="new", before=BEFORE)


@pytest.mark.parametrize("now", [0.5, 0.61, None])
def test_only_a_number_that_is_gone_is_an_alarm(tmp_path: Path, now: float | None) -> None:
    history = History(str(tmp_path))
    history.write(EARLIER, [BEFORE], [metric(0.5), metric(0.5, metric="unsure", ci_low=None, ci_high=None)], "")
    night = night_with(now)
    night.gone = list(gone_metrics(night, [status(prompt="1")], history))
    assert night.has_alarm is bool(night.gone) is (now is None)
    night.gone = [replace(gone, key=(*gone.key[:5], "Spatial-Total", gone.key[6])) for gone in night.gone]
    assert not night.has_alarm


def test_metrics_are_paired_by_intervals_where_the_prompts_changed(tmp_path: Path) -> None:
    history = History(str(tmp_path))
    history.write(EARLIER, [BEFORE], [metric(0.5), metric(0.5, category="Spatial-Total")], "")
    night = night_with(0.7)
    (pair,) = metric_pairs(night, [status(prompt="2")], history, {})
    assert (pair.before.value, pair.now.value, pair.since) == (0.5, 0.7, EARLIER)
    assert metric_pairs(night, [status(prompt="1")], history, {}) == []


def test_failed_night_in_between_hides_no_other_prompts(tmp_path: Path) -> None:
    history = History(str(tmp_path))
    history.write(EARLIER, [BEFORE], [metric(0.5)], "")
    level = {("m", "maia"): status(prompt="1").basis}
    failed = failed_pair(NOW, status(prompt="2"), "away")
    again, reverted = (replace(status(prompt=prompt), before=failed) for prompt in ("2", "1"))
    (pair,) = metric_pairs(night_with(0.7), [again], history, level)
    assert (pair.before.value, pair.now.value, pair.since) == (0.5, 0.7, EARLIER)
    assert metric_pairs(night_with(0.7), [reverted], history, level) == []  # compared by sample
