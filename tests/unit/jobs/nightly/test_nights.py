"""Whole nights with the guessing model, which needs no cluster: the joint output, failures, budgets, ages."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from jobs.nightly import run as nightly_run
from jobs.nightly.budget import Budget
from jobs.nightly.history import History
from jobs.nightly.records import NightlyResult
from jobs.nightly.run import planned_pairs, run_nightly
from models.entry_fields import Price
from pipelines.errors import ModelUnavailableError
from pipelines.ingest.dataset import Dataset
from pipelines.ingest.human_files import read_human
from pipelines.plan.run_spec import RunSpec
from pipelines.storage.store import Store
from pipelines.sweep.status import status_rows
from tests.unit.jobs.nightly.cases import random

Night = Callable[..., NightlyResult]


@pytest.fixture
def spec(maia_data: str, tmp_path: Path) -> RunSpec:
    return RunSpec(
        data=maia_data, out=str(tmp_path / "out"), models={"a": random(), "b": random(seed=2)}, benchmarks=("maia",),
        tasks=("vsv",), settings=("black-video",),
    )  # fmt: skip


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(str(tmp_path / "history"))


@pytest.fixture
def night(history: History) -> Night:
    numbers = count()

    def run(spec: RunSpec, **more: Any) -> NightlyResult:
        start = datetime(2026, 1, 1, 2, tzinfo=UTC) + timedelta(days=next(numbers))
        return run_nightly([spec], history, clock=lambda: start, **more)

    return run


def states(result: NightlyResult) -> dict[str, str]:
    return {pair.model: pair.state for pair in result.pairs}


def rows(spec: RunSpec) -> dict[str, float]:
    """Return the accuracy of each row of the joint report."""
    metrics = json.loads(Store(spec.out).get("report/metrics.json"))
    return {
        row["model"]: row["value"]
        for row in metrics
        if row["metric"] == "statement_accuracy" and row["subset"] == row["category"] == ""
    }


def test_failing_model_keeps_its_earlier_nights_row(
    spec: RunSpec, night: Night, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = nightly_run.run_sweep

    def fail_one(sweep: RunSpec, **more: Any) -> Any:
        if {"bad", "b"} & set(sweep.models):
            raise ModelUnavailableError("its weights are not here")
        return real(sweep, **more)

    night(spec)
    earlier = rows(spec)
    assert set(earlier) == {"a", "b"}
    monkeypatch.setattr(nightly_run, "run_sweep", fail_one)
    changed = replace(spec, models={"bad": random(), "a": random(seed=0), "b": random(seed=9)})
    second = night(changed)
    assert states(second) == {"bad": "failed", "a": "ran", "b": "failed"}
    assert second.has_alarm
    assert not second.all_failed
    assert set(rows(spec)) == {"a", "b"}
    assert rows(spec)["a"] != earlier["a"]
    assert rows(spec)["b"] == earlier["b"]
    report = Store(spec.out).get("report/report.md").decode()
    assert "bad on maia: no row, because it has not run yet; failed: its weights are not here" in report
    assert "measured on 2026-01-01 02:00 UTC: b on maia (failed)" in report


def test_row_of_a_model_that_is_no_longer_configured_has_its_date(spec: RunSpec, night: Night) -> None:
    night(spec)
    night(replace(spec, models={"a": random(seed=7)}))
    assert set(rows(spec)) == {"a", "b"}
    report = Store(spec.out).get("report/report.md").decode()
    assert "measured on 2026-01-01 02:00 UTC: b on maia (not configured)" in report


def test_changed_code_replaces_each_answer_once(spec: RunSpec, night: Night, monkeypatch: pytest.MonkeyPatch) -> None:
    night(spec)
    before = {file.path for file in Store(spec.out).list("predictions")}
    for name in ("budget", "run"):
        monkeypatch.setattr(f"jobs.nightly.{name}.code_fingerprint", lambda: "other")
    second = night(spec)
    assert states(second) == {"a": "ran", "b": "ran"}
    assert sum(pair.input_tokens for pair in second.pairs) > 0  # asked again
    assert not second.has_alarm
    assert {file.path for file in Store(spec.out).list("predictions")} == before
    _, cells = status_rows(spec.out)
    assert [(cell["done"], cell["requests"]) for cell in cells] == [(384, 384)] * 2
    staged = [file.path for file in Store(spec.out).list("staging", "*.parquet")]
    assert not [path for path in staged if "/plan/" not in path]


def test_pairs_wait_for_the_budget_and_stay_due(spec: RunSpec, night: Night) -> None:
    price = Price(input_per_million=1e6, output_per_million=0.0)
    paid = replace(spec, models={"a": random(price=price), "b": random()})
    first = night(paid, budget=Budget(usd=1.0))
    assert states(first) == {"a": "waiting", "b": "ran"}
    assert not first.has_alarm
    assert "## Waiting" in first.summary
    second = night(paid, budget=Budget(usd=1e9))
    assert states(second) == {"a": "ran", "b": "unchanged"}
    (pair,) = second.pairs_in("ran")
    assert pair.why == "new"
    assert pair.usd_per_request == pytest.approx((pair.cost_usd or 0.0) / 384)


def test_incomplete_run_teaches_no_rates(spec: RunSpec, night: Night, monkeypatch: pytest.MonkeyPatch) -> None:
    real = nightly_run.run_sweep

    def fail_verdicts(sweep: RunSpec, **more: Any) -> Any:
        result = real(sweep, **more)
        return replace(result, judge_failed=result.requests)

    monkeypatch.setattr(nightly_run, "run_sweep", fail_verdicts)
    first = night(spec)
    assert first.over_budget == ["a", "b"]
    assert [pair.seconds_per_request for pair in first.pairs] == [0.0, 0.0]
    monkeypatch.setattr(nightly_run, "run_sweep", real)
    second = night(replace(spec, models={"a": random(seed=7), "b": random(seed=9)}))
    assert all(pair.seconds_per_request > 0 for pair in second.pairs)


def test_aged_pair_is_measured_again(spec: RunSpec, night: Night) -> None:
    night(spec)
    assert states(night(spec, refresh_days=7)) == {"a": "unchanged", "b": "unchanged"}
    assert states(night(spec, refresh_days=2)) == {"a": "ran", "b": "ran"}
    assert states(night(spec, refresh_days=2)) == {"a": "unchanged", "b": "unchanged"}


@pytest.mark.parametrize("lost", ["predictions/*/model=a/*.parquet", "run.json"])
def test_answers_that_are_lost_are_named_and_measured_again(
    lost: str, spec: RunSpec, night: Night, history: History, caplog: pytest.LogCaptureFixture
) -> None:
    night(spec)
    before = rows(spec)
    for file in Path(spec.out).glob(lost):
        file.unlink()
    more = replace(spec, models={**spec.models, "c": random(seed=3)})
    warning = next(text for text in night(more).warnings if "are missing" in text)
    assert re.fullmatch(
        r"a on maia: (all|\d+) answers that an earlier night measured .* with --refresh-days 0 .*", warning
    )
    assert not [text for text in night(more, refresh_days=0).warnings if "are missing" in text]
    assert before.items() <= rows(more).items()
    (Path(history.store.uri) / f"metrics/{history.nights()[-1]}.parquet").unlink()
    planned_pairs([more], history, Budget())
    assert "parquet is missing: nothing is compared with it" in caplog.text


def test_people_join_the_tables_of_the_night(spec: RunSpec, night: Night, tmp_path: Path) -> None:
    night(spec)
    samples = Dataset.open(Store(spec.data), "maia").samples()
    letters = "".join(f"{sample.sample_id}/{pair},ann,A\n" for sample in samples for pair in range(8))
    file = tmp_path / "letters.csv"
    file.write_text("pair_id,annotator,letter\n" + letters)
    with_people = replace(spec, human=read_human([f"maia={file}"]))
    second = night(with_people)
    assert states(second) == {"a": "unchanged", "b": "unchanged"}
    assert set(rows(spec)) == {"a", "b", "human:ann"}


def test_killed_night_keeps_finished_models(spec: RunSpec, night: Night, monkeypatch: pytest.MonkeyPatch) -> None:
    real = nightly_run.run_sweep

    def die_at_b(sweep: RunSpec, **more: Any) -> Any:
        if "b" in sweep.models:
            raise KeyboardInterrupt
        return real(sweep, **more)

    monkeypatch.setattr(nightly_run, "run_sweep", die_at_b)
    with pytest.raises(KeyboardInterrupt):
        night(spec)
    monkeypatch.setattr(nightly_run, "run_sweep", real)
    second = night(spec)
    assert states(second) == {"a": "ran", "b": "ran"}
    assert {pair.model: pair.input_tokens > 0 for pair in second.pairs} == {"a": False, "b": True}
    assert set(rows(spec)) == {"a", "b"}
