"""The regression guard: which stages count as slower, and what is drawn of the records."""

from __future__ import annotations

import pytest

from tests.bench.quick import SLOWER, STAGES, chart, last_record, medians, slower_stages

RECORDED = dict.fromkeys(STAGES, 2.0)


@pytest.mark.parametrize("stage", STAGES)
def test_stage_beyond_the_limit_is_reported(stage: str) -> None:
    (problem,) = slower_stages({**RECORDED, stage: 2.0 * SLOWER + 0.1}, RECORDED)
    assert problem == f"{stage} takes {SLOWER + 0.05:.2f} times what was recorded"


def test_stages_within_the_limit_pass() -> None:
    assert slower_stages(dict.fromkeys(STAGES, 2.0 * SLOWER), RECORDED) == []
    assert slower_stages(dict.fromkeys(STAGES, 0.1), RECORDED) == []


def test_one_slow_repeat_does_not_count() -> None:
    assert medians([{"plan": 1.0}, {"plan": 9.0}, {"plan": 1.2}]) == {"plan": 1.2}


def test_newest_record_of_the_same_size_is_compared() -> None:
    records = [{"requests": 10, "commit": "a"}, {"requests": 10, "commit": "b"}, {"requests": 20, "commit": "c"}]
    assert last_record(records, 10) == records[1]
    assert last_record(records, 30) is None


def test_chart_draws_every_stage() -> None:
    svg = chart([{"stages": RECORDED}, {"stages": dict.fromkeys(STAGES, 1.0)}]).decode()
    assert all(f">{stage}<" in svg for stage in STAGES)
