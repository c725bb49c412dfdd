from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from jobs.nightly.budget import (
    Budget,
    Estimate,
    changed_parts,
    code_fingerprint,
    due_pairs,
    estimate_pairs,
    plan_due,
    run_order,
)
from jobs.nightly.history import History, Pair
from jobs.nightly.judge_drift import cost, token_difference
from jobs.nightly.records import PairStatus
from models.entry_fields import Price
from models.spec import ModelSpec
from pipelines.plan.run_spec import RunSpec
from pipelines.predict.records import TokenCounts
from tests.unit.jobs.nightly.cases import EARLIER, NOW, random


@pytest.fixture
def spec(maia_data: str, tmp_path: Path) -> RunSpec:
    return RunSpec(
        data=maia_data, out=str(tmp_path / "out"), models={"m": random()}, benchmarks=("maia",), tasks=("vsv",)
    )


def status(model: str) -> PairStatus:
    return PairStatus(model=model, benchmark="maia", parts={}, why="new", before=None)


@pytest.mark.parametrize(
    ("budget", "waiting"),
    [
        (Budget(), []),
        (Budget(hours=2.0), ["b", "c"]),
        (Budget(usd=7.0), ["b"]),
        (Budget(usd=1.0, hours=1.0), ["a", "b", "c"]),
        (Budget(usd=100.0, hours=100.0), []),
    ],
)
def test_pairs_wait_where_the_budget_is_spent_and_smaller_ones_follow(budget: Budget, waiting: list[str]) -> None:
    seconds = {"a": 3600.0, "b": 5400.0, "c": 3601.0, "free": 0.0}
    usd = {"a": 5.0, "b": 3.0, "c": 2.0, "free": None}
    estimates = {(name, "maia"): Estimate(seconds[name], usd[name]) for name in seconds}
    planned = budget.plan([status(name) for name in seconds], estimates)
    assert [pair.status.model for pair in planned if pair.is_waiting] == waiting
    for pair in planned:
        assert ("waits for the budget" in pair.why) is pair.is_waiting


def test_pair_that_exceeds_the_whole_budget_says_so_and_without_one_nothing_is_estimated() -> None:
    (pair,) = Budget(usd=1.0).plan([status("a")], {("a", "maia"): Estimate(60.0, 5.0)})
    assert pair.why == "new; waits for the budget: needs about 0.02 h and $5.00, more than the whole budget"
    (pair,) = plan_due(
        RunSpec(data="d", out="o", models={"m": random()}, benchmarks=("maia",)), [status("m")], "o", Budget()
    )
    assert pair.estimate is None


def test_estimates_come_from_the_plan_of_a_dry_run(spec: RunSpec, tmp_path: Path) -> None:
    price = Price(input_per_million=1.0, output_per_million=2.0)
    models = {
        "free": random(),
        "paid": ModelSpec(
            engine="openai", model="x", base_url="http://127.0.0.1:9", price=price, requests_per_minute=60
        ),
        "batch": ModelSpec(engine="openai", model="x", base_url="http://127.0.0.1:9", price=price, batch=True),
        "local": ModelSpec(engine="transformers", model="x", parameters_b=7.0),
    }
    several = replace(spec, models=models)
    due = due_pairs(several, History(str(tmp_path / "history")))
    estimates = estimate_pairs(several, due, str(tmp_path / "staging"), 2.0)
    free, paid, batch, local = (estimates[name, "maia"] for name in models)
    assert (free.seconds, free.usd) == (0.0, None)
    assert paid.seconds == 3 * 384  # calls in three settings, one a second
    assert paid.usd
    assert batch.usd == pytest.approx(paid.usd / 2)
    assert local.seconds > 30.0
    assert local.usd == pytest.approx(local.seconds / 3600 * 2.0)
    assert not (tmp_path / "staging").exists()  # nothing is written


def test_estimates_use_the_speed_of_the_last_night(spec: RunSpec, tmp_path: Path) -> None:
    history = History(str(tmp_path / "history"))
    before = Pair(
        night=EARLIER, model="m", benchmark="maia", state="ran", measured=EARLIER, seconds_per_request=2.0,
        usd_per_request=0.5,
    )  # fmt: skip
    history.write(EARLIER, [before], [], "")
    due = due_pairs(spec, history)
    estimate = estimate_pairs(spec, due, str(tmp_path / "staging"), None)["m", "maia"]
    assert estimate.usd == estimate.seconds / 4 > 0
    (pair,) = plan_due([spec], due, str(tmp_path / "staging"), Budget(usd=1.0))
    assert pair.is_waiting


