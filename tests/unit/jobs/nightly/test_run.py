from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from jobs.cli.main import run
from jobs.nightly.history import History, Pair
from jobs.nightly.run import due_pairs
from pipelines.errors import ModelUnavailableError
from pipelines.plan.run_spec import RunSpec
from tests.unit.jobs.nightly.cases import EARLIER, NOW, random


@pytest.fixture
def spec(maia_data: str, tmp_path: Path) -> RunSpec:
    return RunSpec(data=maia_data, out=str(tmp_path / "out"), models={"m": random()}, benchmarks=("maia",))


def record_first_night(history: History, spec: RunSpec) -> None:
    """Record a night in which every pair ran."""
    pairs = [
        Pair(
            night=EARLIER, model=status.model, benchmark=status.benchmark, state="ran", measured=EARLIER,
            fingerprint=status.fingerprint, parts=status.parts,
        )
        for status in due_pairs(spec, history)
    ]  # fmt: skip
    history.write(EARLIER, pairs, [], "")


def test_due_pairs_name_what_changed(spec: RunSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    history = History(str(tmp_path / "history"))
    assert [status.why for status in due_pairs(spec, history)] == ["new"]
    record_first_night(history, spec)

    def reasons(**changes: object) -> list[str]:
        return [status.why for status in due_pairs(replace(spec, **changes), history)]

    assert reasons() == [""]
    assert reasons(models={"m": random(seed=7)}) == ["changed: model"]
    assert reasons(models={"m": random(generation={"temperature": 1.0})}) == ["changed: model"]
    assert reasons(judges=(("j", random()),)) == ["changed: judge"]
    assert reasons(limit="3") == ["changed: cells"]
    assert reasons(settings=("1-frame",)) == ["changed: cells"]
    assert reasons(models={"m": random(), "new": random()}) == ["", "new"]
    assert reasons(address="127.0.0.1:1", out=str(tmp_path / "elsewhere")) == [""]
    history = History(str(tmp_path / "history"))
    record_first_night(history, spec)
    monkeypatch.setattr("jobs.nightly.budget.code_fingerprint", lambda: "other")
    assert [status.why for status in due_pairs(spec, history)] == ["changed: code"]


def test_fewer_pairs_keep_the_others_known(spec: RunSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    history = History(str(tmp_path / "history"))
    two = replace(spec, models={"m": random(), "n": random(seed=2)})
    record_first_night(history, two)
    other = Pair(night=NOW, model="n", benchmark="maia", state="failed", why="away", measured=EARLIER)
    history.write(NOW, [other], [], "")
    steady, failed = due_pairs(two, history)
    assert (steady.why, failed.why[:9]) == ("", "changed: ")
    assert steady.before.measured == EARLIER  # so its shift is searched
    assert failed.before == other  # the newest night that had it
    monkeypatch.setattr("jobs.nightly.history.MAX_NIGHTS", 1)
    assert next(status.why for status in due_pairs(two, history)) == "new"


@pytest.mark.parametrize("as_json", [True, False])
def test_night_in_which_all_pairs_fail_is_recorded_and_exits_with_3(
    maia_data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], as_json: bool
) -> None:
    def raise_unavailable(*_: object, **__: object) -> None:
        raise ModelUnavailableError("model 'random': its weights are not here")

    monkeypatch.setattr("jobs.nightly.run.run_sweep", raise_unavailable)
    summary_file = tmp_path / "summary.md"
    arguments = ["nightly", "--models", "random", "--benchmarks", "maia", "--data", maia_data]
    arguments += ["--out", str(tmp_path / "out"), "--summary", str(summary_file), *(["--json"] if as_json else [])]
    assert run(arguments) == 3
    captured = capfd.readouterr()
    assert "its weights are not here" in summary_file.read_text()
    assert captured.out.count("its weights are not here") == 1
    assert "its weights" not in captured.err
    assert "the nightly run was recorded" in captured.err
    if as_json:
        assert [pair["state"] for pair in json.loads(captured.out)["pairs"]] == ["failed"]
    assert len(History(str(tmp_path / "out" / "history")).last_pairs({("random", "maia")})) == 1
