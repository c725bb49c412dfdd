from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from jobs.cli.main import run
from jobs.nightly.history import History, Pair, run_name, run_time
from jobs.nightly.items import ItemScores, ScoreKey
from jobs.nightly.records import NightlyResult, PairStatus, gone_metrics, metric_pairs
from jobs.nightly.regressions import Change, Comparison, Level
from jobs.nightly.run import due_pairs, ran_pair
from pipelines.errors import DamagedPartError, ModelUnavailableError
from pipelines.plan.run_spec import RunSpec
from tests.support.damage_matrix import DAMAGES
from tests.unit.jobs.nightly.cases import EARLIER, NOW, metric, random


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
    failed = ran_pair(NOW, status(prompt="2"), "failed", "away")
    again, reverted = (replace(status(prompt=prompt), before=failed) for prompt in ("2", "1"))
    (pair,) = metric_pairs(night_with(0.7), [again], history, level)
    assert (pair.before.value, pair.now.value, pair.since) == (0.5, 0.7, EARLIER)
    assert metric_pairs(night_with(0.7), [reverted], history, level) == []  # compared by sample


def test_history_returns_what_was_written(tmp_path: Path) -> None:
    history = History(str(tmp_path))
    assert history.last_pairs({("m", "maia")}) == {}
    pair = Pair(night=NOW, model="m", benchmark="maia", state="failed", why="x", parts={"code": "1"}, cost_usd=None)
    history.write(NOW, [pair], [metric(0.5)], "# Nightly\n")
    assert history.last_pairs({("m", "maia"), ("n", "maia")}) == {("m", "maia"): pair}
    assert history.metrics(NOW) == [metric(0.5)]
    assert history.metrics("") == history.metrics(EARLIER) == []
    assert run_name(datetime(2026, 1, 2, 2, tzinfo=UTC)) == NOW
    assert run_time(NOW) == datetime(2026, 1, 2, 2, tzinfo=UTC)


def comparison(*levels: Level) -> Comparison:
    key = ScoreKey("m", "maia", "vsv", "1-frame", "correct")
    change = Change(key=key, direction="fell", before=0.5, now=None, n=3, p=0.0, test="paired", since=EARLIER)
    return Comparison(items={key: ItemScores.of(np.array(["a"]), np.array([1.0]))}, changes=[change], levels=levels)


def test_history_returns_changes_levels_and_the_scores_that_levels_name(tmp_path: Path) -> None:
    history = History(str(tmp_path))
    assert history.levels() == history.changes(NOW) == []
    first = comparison(Level(model="m", benchmark="maia", night=EARLIER, basis="b"))
    history.write(EARLIER, [], [], "", first)
    assert history.levels() == [*first.levels]
    assert history.changes(EARLIER) == first.changes
    assert list(history.items(EARLIER)) == list(first.items)
    moved = Level(model="m", benchmark="maia", night=NOW, basis="b", before=EARLIER, is_new=True)
    history.write(NOW, [], [], "", comparison(moved))
    assert history.levels() == [moved]
    assert [file.path for file in history.store.list("items")] == [f"items/{name}.parquet" for name in (EARLIER, NOW)]
    later = NOW.replace("0102", "0103")
    history.write(later, [], [], "", comparison(Level(model="m", benchmark="maia", night=NOW, basis="b")))
    assert [file.path for file in history.store.list("items")] == [f"items/{NOW}.parquet"]
    assert history.nights() == [EARLIER, NOW, later]


def test_night_that_was_killed_leaves_the_levels_of_the_one_before(tmp_path: Path) -> None:
    history = History(str(tmp_path))
    level = Level(model="m", benchmark="maia", night=EARLIER)
    history.write(EARLIER, [], [], "", comparison(level))
    history.store.put(f"changes/{NOW}.json", b'{"changes": [], "levels": []}')  # its pairs were never written
    assert history.levels() == [level]


@pytest.mark.parametrize("way", DAMAGES)
@pytest.mark.parametrize("kind", ["metrics", "items", "changes", "pairs"])
def test_damage_to_a_night_is_named_and_later_ones_go_on_without_it(tmp_path: Path, kind: str, way: str) -> None:
    for folder, night, value in (("this", NOW, 0.5), ("other", EARLIER, 0.75)):
        pair = Pair(night=night, model="m", benchmark="maia", state="ran")
        key = ScoreKey("m", "maia", "vsv", "1-frame", "correct")
        items = {key: ItemScores.of(np.array(["a", "b"]), np.array([value, 1.0]))}
        levels = [Level(model="m", benchmark="maia", night=night, basis="b")]
        compared = Comparison(items=items, changes=[], levels=levels)
        History(str(tmp_path / folder)).write(night, [pair], [metric(value)], "", compared)
    (path,), (other,) = ([*(tmp_path / folder / kind).iterdir()] for folder in ("this", "other"))
    content = DAMAGES[way](path.read_bytes(), other.read_bytes())
    path.unlink()

    def read() -> None:
        history = History(str(tmp_path / "this"))
        history.check()
        for night in history.nights():
            history.pairs(night)
            history.metrics(night)

    if content is not None:
        path.write_bytes(content)
        with pytest.raises(DamagedPartError, match=rf"{path.name}: .*nothing writes it again: delete it, and nights"):
            read()
        path.unlink()
    read()