def test_cost_counts_tokens_and_gpu_hours() -> None:
    spec = RunSpec(data="data", out="out", models={"m": random()}, benchmarks=("maia",))
    priced = replace(spec, models={"m": random(price=Price(input_per_million=2.0, output_per_million=10.0))})
    used = {("predictions", "maia", "m"): TokenCounts(1_000_000, 100_000)}
    assert cost(priced, "maia", used, 60.0, None) == 3.0
    assert cost(spec, "maia", used, 60.0, 2.5) is None
    cached = Price(input_per_million=2.0, cached_input_per_million=0.2, output_per_million=10.0)
    used_cached = {("predictions", "maia", "m"): TokenCounts(1_000_000, 100_000, 900_000)}
    assert cost(replace(spec, models={"m": random(price=cached)}), "maia", used_cached, 60.0, None) == 1.38
    ours = ModelSpec(engine="transformers", model="x", tensor_parallel=4, replicas={"max": 2})
    assert cost(replace(spec, models={"m": ours}), "maia", used, 1800.0, 2.5) == 10.0


def test_token_difference_is_never_negative() -> None:
    assert token_difference(TokenCounts(5, 1, 4), TokenCounts(2, 3, 1)) == (3, 0, 3, 0)


def test_code_fingerprint_is_stable() -> None:
    first = code_fingerprint()
    code_fingerprint.cache_clear()
    assert code_fingerprint() == first
    assert len(first) == 16


def test_changed_parts_include_missing_ones() -> None:
    assert changed_parts({"code": "1", "model": "2"}, {"code": "1", "judge": "3"}) == ["judge", "model"]
    assert changed_parts({"judge": ""}, {}) == []


PARTS = {"code": "1"}


def due_status(model: str, measured: str = "", state: str = "ran", *, is_changed: bool = True) -> PairStatus:
    plain = PairStatus(model=model, benchmark="maia", parts=PARTS, why="x", before=None)
    if not measured and state == "ran":
        return plain
    fingerprint = "old" if is_changed else plain.fingerprint
    before = Pair(night=NOW, model=model, benchmark="maia", state=state, measured=measured, fingerprint=fingerprint)
    return PairStatus(model=model, benchmark="maia", parts=PARTS, why="x", before=before)


def test_never_evaluated_pairs_run_first_then_changed_then_the_oldest() -> None:
    due = [
        due_status("aged", EARLIER, is_changed=False),
        *(due_status("changed lately", NOW), due_status("changed long ago", EARLIER)),
        *(due_status("never", ""), due_status("never, and fails", "", "failed")),
        *(due_status("changed, and fails", EARLIER, "failed"), due_status("aged more lately", NOW, is_changed=False)),
    ]
    assert [entry.model for entry in run_order(due)] == [
        *("never", "never, and fails"),
        *("changed long ago", "changed lately", "changed, and fails"),
        *("aged", "aged more lately"),
    ]


def test_pair_is_due_when_it_was_not_measured_for_days(maia_data: str, tmp_path: Path) -> None:
    spec = RunSpec(data=maia_data, out=str(tmp_path / "out"), models={"m": random()}, benchmarks=("maia",))
    history = History(str(tmp_path / "history"))
    (new,) = due_pairs(spec, history)
    measured = {"fingerprint": new.fingerprint, "parts": new.parts, "measured": EARLIER}
    history.write(EARLIER, [Pair(night=EARLIER, model="m", benchmark="maia", state="ran", **measured)], [], "")

    def reason(days: float | None) -> str:
        return due_pairs(spec, history, refresh_days=days, now=datetime(2026, 1, 11, 2, tzinfo=UTC))[0].why

    assert reason(None) == reason(11) == ""
    assert reason(10) == "not measured since 2026-01-01"


def test_pair_that_only_waited_is_still_new(maia_data: str, tmp_path: Path) -> None:
    spec = RunSpec(data=maia_data, out=str(tmp_path / "out"), models={"m": random()}, benchmarks=("maia",))
    history = History(str(tmp_path / "history"))
    history.write(EARLIER, [Pair(night=EARLIER, model="m", benchmark="maia", state="waiting", why="new")], [], "")
    assert [entry.why for entry in due_pairs(spec, history)] == ["new"]
