"""Answers that a judge judges again each night: planted drift, other verdicts without a shift, and none."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable
from itertools import product
from pathlib import Path
from statistics import fmean, median

import numpy as np
import pytest

from jobs.cli.main import run
from jobs.nightly.history import History
from jobs.nightly.judge_drift import JudgeEvidence
from jobs.nightly.records import NightlyResult
from jobs.nightly.run import run_nightly
from models.engines.random_baseline import RandomEngine
from models.spec import ModelSpec
from pipelines.ingest.dataset import load_tables
from pipelines.ingest.table import ingest_table
from pipelines.plan.run_spec import RunSpec
from pipelines.storage.parts import read_part
from pipelines.storage.store import Store
from tests.bench.nightly_simulation import judge_delay

JUDGE = ModelSpec(engine="random", seed=1)


@pytest.fixture
def night(tmp_path: Path) -> Callable[..., NightlyResult]:
    """Return a function that runs a night with a judge and so many answers judged again."""
    with (tmp_path / "questions.csv").open("w") as file:
        rows = csv.writer(file)
        rows.writerow(("id", "question", "answer"))
        rows.writerows((f"q{number}", f"What is {number}?", f"word {number}") for number in range(120))
    data = str(tmp_path / "data")
    ingest_table(str(tmp_path / "questions.csv"), Store(data), name="checked", kind="open")
    load_tables(data, ["checked"])

    def run_with(judge: ModelSpec, again: int = 100) -> NightlyResult:
        spec = RunSpec(
            data=data, out=str(tmp_path / "out"), models={"m": ModelSpec(engine="random")}, benchmarks=("checked",),
            judges=(("judge", judge),), judge_checks=again,
        )  # fmt: skip
        return run_nightly([spec], History(str(tmp_path / "history")))

    return run_with


def test_the_same_judge_has_not_drifted_on_other_answers(night: Callable[..., NightlyResult], tmp_path: Path) -> None:
    assert night(JUDGE, 40).drifts == []  # nothing was judged before
    history = Store(str(tmp_path / "history"))
    for _ in range(2):
        result = night(JUDGE, 40)
        (drift,) = result.drifts
        assert (drift.answers, drift.changed, drift.before - drift.now, drift.p) == (40, 0.0, 0.0, 1.0)
        assert not result.has_alarm
        assert [pair.state for pair in result.pairs] == ["unchanged"]
        assert "of 40 answers judged again, 0.0%" in result.summary
    replies = [read_part(history, info.path) for info in history.list("judged_again", "*.parquet")]
    ids = [{*part["request_id"].to_pylist()} for part in replies]
    assert {len(night_ids) for night_ids in ids} <= {40, 41}
    assert len(set.union(*ids)) > 40


def test_a_judge_that_accepts_all_under_its_old_name_alarms_with_share_and_report_line(
    night: Callable[..., NightlyResult], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    night(JUDGE)
    monkeypatch.setattr(RandomEngine, "_guess", lambda *_: "yes")
    result = night(JUDGE)
    assert [pair.state for pair in result.pairs] == ["unchanged"]
    (drift,) = result.drifts
    assert drift.is_alarm
    assert drift.now == 1.0
    assert drift.changed == pytest.approx(1.0 - drift.before)
    assert drift.ci_low is not None
    assert drift.ci_high is not None
    assert 0 < drift.ci_low < drift.changed < drift.ci_high < 1
    alarms = [change for change in result.comparison.alarms if change.key.score == "verdicts"]
    assert [(change.key.model, change.direction) for change in alarms] == [("judge", "rose")]
    assert "the judge has drifted" in (tmp_path / "out" / "report" / "report.md").read_text()
    assert "## Judges" in result.summary


def test_other_verdicts_as_often_accepted_are_a_share_and_no_alarm(night: Callable[..., NightlyResult]) -> None:
    night(JUDGE)
    (drift,) = night(ModelSpec(engine="random", seed=2)).drifts
    assert 0.3 < drift.changed < 0.7
    assert not drift.is_alarm


def test_judge_that_is_gone_keeps_the_earlier_nights_numbers(
    night: Callable[..., NightlyResult], tmp_path: Path
) -> None:
    night(JUDGE, 10)
    metrics = tmp_path / "out" / "report" / "metrics.json"
    earlier = json.loads(metrics.read_text())
    gone = ModelSpec(engine="openai", model="m", base_url="http://127.0.0.1:9/v1", retries=0)
    result = night(gone, 10)
    (pair,) = result.pairs
    assert pair.state == "failed"
    assert "model 'judge': " in pair.why
    assert any("the judge was not checked: model 'judge': " in warning for warning in result.warnings)
    assert json.loads(metrics.read_text()) == earlier
    assert [pair.state for pair in night(JUDGE, 10).pairs] == ["ran"]
    assert json.loads(metrics.read_text()) == earlier


def test_dry_run_states_what_judging_again_costs(
    night: Callable[..., NightlyResult], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    night(JUDGE, 10)
    models = tmp_path / "models.yaml"
    models.write_text(
        "m: {engine: random}\n"
        "judge: {engine: random, seed: 1, price: {input_per_million: 1000000.0, output_per_million: 0.0}}\n"
    )
    arguments = ["nightly", "--models", "m", "--judge", "judge", "--judge-checks", "10", "--benchmarks", "checked"]
    arguments += ["--models-file", str(models), "--data", str(tmp_path / "data"), "--out", str(tmp_path / "out")]
    assert run([*arguments, "--history", str(tmp_path / "history"), "--dry-run", "--json"]) == 0
    (sentence,) = json.loads(capfd.readouterr().out)["judge"]
    assert sentence.startswith("judge judge on checked: asked again about 10 answers at most: about ")
    assert "$" in sentence


def mean_bet(evidence: JudgeEvidence) -> float:
    return fmean(math.exp(log) for log in evidence.logs)


def test_bets_are_by_clips_and_of_all_numbers() -> None:
    nights = [
        JudgeEvidence(numbers=1).add(np.array(first), np.arange(2)).add(np.array(second), np.arange(2))
        for first, second in product(product((-1.0, 1.0), repeat=2), product((-2.0, 2.0), repeat=2))
    ]
    assert fmean(map(mean_bet, nights)) == pytest.approx(2)
    together = JudgeEvidence(numbers=1).add(np.ones(30), np.zeros(30))
    apart = JudgeEvidence(numbers=1).add(np.ones(30), np.arange(30))
    assert not together.is_alarm
    assert apart.is_alarm
    assert not JudgeEvidence(numbers=1).is_alarm
    single, many = (JudgeEvidence(numbers=numbers).add(np.ones(14), np.arange(14)) for numbers in (1, 100))
    assert many.rate == pytest.approx(100 * single.rate)


def test_a_shift_of_five_percent_on_sixty_answers_takes_about_two_weeks() -> None:
    reported = [judge_delay([5, number], 60, 0.05, 60) for number in range(30)]
    assert 5 <= median(reported) <= 16
    assert sum(judge_delay([5, number], 60, 0.0, 365) <= 365 for number in range(20)) <= 6
