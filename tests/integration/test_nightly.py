"""Nights with the random engine: all pairs, none, one changed model, one moved number, one unavailable model."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from cluster.connection import connect
from jobs.cli.main import run
from jobs.nightly.history import PAGE, History
from jobs.nightly.records import NightlyResult
from jobs.nightly.run import run_nightly
from models.spec import ModelSpec
from pipelines.plan.run_spec import RunSpec
from tests.support import maia_source
from tests.support.damage_matrix import damage, facts
from tests.support.scripted_engine import scripted


def pairs(history: Path) -> list[dict]:
    """Read the pairs of the newest night."""
    return pq.ParquetFile(max((history / "pairs").glob("*.parquet"))).read().to_pylist()


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_nightly_runs_only_changed_pairs_over_five_nights(
    maia_data: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with connect(None):  # one cluster for all nights
        check_five_nights(maia_data, tmp_path, capfd)


def check_five_nights(maia_data: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    models, history, out = tmp_path / "models.yaml", tmp_path / "kept", tmp_path / "out"
    config, summary = tmp_path / "nightly.yaml", tmp_path / "summary.md"
    config.write_text(
        f"models: [steady, other]\nbenchmarks: maia\ntasks: vsv\nsettings: black-video\ndata: {maia_data}\nout: {out}\n"
        f"history: {history}\nmodels-file: {models}\nsummary: {summary}\n"
    )

    def night(steady: str, other: str, code: int = 0) -> dict[str, dict]:
        models.write_text(f"steady: {steady}\nother: {other}\n")
        assert run(["nightly", "--config", str(config), "--json"]) == code
        payload = json.loads(capfd.readouterr().out.splitlines()[-1])
        return {pair["model"]: pair for pair in payload["pairs"]} | {"detail": payload}

    random = "{engine: random, price: {input_per_million: 1000000.0, output_per_million: 0.0}}"
    # Night 1: all.
    first = night(random, "{engine: random, answer: zzz}")
    assert [first[name]["why"] for name in ("steady", "other")] == ["new", "new"]
    assert first["steady"]["requests"] == 384
    assert first["steady"]["cost_usd"] == first["steady"]["input_tokens"] > 0
    assert first["other"]["cost_usd"] is None
    assert "all well" in summary.read_text()
    # Night 2: nothing changed, and no cluster is needed to know it.
    second = night(random, "{engine: random, answer: zzz}")
    assert [second[name]["state"] for name in ("steady", "other")] == ["unchanged", "unchanged"]
    assert second["detail"]["cost_usd"] == 0
    # Night 3: the answers of one model changed; only it runs, its numbers moved, and an alert is sent.
    third = night(random, "{engine: random, seed: 7}", code=1)
    assert [third[name]["state"] for name in ("steady", "other")] == ["unchanged", "ran"]
    assert third["other"]["why"] == "changed: model"
    changes = third["detail"]["changes"]
    assert {change["key"]["model"] for change in changes} == {"other"}
    assert any((change["key"]["score"], change["direction"]) == ("correct", "rose") for change in changes)
    assert third["detail"]["gone"] == []
    assert "## Moved" in summary.read_text()
    # Night 4: one cannot be had; the other runs, and nothing of the first is forgotten.
    fourth = night("{engine: random, seed: 5}", "{engine: transformers, model: no/such-hub-id}", code=1)
    assert (fourth["steady"]["state"], fourth["other"]["state"]) == ("ran", "failed")
    assert fourth["other"]["measured"] == third["other"]["measured"]
    assert "no/such" in summary.read_text()
    joint = json.loads((out / "report" / "metrics.json").read_text())
    assert {row["model"] for row in joint} == {"steady", "other"}  # that of the third night
    assert "other on maia (failed)" in (out / "report" / "report.md").read_text()
    # Night 5: it is back as in the third night, and runs again because the last attempt failed.
    models.write_text(f"steady: {{engine: random, seed: 5}}\nother: {random}\n")
    assert run(["nightly", "--config", str(config), "--json", "--dry-run"]) == 0
    plan = json.loads(capfd.readouterr().out.splitlines()[-1])["pairs"]
    assert {pair["model"]: pair["why"] for pair in plan} == {"steady": "", "other": "changed: model"}
    # What is kept: a night a file, the newest complete.
    assert len(list((history / "pairs").glob("*.parquet"))) == 4
    assert {row["model"] for row in pairs(history)} == {"steady", "other"}
    history_rows = pq.ParquetFile(max((history / "metrics").glob("*.parquet"))).read().to_pylist()
    assert {row["model"] for row in history_rows} == {"steady"}
    assert len(list((history / "summaries").glob("*.md"))) == 4


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_regression_alarms_one_night_and_failed_rows_are_retried_alone(maia_data: str, tmp_path: Path) -> None:
    spec = RunSpec(
        data=maia_data, out=str(tmp_path / "out"), models={}, benchmarks=("maia",), tasks=("vsv",),
        settings=("black-video",),
    )  # fmt: skip
    history, journal = History(str(tmp_path / "history")), tmp_path / "calls"

    def night(limit: str = "false", **entry: object) -> NightlyResult:
        models: dict[str, ModelSpec] = {"a": scripted(**entry)}
        return run_nightly([replace(spec, models=models, fail_on_error=limit)], history)

    with connect(None):
        results = [night(), night(answer="zzz"), night(answer="zzzz"), night()]
        assert [result.has_alarm for result in results] == [False, True, False, False]
        (fell, *_) = results[1].comparison.alarms
        assert (fell.key.model, fell.direction, fell.now, fell.test) == ("a", "fell", 0.0, "paired")
        assert {change.direction for change in results[3].comparison.changes} == {"returned"}
        assert "## Moved" in results[1].summary
        assert "## Returned" in results[3].summary
        assert "fell: " in history.store.get(PAGE).decode()

        flaky = {"answer": "yyy", "fail_share": 0.2, "journal": str(journal)}  # another answer: a changed model runs
        first = night("true", **flaky)
        assert first.over_budget == ["a"]
        calls = len(journal.read_text().splitlines())
        second = night("true", **flaky)
        assert [pair.why for pair in second.pairs] == ["failed the last time"]
        assert 0 < len(journal.read_text().splitlines()) - calls < calls / 2


FLAGS = (
    *("--benchmarks", "maia", "--tasks", "oevqa", "--settings", "1-frame", "--judge", "n"),
    *("--models-file", "models.yaml", "--data", "data", "--out", "out"),
)
MODELS = "m: {{engine: random, seed: {}}}\nn: {{engine: random, seed: 9}}\no: {{engine: random, seed: 3}}\n"
WAYS = ("bit in the middle", "truncated", "empty", "deleted")
KINDS = ("run.json", "part of predictions", "part of scores", "part of judgements", "part of a plan",
         "metrics of the report", "manifest of the data", "shard of the data", "clip of the data")  # fmt: skip
REMEDIES = {
    "vlmsweep score": ("score",),
    "vlmsweep report": ("report",),
    "vlmsweep run": ("run",),
    "--refresh-days 0": ("nightly", "--refresh-days", "0"),
    "move it away": ("nightly", "--refresh-days", "0"),
    "ingest": ("nightly",),
}


def metrics(root: Path) -> dict[tuple[str, ...], object]:
    """Return the values of the joint report by model, task and name."""
    rows = json.loads((root / "out/report/metrics.json").read_text())
    keys = ("model", "task", "setting", "subset", "category", "metric")
    return {tuple(row[key] for key in keys): row["value"] for row in rows if row["unit"] != "seconds"}


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A first night of `m`, in `base`; the same and a second one of `m` and `o`, in `whole`."""
    folder = tmp_path_factory.mktemp("nights")
    maia_source.write_source(folder / "source", videos=1, categories=1)
    (folder / "base").mkdir()
    (folder / "base/models.yaml").write_text(MODELS.format(1))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder / "base")
        assert run(["ingest", "maia", "../source", "--data", "data"]) == 0
        assert run(["nightly", *FLAGS, "--models", "m"]) == 0
        shutil.copytree(folder / "base", folder / "whole")
        patch.chdir(folder / "whole")
        assert run(["nightly", *FLAGS, "--models", "m,o"]) == 0
    return folder


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
def test_damage_to_a_finished_night_is_named_or_heals(
    kind: str, nights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    expected, earlier, right = facts(nights / "whole"), metrics(nights / "base"), metrics(nights / "whole")
    for way in WAYS:
        root = Path(shutil.copytree(nights / "base", tmp_path / way))
        monkeypatch.chdir(root)
        path = damage(kind, way, root, nights / "whole")
        capfd.readouterr()
        caplog.clear()
        code = run(["nightly", *FLAGS, "--models", "m,o"])
        message = capfd.readouterr().err + caplog.text
        where = (kind, way, code, message)
        assert code in (0, 1, 2, 3), where
        assert "Traceback" not in message, where
        is_partial = "answers that an earlier night" in message or "failed rows of" in message
        if (root / "out/report/metrics.json").exists() and not is_partial:
            shown = metrics(root)
            assert all(value in (right[key], earlier.get(key)) for key, value in shown.items()), where
            if shown == right:
                continue
        assert any(words in message for words in (path.name, "no ingested data", "answers that an earlier night")), (
            where
        )
        (remedy, *_) = [command for words, command in REMEDIES.items() if words in message]
        if "move it away" in message:
            path.rename(root / "moved")
        if "ingest" in message:
            assert run(["ingest", "maia", str(nights / "source"), "--data", "data"]) == 0
        assert run([*remedy, *FLAGS, "--models", "m,o"]) == 0, where
        assert run(["report", *FLAGS, "--models", "m,o"]) == 0, where
        assert facts(root) == expected, where
