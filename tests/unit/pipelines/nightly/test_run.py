"""What makes a pair due, what counts as moved, what is kept, and a summary that hostile text cannot upset."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from jobs.cli.main import run
from models.spec import ModelSpec, Price
from pipelines.errors import ModelUnavailableError
from pipelines.nightly.cost import cost
from pipelines.nightly.fingerprints import code_fingerprint
from pipelines.nightly.history import History, Pair, night_name
from pipelines.nightly.records import NightlyResult, PairStatus
from pipelines.nightly.run import _moves, due_pairs
from pipelines.nightly.summary import summary
from pipelines.plan.run_spec import RunSpec
from pipelines.plan.selection import Limit

EARLIER, NOW = "20260101T020000.000000Z", "20260102T020000.000000Z"


@pytest.fixture
def spec(maia_data: str, tmp_path: Path) -> RunSpec:
    return RunSpec(data=maia_data, out=str(tmp_path / "out"), models={"m": random()}, benchmarks=("maia",))


def random(**more: object) -> ModelSpec:
    return ModelSpec(engine="random", **more)


def kept(history: History, spec: RunSpec) -> None:
    """A first night in which everything went well."""
    pairs = [
        Pair(
            night=EARLIER, model=due.model, benchmark=due.benchmark, state="ran", measured=EARLIER,
            fingerprint=due.fingerprint, parts=due.parts,
        )
        for due in due_pairs(spec, history)
    ]  # fmt: skip
    history.write(EARLIER, pairs, [], "")


def test_what_is_due_and_why(spec: RunSpec, tmp_path: Path) -> None:
    history = History(str(tmp_path / "history"))
    assert [due.why for due in due_pairs(spec, history)] == ["new"]
    kept(history, spec)

    def why(**changes: object) -> list[str]:
        return [due.why for due in due_pairs(replace(spec, **changes), history)]

    assert why() == [""]
    assert why(models={"m": random(seed=7)}) == ["changed: model"]
    assert why(models={"m": random(generation={"temperature": 1.0})}) == ["changed: model"]
    assert why(judge=("j", random())) == ["changed: judge"]
    assert why(limit=Limit.parse("3")) == ["changed: cells"]
    assert why(settings=("1-frame",)) == ["changed: cells"]
    assert why(models={"m": random(), "new": random()}) == ["", "new"]
    assert why(address="127.0.0.1:1", out=str(tmp_path / "elsewhere")) == [""]


def test_changed_code_makes_everything_due(spec: RunSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    history = History(str(tmp_path / "history"))
    kept(history, spec)
    monkeypatch.setattr("pipelines.nightly.fingerprints.code_fingerprint", lambda: "other")
    assert [due.why for due in due_pairs(spec, history)] == ["changed: code"]


def test_a_night_over_fewer_pairs_makes_no_other_new(
    spec: RunSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = History(str(tmp_path / "history"))
    two = replace(spec, models={"m": random(), "n": random(seed=2)})
    kept(history, two)
    other = Pair(night=NOW, model="n", benchmark="maia", state="failed", why="away", measured=EARLIER)
    history.write(NOW, [other], [], "")
    steady, failed = due_pairs(two, history)
    assert (steady.why, failed.why[:9]) == ("", "changed: ")
    assert steady.before is not None
    assert steady.before.measured == EARLIER  # so its movement is looked for
    assert failed.before == other  # the newest night that had it
    monkeypatch.setattr("pipelines.nightly.history.NIGHTS_BACK", 1)
    assert next(due.why for due in due_pairs(two, history)) == "new"


@pytest.mark.parametrize("as_json", [True, False])
def test_a_night_in_which_nothing_could_be_run_is_told_and_ends_with_3(
    maia_data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], as_json: bool
) -> None:
    def away(*_: object, **__: object) -> None:
        raise ModelUnavailableError("model 'random': its weights are not here")

    monkeypatch.setattr("pipelines.nightly.run.run_sweep", away)
    monkeypatch.setattr("pipelines.nightly.run.connect", lambda _: nullcontext())
    told = tmp_path / "told.md"
    arguments = ["nightly", "--models", "random", "--benchmarks", "maia", "--data", maia_data]
    arguments += ["--out", str(tmp_path / "out"), "--summary", str(told), *(["--json"] if as_json else [])]
    assert run(arguments) == 3
    shown = capfd.readouterr()
    assert "its weights are not here" in told.read_text()
    assert shown.out.count("its weights are not here") == 1
    assert "its weights" not in shown.err
    assert "the night is recorded" in shown.err
    if as_json:
        assert [pair["state"] for pair in json.loads(shown.out)["pairs"]] == ["failed"]
    assert len(History(str(tmp_path / "out" / "history")).last_pairs({("random", "maia")})) == 1


def test_the_code_s_fingerprint_is_steady() -> None:
    first = code_fingerprint()
    code_fingerprint.cache_clear()
    assert code_fingerprint() == first
    assert len(first) == 16


def metric(value: float | None, **more: object) -> dict:
    row = {
        "benchmark": "maia", "task": "vsv", "model": "m", "setting": "1-frame", "subset": "", "category": "",
        "metric": "statement_accuracy", "value": value, "unit": "fraction", "n": 10, "n_failed": 0, "ci_low": 0.4,
        "ci_high": 0.6,
    }  # fmt: skip
    return {**row, **more}


@pytest.mark.parametrize(
    ("now", "moved"),
    [(0.5, False), (0.4, False), (0.6, False), (0.61, True), (0.39, True), (None, True)],
)
def test_a_number_moved_when_it_left_its_interval(tmp_path: Path, now: float | None, moved: bool) -> None:
    history = History(str(tmp_path))
    before = Pair(night=EARLIER, model="m", benchmark="maia", state="ran", measured=EARLIER)
    history.write(EARLIER, [before], [metric(0.5), metric(0.5, metric="unsure", ci_low=None, ci_high=None)], "")
    night = NightlyResult(name=NOW, pairs=[replace(before, night=NOW, measured=NOW)], metrics=[metric(now)])
    due = [PairStatus(model="m", benchmark="maia", parts={}, why="new", before=before)]
    found = list(_moves(night, due, history))
    assert bool(found) is moved
    night.moves = found
    assert night.alarms is moved
    night.moves = [replace(move, key=(*move.key[:5], "Spatial-Total", move.key[6])) for move in found]
    assert not night.alarms


def test_history_gives_back_what_was_written(tmp_path: Path) -> None:
    history = History(str(tmp_path))
    assert history.last_pairs({("m", "maia")}) == {}
    pair = Pair(night=NOW, model="m", benchmark="maia", state="failed", why="x", parts={"code": "1"}, cost_usd=None)
    history.write(NOW, [pair], [metric(0.5)], "# told\n")
    assert history.last_pairs({("m", "maia"), ("n", "maia")}) == {("m", "maia"): pair}
    assert history.metrics(NOW) == [{"night": NOW, **metric(0.5)}]
    assert history.metrics("") == history.metrics(EARLIER) == []
    assert night_name(datetime(2026, 1, 2, 2, tzinfo=UTC)) == NOW


def test_cost_is_by_tokens_and_by_gpu_hours(spec: RunSpec) -> None:
    priced = replace(spec, models={"m": random(price=Price(input_per_million=2.0, output_per_million=10.0))})
    used = {("predictions", "maia", "m"): (1_000_000, 100_000)}
    assert cost(priced, "maia", used, 60.0, None) == 3.0
    assert cost(spec, "maia", used, 60.0, 2.5) is None
    ours = ModelSpec(engine="transformers", model="x", tensor_parallel=4, replicas={"max": 2})
    assert cost(replace(spec, models={"m": ours}), "maia", used, 1800.0, 2.5) == 10.0


def test_a_hostile_message_stays_one_cell_of_text() -> None:
    bad = "a|b\n# head <script> @everyone [x](http://evil) `c`"
    pair = Pair(night=NOW, model=bad, benchmark="maia", state="failed", why=bad)
    text = summary(NightlyResult(name=NOW, pairs=[pair]), {bad})
    assert "<script>" not in text
    assert "@everyone" not in text
    assert "](http" not in text
    assert text.startswith("# Nightly 2026-01-02 02:00 UTC: 1 models failed\n")
    assert sum(line.startswith("#") for line in text.splitlines()) == 2
