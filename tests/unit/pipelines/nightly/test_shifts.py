"""Metrics beside those of the last night that measured them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pipelines.nightly.history import History, Pair
from pipelines.nightly.pairs import failed_pair
from pipelines.nightly.records import NightlyResult, PairStatus
from pipelines.nightly.shifts import metric_pairs, metric_shifts
from tests.unit.pipelines.nightly.cases import EARLIER, NOW, metric

BEFORE = Pair(night=EARLIER, model="m", benchmark="maia", state="ran", measured=EARLIER, parts={"prompt": "1"})


def night_with(value: float | None) -> NightlyResult:
    return NightlyResult(name=NOW, pairs=[replace(BEFORE, night=NOW, measured=NOW)], metrics=[metric(value)])


def status(**parts: str) -> PairStatus:
    return PairStatus(model="m", benchmark="maia", parts=parts, why="new", before=BEFORE)


@pytest.mark.parametrize(
    ("now", "is_shifted"),
    [(0.5, False), (0.4, False), (0.6, False), (0.61, True), (0.39, True), (None, True)],
)
def test_number_outside_its_previous_interval_is_a_shift(tmp_path: Path, now: float | None, is_shifted: bool) -> None:
    history = History(str(tmp_path))
    history.write(EARLIER, [BEFORE], [metric(0.5), metric(0.5, metric="unsure", ci_low=None, ci_high=None)], "")
    night = night_with(now)
    night.shifts = list(metric_shifts(night, [status(prompt="1")], history))
    assert bool(night.shifts) is is_shifted
    assert night.has_alarm is (now is None)  # a number that is gone; others leave their intervals by chance
    night.shifts = [replace(shift, key=(*shift.key[:5], "Spatial-Total", shift.key[6])) for shift in night.shifts]
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
